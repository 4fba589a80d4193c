// SPDX-License-Identifier: Apache-2.0
// A packed data set: samples by number, in any container.
//
// A sample is one KPLRecord (dataio/record/record.h). The container is detected by its content:
// shards (dataio/record/shard.h), a KPLRecord directory as the original package writes it, or an
// LMDB store. The same records in the same order have the same identity in all of them.
//
// KPLRecord directories contain no checksums, classes or counts. When one is first opened, all
// records are read once and the results are written beside them as NAME.sums; where the folder is
// not writable, a warning says so and every opening reads everything again.
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
// The same for reading records only, as data processes do: the identity is "", and a KPLRecord
// directory without NAME.sums is not scanned: it has no classes, and its records are checked
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
// Number of samples of each class, of records that have one; 'out' has room for all classes.
void sr_dataset_class_sizes(const sr_dataset *dataset, int64_t *out);
// Reads 'count' records from 'first' on: the class of each into out[count]. SR_E_DATA naming a
// sample without one.
SR_NODISCARD sr_status sr_dataset_read_labels(sr_dataset *dataset, int64_t first, int64_t count,
                                              int32_t *out);
// Whether the path has this split.
bool sr_dataset_has_split(const char *path, const char *split);
// Identity of the content (SHA-256 hex over the records' hashes in order; not of paths).
const char *sr_dataset_identity(const sr_dataset *dataset);
// Distinguishes an opened split from another one that is at its path later, in the same job.
typedef struct sr_dataset_stamp {
    int64_t count;
    uint64_t layout;  // hash of where records begin and end
    uint64_t content; // hash of the records' hashes; 0 where some files have none
    uint64_t files;   // hash of the files' stamps (sr_file_stamp)
} sr_dataset_stamp;
// The stamp of an opened split.
sr_dataset_stamp sr_dataset_get_stamp(const sr_dataset *dataset);
// SR_E_DATA where the split that was opened is not the one with this stamp. The same records in
// other files (a copy, a remount, another host) are the same; where records have no hashes, files
// must be the same, too.
SR_NODISCARD sr_status sr_dataset_check_stamp(const sr_dataset *dataset, const char *path,
                                              const sr_dataset_stamp *expected);
// SR_E_DATA where the identity of an opened split is not the one that it had before. identity
// NULL: any.
SR_NODISCARD sr_status sr_dataset_check_identity(const sr_dataset *dataset, const char *path,
                                                 const char *identity);
// Turns the failure to open a split that was open before into SR_E_DATA, if what is at the path
// caused it.
SR_NODISCARD sr_status sr_dataset_fail_reopen(sr_status status, const char *path);
// Median of the shorter sides of the samples (0 when unknown).
int64_t sr_dataset_median_side(const sr_dataset *dataset);
// Mean and standard deviation of R, G, B (of values / 255) over the pictures that were sampled when
// packing; false when none were, and the outputs are then unchanged.
bool sr_dataset_normalisation(const sr_dataset *dataset, double mean[3], double std[3]);
// What its data files are called: "shard" or "shards", "KPLRecord directory", "LMDB store".
const char *sr_dataset_file_noun(const sr_dataset *dataset);
// Number of data files (dataio/record/shard.h): one, except in a folder of shards.
int sr_dataset_file_count(const sr_dataset *dataset);
// Data file 'index', from 0; borrowed until free.
const struct sr_data_file *sr_dataset_file(const sr_dataset *dataset, int index);
// Reads one record; *data is valid until the next read through this handle. Verifies the record's
// hash (SR_E_CHECKSUM naming file and record). SR_E_DATA where it cannot be read because its file
// was replaced or written to after the split was opened; sr_dataset_has_changed is then true.
SR_NODISCARD sr_status sr_dataset_read(sr_dataset *dataset, int64_t index, const void **data,
                                       size_t *bytes);
// Whether reading has failed because a file is not the one that was opened, which no other sample
// can make up for.
bool sr_dataset_has_changed(const sr_dataset *dataset);
// Position of a sample, for sequential reading: number of the data file, offset and length in it
// (in an LMDB store: in the sequence of its records).
SR_NODISCARD sr_status sr_dataset_locate(const sr_dataset *dataset, int64_t index, int *file,
                                         uint64_t *offset, uint64_t *bytes);
// How the bytes of consecutive samples will be used.
typedef enum sr_dataset_advice {
    SR_DATASET_SOON = 0, // they are read next: the kernel may fetch all of them at once
    SR_DATASET_DONE,     // they are not read again soon and may leave the page cache
} sr_dataset_advice;
// Passes this to the kernel as a hint, which changes no result and never fails.
void sr_dataset_advise(sr_dataset *dataset, int64_t first, int64_t count, sr_dataset_advice advice);
// "train-00002.kpl record 17", "train/root.data record 17" into out (at least 300 bytes), for
// messages.
char *sr_dataset_sample_name(const sr_dataset *dataset, int64_t index, char *out);

#ifdef __cplusplus
}
#endif
#endif
