// SPDX-License-Identifier: Apache-2.0
// Shards: files of KPLRecords that are either complete or absent, and in which any changed bit is
// detected.
//
// A data set folder contains SPLIT-NNNNN.kpl, numbered from 00000. All numbers are little-endian.
//
//   offset  bytes  header
//        0      8  89 'K' 'P' 'L' 0D 0A 1A 0A (text-mode damage shows, as in PNG)
//        8      4  u32 version, 1
//       12      4  u32 H, bytes of the header, a multiple of 8
//       16      8  u64 bytes of the file
//       24      8  u64 n, records
//       32      8  u64 number in the split of the first record here
//       40      4  u32 number of the shard
//       44      4  u32 flags: bit 0 = last shard of the split; the others 0
//       48     16  split name, padded with zeros ("train", "val", "test")
//       64      4  u32 C, classes
//       68      4  u32 bytes of the class names
//       72      4  u32 bytes of the protocol
//       76      4  u32 median of the shorter side of the pictures here (0: unknown)
//       80      8  u64 pixels in the sums that follow (0: none were sampled)
//       88     24  u64 sum of R, G, B (0..255) over the sampled pictures
//      112     24  u64 sum of their squares
//      136     8C  u64 records of each class (where records have one label)
//        +         class names: for each u32 length, then UTF-8
//        +         protocol: text-format Meta (dataio/record/protocol.h)
//        +         zeros up to H - 8
//      H-8      8  u64 XXH3-64 of bytes 0 .. H-8
//
//        H         n records (dataio/record/record.h) without gaps; this range alone is a KPLRecord
//                  N.data file
//        I    24n  index: u64 offset in the file, u64 length, u64 XXH3-64 of each record
//  I + 24n     40  footer: u64 I, u64 n, u64 XXH3-64 of the index, 89 'K' 'P' 'L' 'E' 'N' 'D' 0A,
//                  u64 XXH3-64 of the 32 bytes before
//
// Every bit is covered by a checksum or compared with a value that is. A shard is written under a
// temporary name, fsynced and renamed; the flag of the last one shows that a split is complete.
#ifndef SR_DATAIO_SHARD_H
#define SR_DATAIO_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_SHARD_VERSION 1 // of the format above
// Default size of a shard, 256 MiB.
#define SR_SHARD_TARGET_BYTES (UINT64_C(256) << 20)
#define SR_SPLIT_MAX 15      // characters of a split's name
#define SR_SHARD_NAME_MAX 32 // "SPLIT-NNNNN.kpl" with its terminator

// Exact sums over sampled pixels, which may be added in any order.
typedef struct sr_channel_sums {
    uint64_t pixels, sum[3], square[3];
} sr_channel_sums;

// Adds one set of sums to another.
void sr_channel_sums_add(sr_channel_sums *into, const sr_channel_sums *from);
// Adds packed RGB pixels.
void sr_channel_sums_add_rgb(sr_channel_sums *into, const uint8_t *rgb, uint64_t pixels);
// Mean and standard deviation of values / 255. False when no pixel was counted; the outputs are
// then unchanged.
bool sr_channel_sums_get(const sr_channel_sums *sums, double mean[3], double std[3]);

// -- writing -----------------------------------------------------------------------------------

// What to write.
typedef struct sr_writer_options {
    const char *folder; // must exist
    const char *split;  // NULL: "train"
    const char *const *classes;
    int class_count;       // 0: records have no class
    const char *protocol;  // as "{data: bytes, ...}"; NULL: SR_SAMPLE_PROTOCOL
    uint64_t target_bytes; // of a shard, unless one record is larger; 0: SR_SHARD_TARGET_BYTES
    uint32_t first_shard;  // to resume: number of the first shard,
    uint64_t first_record; // and of its first record
    const char *format;    // the container: "shards" (NULL), "kpl-dir", "lmdb"
} sr_writer_options;

// Writes one split: its shards in order, or another container. One thread at a time.
typedef struct sr_writer sr_writer;

// SR_E_EXISTS where the folder already has this split; SR_E_USAGE for an invalid protocol or
// format.
SR_NODISCARD sr_status sr_writer_open(const sr_writer_options *options, sr_writer **out);
// Appends one record (of any writer). SR_E_DATA when it does not follow the protocol or its label
// is not a class. The bytes are copied to the file before the function returns.
SR_NODISCARD sr_status sr_writer_append(sr_writer *writer, const void *record, size_t bytes);
// Number of the shard that is being written or is next; those before it are durable.
uint32_t sr_writer_shard(const sr_writer *writer);
// Adds pixel sums of the record that was appended last.
void sr_writer_add_sums(sr_writer *writer, const sr_channel_sums *sums);
// Makes the last shard durable and frees the writer, also on failure (what was not yet renamed is
// then removed). SR_E_DATA when nothing was appended.
SR_NODISCARD sr_status sr_writer_close(sr_writer *writer);
// Frees the writer and discards its last shard; NULL is legal. Finished shards stay.
void sr_writer_abort(sr_writer *writer);

// -- reading -----------------------------------------------------------------------------------

// Offset and length of a record in its file, in bytes, and its XXH3-64.
typedef struct sr_index_entry {
    uint64_t offset, bytes, hash;
} sr_index_entry;

// Distinguishes a file from another one that took its name, and from one that was written to since.
// Within the life of a job these belong to the content. The device's number does not: a remount
// changes it. Stamps of different hosts are never compared.
typedef struct sr_file_stamp {
    uint64_t inode, bytes, modified_ns;
} sr_file_stamp;

// A file of records in any container (container.h): a shard, an LMDB file, the N.data of a
// KPLRecord directory. Its contents are the verified header and index of a shard, or their
// equivalent. No file descriptor is kept. Immutable after loading.
typedef struct sr_data_file {
    const char *path, *name; // whole path; as messages name it
    const char *split;
    uint32_t number;
    bool last;
    uint64_t file_bytes, first_record;
    int64_t count;
    int class_count;
    const char *const *classes;
    const uint64_t *class_records; // [class_count]
    const char *meta;              // protocol as text-format Meta
    int64_t median_side;           // 0: unknown
    sr_channel_sums sums;
    sr_file_stamp stamp;     // when it was loaded
    sr_index_entry *entries; // [count]
    // Not NULL: entries have no hashes; records are checked against this protocol instead.
    const struct sr_type *check;
    sr_arena arena;
} sr_data_file;

// Loads a shard. SR_E_NOT_FOUND; SR_E_DATA (not a shard, truncated), SR_E_CHECKSUM (bits changed)
// naming what is damaged; SR_E_UNSUPPORTED for a newer version.
SR_NODISCARD sr_status sr_shard_load(const char *path, sr_data_file *out);
// Frees everything that it points to.
void sr_data_file_release(sr_data_file *shard);
// True when the file begins with the magic bytes of a shard.
bool sr_shard_is(const char *path);
// "train-00003.kpl" into out[SR_SHARD_NAME_MAX]; returns out.
char *sr_shard_file_name(const char *split, uint32_t number, char *out);
// Parses such a file name; split has room for SR_SPLIT_MAX + 1 characters.
bool sr_shard_parse_name(const char *file, char *split, uint32_t *number);

// Called once for each finding of a check.
typedef void (*sr_damage_fn)(void *user, const char *message);

// What a check has counted.
typedef struct sr_verify_result {
    uint64_t files, records, bytes; // checked
    uint64_t damaged;               // findings
    const char *noun;               // what the files are called, as "shard" or "LMDB stores"
} sr_verify_result;

// Checks every byte of a shard and the structure of every record; adds to *result and continues
// after damage. A finding names shard, record, and the record's name and key where they can be
// read. The status is an error only where the shard could not be checked (SR_E_IO, SR_E_MEMORY).
SR_NODISCARD sr_status sr_shard_verify(const char *path, sr_damage_fn damage, void *user,
                                       sr_verify_result *result);

#ifdef __cplusplus
}
#endif
#endif
