// SPDX-License-Identifier: Apache-2.0
// Shared by the files about shards: sizes and codecs of header, index and footer (format: shard.h).
#ifndef SR_DATAIO_SHARD_INTERNAL_H
#define SR_DATAIO_SHARD_INTERNAL_H

#include "dataio/record/shard.h"

#define SHARD_HEADER_FIXED 136
#define SHARD_HEADER_MAX (UINT32_C(64) << 20)
#define SHARD_FOOTER_BYTES 40
#define SHARD_ENTRY_BYTES 24
#define SHARD_FLAG_LAST 1u

extern const uint8_t sr_shard_magic[8], sr_shard_end_magic[8];

static inline void put_u32(uint8_t *out, uint32_t value) {
    for (unsigned i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static inline void put_u64(uint8_t *out, uint64_t value) {
    for (unsigned i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static inline uint32_t get_u32(const uint8_t *in) {
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static inline uint64_t get_u64(const uint8_t *in) {
    return (uint64_t)get_u32(in) | (uint64_t)get_u32(in + 4) << 32;
}

// The contents of a header, as the writer has them.
typedef struct shard_header {
    uint64_t file_bytes, records, first_record;
    uint32_t number, flags;
    const char *split;
    const char *const *classes;
    uint32_t class_count;
    const uint64_t *class_records;
    const char *meta;
    size_t meta_bytes;
    uint32_t median_side;
    sr_channel_sums sums;
} shard_header;

// Bytes of the header; 0 when it would be over SHARD_HEADER_MAX.
uint32_t sr_shard_header_bytes(const shard_header *header);
// Writes that many bytes.
void sr_shard_header_encode(const shard_header *header, uint8_t *out);
// Decodes a verified copy of a header; names and arrays are allocated in the arena of *out.
SR_NODISCARD sr_status sr_shard_header_decode(const uint8_t *data, uint32_t bytes,
                                              sr_data_file *out);

// The steps of loading, so that a check can continue after a damaged one. 'fd' is the open shard
// and 'actual' the length of the file.
SR_NODISCARD sr_status sr_shard_load_header(int fd, uint64_t actual, sr_data_file *shard,
                                            uint64_t *header_bytes);
SR_NODISCARD sr_status sr_shard_load_index(int fd, uint64_t header_bytes, sr_data_file *shard);

// Index and footer of n records that end at 'end': n * SHARD_ENTRY_BYTES + SHARD_FOOTER_BYTES.
void sr_shard_index_encode(const sr_index_entry *entries, size_t n, uint64_t end, uint8_t *out);
// Decodes the index and footer of shard->count records that lie from 'begin' to 'end' without gaps.
SR_NODISCARD sr_status sr_shard_index_decode(const uint8_t *index, uint64_t begin, uint64_t end,
                                             sr_data_file *shard);
// Checks of a header that need no file: checksum, version, structure. Then decodes it.
SR_NODISCARD sr_status sr_shard_header_check(const uint8_t *data, uint32_t bytes,
                                             sr_data_file *shard);

// -- tables of contents ------------------------------------------------------------------------
//
// Header, index and footer of a shard, without the records between them: other containers store
// this table beside their records. Offsets are relative to the first record, and file_bytes is the
// length of all records.

// *out is new memory (sr_free).
SR_NODISCARD sr_status sr_contents_encode(const shard_header *header, const sr_index_entry *entries,
                                          uint8_t **out, size_t *bytes);
// *used is the length of the table; more may follow it. 'path' names it in messages, and becomes
// the path of *out.
SR_NODISCARD sr_status sr_contents_decode(const char *path, const uint8_t *data, size_t bytes,
                                          sr_data_file *out, size_t *used);

#endif
