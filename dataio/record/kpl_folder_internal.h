// SPDX-License-Identifier: Apache-2.0
// KPLRecord directories: their files, and the one that serried adds.
//
//   N.data   the records (FeatureMap messages, record.h), concatenated
//   N.index  one message Index: the offsets of the records in N.data and its length (protocol.h)
//   N.meta   text-format Meta: the protocol (protocol.h)
//   N.prop   optional: properties of the data set, such as class names (property.h)
//   N.sums   serried's own, ignored by other tools: a table of contents (shard_internal.h) with
//            checksums, classes and counts; then u64 XXH3-64 of N.index, of N.meta and of N.prop
//            (0: absent), and u64 XXH3-64 of these 24 bytes
//
// N is "root", or else the name of the first *.data in byte order that has one of its side files.
// The original writer writes N.index last, and leaves it empty when it dies before; ours makes it
// visible only when all other files are durable. So a directory with a complete N.index is
// complete.
//
// N.sums is written by `serried pack`, and for a directory of another writer when it is first
// opened, there or in the user's cache folder (container_kpl.c). From then on each changed bit of
// the directory is detected. It is never replaced: where it does not match the files beside it,
// either they are damaged, or they were rewritten and the user has to remove it.
#ifndef SR_DATAIO_KPL_FOLDER_INTERNAL_H
#define SR_DATAIO_KPL_FOLDER_INTERNAL_H

#include <stdbool.h>

#include "dataio/record/property.h"
#include "dataio/record/protocol.h"
#include "dataio/record/shard_internal.h"

#define KPL_STEM_MAX 128                 // characters of N, with the terminator
#define KPL_INDEX_MAX ((size_t)16 << 30) // bytes of N.index and N.sums
#define KPL_SUMS_TAIL 32                 // bytes after the table of contents
#define KPL_USUAL_STEM "root"            // N of what serried and, usually, others write

typedef struct kpl_file {
    char *path;
    void *data; // content; NULL: no such file
    size_t bytes;
    uint64_t hash; // XXH3-64; 0: no such file
} kpl_file;

// An opened directory: its side files as they are.
typedef struct kpl_folder {
    char *data_path;
    uint64_t data_bytes;
    sr_file_stamp data_stamp;
    kpl_file index, meta, prop, sums;
} kpl_folder;

// N of the directory; false where the folder is not a KPLRecord directory.
bool sr_kpl_find(const char *folder, char stem[KPL_STEM_MAX]);
// "FOLDER/STEM.EXTENSION" in new memory (sr_free).
char *sr_kpl_path(const char *folder, const char *stem, const char *extension);
// Reads the side files. SR_E_DATA where a required one is missing or empty.
SR_NODISCARD sr_status sr_kpl_open(const char *folder, kpl_folder *out);
void sr_kpl_release(kpl_folder *folder);

// The bytes of N.sums for a table of contents, into new memory (sr_free).
SR_NODISCARD sr_status sr_kpl_sums_encode(const kpl_folder *folder, const shard_header *header,
                                          const sr_index_entry *entries, uint8_t **out,
                                          size_t *bytes);
// Decodes N.sums; path and name of *out are those of N.sums. SR_E_CHECKSUM or SR_E_DATA where it
// does not match the directory.
SR_NODISCARD sr_status sr_kpl_sums_decode(const kpl_folder *folder, const uint8_t *data,
                                          size_t bytes, sr_data_file *out);

// Reads all of N.data to find what a directory without N.sums does not state: hashes, classes,
// counts, sides. *valid is false where a record does not follow the protocol; a warning names the
// first. The result is that of sr_kpl_sums_encode.
SR_NODISCARD sr_status sr_kpl_scan(const kpl_folder *folder, const sr_type *protocol, uint8_t **out,
                                   size_t *bytes, bool *valid);
// The entries of N.index, without hashes, in new memory (sr_free).
SR_NODISCARD sr_status sr_kpl_entries(const kpl_folder *folder, sr_index_entry **out,
                                      int64_t *count);

#endif
