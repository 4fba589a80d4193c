// SPDX-License-Identifier: Apache-2.0
// Checksums of a file: XXH3-64 of each 1 MiB chunk, and one sum over all of them.
//
// The chunk sums locate damage; 'total' is the XXH3-64 of the little-endian chunk sums with the
// file's length as seed, so it covers every byte and the length.
#ifndef SR_TRAINER_FILE_SUMS_H
#define SR_TRAINER_FILE_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_SUM_CHUNK_BYTES ((size_t)1 << 20)

typedef struct sr_file_sums {
    uint64_t bytes; // length of the file
    uint64_t total;
    uint64_t *chunks; // ceil(bytes / SR_SUM_CHUNK_BYTES) sums
    size_t count, capacity;
} sr_file_sums;

// Appends the sum of the next chunk (whole chunks, only the last may be shorter). Zero-initialise
// the sums.
SR_NODISCARD sr_status sr_file_sums_add(sr_file_sums *sums, const void *chunk, size_t bytes);
// Sets 'total'. No chunk may be added after it.
SR_NODISCARD sr_status sr_file_sums_finish(sr_file_sums *sums);
void sr_file_sums_release(sr_file_sums *sums);

// A copy that is independent of the original; release it as well.
SR_NODISCARD sr_status sr_file_sums_copy(const sr_file_sums *sums, sr_file_sums *out);

// The chunk that was read last, so that small neighbouring reads read it once. Zero-initialise;
// release with sr_sum_buffer_release.
typedef struct sr_sum_buffer {
    uint8_t *chunk;
    size_t bytes, index; // bytes in it, and its number; bytes is 0: none
} sr_sum_buffer;

// Reads bytes [offset, offset + bytes) of an open file, which must be inside it. Every chunk that
// they touch is compared in the memory from which they are copied: SR_E_CHECKSUM naming the chunk's
// bytes.
SR_NODISCARD sr_status sr_file_sums_read_at(int fd, const char *path, const sr_file_sums *sums,
                                            sr_sum_buffer *buffer, uint64_t offset, void *out,
                                            size_t bytes);
void sr_sum_buffer_release(sr_sum_buffer *buffer);
// SR_E_CHECKSUM if the file's length is not that of the sums.
SR_NODISCARD sr_status sr_file_sums_check_length(const char *path, const sr_file_sums *sums,
                                                 uint64_t length);

// What sr_file_sums_check found.
typedef struct sr_file_damage {
    uint64_t begin, end; // first damaged bytes
    size_t chunks;       // number of damaged chunks
} sr_file_damage;

// Reads the file (bypassing the page cache if the system allows it) and compares it. SR_E_NOT_FOUND
// for a missing file; SR_E_CHECKSUM, with the message and *damage set, for another length or
// changed bits. damage may be NULL.
SR_NODISCARD sr_status sr_file_sums_check(const char *path, const sr_file_sums *sums,
                                          sr_file_damage *damage);
// The same for an open file, which stays open; 'path' is for messages.
SR_NODISCARD sr_status sr_file_sums_check_open(int fd, const char *path, const sr_file_sums *sums,
                                               sr_file_damage *damage);

#ifdef __cplusplus
}
#endif
#endif
