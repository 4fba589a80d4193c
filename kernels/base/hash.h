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

uint64_t sr_hash64(const void *data, size_t bytes);
uint64_t sr_hash64_seed(const void *data, size_t bytes, uint64_t seed);

typedef struct sr_hash128 {
    uint64_t low, high;
} sr_hash128;

sr_hash128 sr_hash_128(const void *data, size_t bytes);

#define SR_SHA256_BYTES 32
#define SR_SHA256_HEX 65 // 64 digits and the terminator

typedef struct sr_sha256 sr_sha256;
SR_NODISCARD sr_status sr_sha256_create(sr_sha256 **out);
SR_NODISCARD sr_status sr_sha256_update(sr_sha256 *sha, const void *data, size_t bytes);
// Ends the computation; writes 32 bytes and, where hex is not NULL, SR_SHA256_HEX characters.
SR_NODISCARD sr_status sr_sha256_finish(sr_sha256 *sha, uint8_t *digest, char *hex);
void sr_sha256_free(sr_sha256 *sha);

#ifdef __cplusplus
}
#endif
#endif
