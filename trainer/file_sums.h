// SPDX-License-Identifier: Apache-2.0
// Checksums of a file: XXH3-64 of each 1 MiB chunk, and one sum over all of them.
//
// The chunk sums say where a file is damaged; 'total' is the XXH3-64 of the little-endian chunk
// sums with the file's length as seed, so that it covers every byte and the length.
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

// Zero-initialise; appends the sum of the next chunk (whole chunks, only the last may be shorter).
SR_NODISCARD sr_status sr_file_sums_add(sr_file_sums *sums, const void *chunk, size_t bytes);
// Sets 'total'. Nothing is added after it.
SR_NODISCARD sr_status sr_file_sums_finish(sr_file_sums *sums);
void sr_file_sums_release(sr_file_sums *sums);

// What sr_file_sums_check found.
typedef struct sr_file_damage {
    uint64_t begin, end; // first damaged bytes
    size_t chunks;       // number of damaged chunks
} sr_file_damage;

// Reads the file (past the page cache where the system lets us) and compares. SR_E_NOT_FOUND for a
// missing file; SR_E_CHECKSUM, with the message and *damage set, for another length or other bits.
// damage may be NULL.
SR_NODISCARD sr_status sr_file_sums_check(const char *path, const sr_file_sums *sums,
                                          sr_file_damage *damage);

#ifdef __cplusplus
}
#endif
#endif
