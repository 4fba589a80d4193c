// SPDX-License-Identifier: Apache-2.0
// Hashes: XXH3 for integrity of records and blocks, SHA-256 for identities and digests.
#ifndef SR_KERNELS_BASE_HASH_H
#define SR_KERNELS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// XXH3-64 of 'bytes' bytes (xxhash.com). Detects accidental damage, not attacks.
uint64_t sr_hash64(const void *data, size_t bytes);
// XXH3-64 with a seed.
uint64_t sr_hash64_seed(const void *data, size_t bytes, uint64_t seed);

// An XXH3-128 as two halves.
typedef struct sr_hash128 {
    uint64_t low, high;
} sr_hash128;

// XXH3-128 of 'bytes' bytes.
sr_hash128 sr_hash_128(const void *data, size_t bytes);

#define SR_SHA256_BYTES 32 // of a digest
#define SR_SHA256_HEX 65   // 64 digits and the terminator

// A SHA-256 computation (FIPS 180-4, through libcrypto). One thread at a time.
typedef struct sr_sha256 sr_sha256;
// Begins a computation. SR_E_MEMORY; SR_E_SYSTEM where libcrypto fails.
SR_NODISCARD sr_status sr_sha256_create(sr_sha256 **out);
// Appends bytes.
SR_NODISCARD sr_status sr_sha256_update(sr_sha256 *sha, const void *data, size_t bytes);
// Ends the computation; writes 32 bytes and, where hex is not NULL, SR_SHA256_HEX characters.
SR_NODISCARD sr_status sr_sha256_finish(sr_sha256 *sha, uint8_t *digest, char *hex);
// Frees it, finished or not; NULL is legal.
void sr_sha256_free(sr_sha256 *sha);

#ifdef __cplusplus
}
#endif
#endif
