// SPDX-License-Identifier: Apache-2.0
// The digest of a training state: one hex string that is equal if and only if all bits are equal.
//
// digest = SHA-256 of: "serried digest 1\n", the position (i64), the number of arrays (i64), and
// for each named array, in strcmp order of names: name, zero byte, dtype name, zero byte, number of
// elements (i64), and the XXH3-128 (low, high) of each block of 64 Ki elements (the last one may be
// shorter). Integers are little-endian. Blocks are counted from the array's own first element, so
// the digest does not depend on which rank hashed which block: owners hash their blocks, and one
// rank combines the hashes.
#ifndef SR_TRAINER_DIGEST_H
#define SR_TRAINER_DIGEST_H

#include <stdint.h>

#include "kernels/base/dtype.h"
#include "kernels/base/hash.h"
#include "kernels/base/status.h"
#include "trainer/exchange/exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

// Number of blocks of an array.
int64_t sr_digest_block_count(int64_t elements);

// Hashes blocks [first, first + count) of an array of 'elements' elements into out[0..count).
// 'data' points at the first element of block 'first', not of the array. A pure function; any
// thread may call it.
void sr_digest_hash_blocks(const void *data, sr_dtype dtype, int64_t elements, int64_t first,
                           int64_t count, sr_hash128 *out);

// An array of the state and the hashes of its blocks.
typedef struct sr_digest_array {
    const char *name;
    sr_dtype dtype;
    int64_t elements;
    const sr_hash128 *blocks; // sr_digest_block_count(elements) hashes
} sr_digest_array;

// Combines block hashes; the order of 'arrays' does not matter. hex: SR_SHA256_HEX characters.
// SR_E_ARGUMENT if two arrays have the same name.
SR_NODISCARD sr_status sr_digest_combine(const sr_digest_array *arrays, int count, int64_t position,
                                         char *hex);

#ifdef __cplusplus
}
#endif
#endif
