// SPDX-License-Identifier: Apache-2.0
// A packed data set: samples by number, whatever the container.
//
// A sample is one KPLRecord (dataio/record/record.h). What holds them is told by content: shards
// (dataio/record/shard.h), a KPLRecord directory as the original package writes it, an LMDB store.
// The same records in the same order have the same identity in all of them.
//
// KPLRecord directories have no checksums, classes or counts of their own. At the first opening all
// records are read once and what was found is written beside them, as NAME.sums; where the folder
// may not be written to, a warning says so and every opening reads all again.
#ifndef SR_DATAIO_DATASET_H
#define SR_DATAIO_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/hash.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// An opened split. One thread at a time.
typedef struct sr_dataset sr_dataset;

// Opens a split ("train", "val") of a folder, or one shard, KPLRecord directory or LMDB store
// (split NULL). An unpacked folder or tar is SR_E_USAGE with the pack command to run; a missing
// path SR_E_NOT_FOUND.
SR_NODISCARD sr_status sr_dataset_open(const char *path, const char *split, sr_dataset **out);
// The same for reading records alone, as data processes do: no identity (""), and of a KPLRecord
// directory without NAME.sums nothing is read ahead: it has no classes, and its records are checked
// against their protocol instead of a checksum.
SR_NODISCARD sr_status sr_dataset_open_records(const char *path, const char *split,
                                               sr_dataset **out);
// NULL is legal.
void sr_dataset_free(sr_dataset *dataset);
// Number of samples.
int64_t sr_dataset_count(const sr_dataset *dataset);
// Number of classes; 0 where records have none.
int sr_dataset_class_count(const sr_dataset *dataset);
// Borrowed until free.
const char *sr_dataset_class_name(const sr_dataset *dataset, int index);
// True when the split exists at this path.
bool sr_dataset_has_split(const char *path, const char *split);
// Identity of the content (SHA-256 hex over the records' hashes in order; not of paths).
const char *sr_dataset_identity(const sr_dataset *dataset);
// Median of the shorter side over the samples (0 when unknown).
int64_t sr_dataset_median_side(const sr_dataset *dataset);
// Mean and standard deviation of R, G, B (of values / 255) over the pictures that were sampled when
// packing; false when none were, and the arrays are then left alone.
bool sr_dataset_normalisation(const sr_dataset *dataset, double mean[3], double std[3]);
// What its parts are called: "shard" or "shards", "KPLRecord directory", "LMDB store".
const char *sr_dataset_file_noun(const sr_dataset *dataset);
// The parts in order (dataio/record/shard.h), borrowed until free; one, but of a folder of shards.
int sr_dataset_file_count(const sr_dataset *dataset);
// One of them, from 0.
const struct sr_data_file *sr_dataset_file(const sr_dataset *dataset, int index);
// Bytes of one record; *data is valid until the next read through this handle. Verifies the
// record's hash (SR_E_CHECKSUM naming file and record).
SR_NODISCARD sr_status sr_dataset_read(sr_dataset *dataset, int64_t index, const void **data,
                                       size_t *bytes);
// Where a sample lies, for sequential reading: shard number, offset and length in it (of an LMDB
// store: in the sequence of its records).
SR_NODISCARD sr_status sr_dataset_locate(const sr_dataset *dataset, int64_t index, int *shard,
                                         uint64_t *offset, uint64_t *bytes);
// What becomes of the bytes of consecutive samples.
typedef enum sr_dataset_advice {
    SR_DATASET_SOON = 0, // they are read next: the kernel may fetch all of them in one go
    SR_DATASET_DONE,     // they are not read again soon: they need not stay in the page cache
} sr_dataset_advice;
// Tells the kernel; a hint, which changes no result and never fails.
void sr_dataset_advise(sr_dataset *dataset, int64_t first, int64_t count, sr_dataset_advice advice);
// "train-00002.kpl record 17", "train/root.data record 17" into out (at least 300 bytes), for
// messages.
char *sr_dataset_sample_name(const sr_dataset *dataset, int64_t index, char *out);

#ifdef __cplusplus
}
#endif
#endif
