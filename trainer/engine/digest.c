// SPDX-License-Identifier: Apache-2.0
// Digests of the training state, as digest.h defines them.
//
// XXH3 per block makes the bulk cheap and lets every rank hash what it owns; SHA-256 over the block
// hashes makes the short result safe to compare by eye and to publish.
#include "trainer/engine/digest.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"

int64_t sr_digest_block_count(int64_t elements) {
    return (elements + SR_BLOCK_ELEMENTS - 1) / SR_BLOCK_ELEMENTS;
}

void sr_digest_hash_blocks(const void *data, sr_dtype dtype, int64_t elements, int64_t first,
                           int64_t count, sr_hash128 *out) {
    const uint8_t *bytes = data;
    size_t size = sr_dtype_size(dtype);
    for (int64_t b = 0; b < count; ++b) {
        int64_t left = elements - (first + b) * SR_BLOCK_ELEMENTS;
        size_t n = (size_t)(left < SR_BLOCK_ELEMENTS ? left : SR_BLOCK_ELEMENTS);
        out[b] = sr_hash_128(bytes, n * size);
        bytes += n * size;
    }
}

static sr_status add_int64(sr_sha256 *sha, uint64_t value) {
    uint8_t little[8];
    for (unsigned k = 0; k < 8; ++k)
        little[k] = (uint8_t)(value >> (8 * k));
    return sr_sha256_update(sha, little, sizeof little);
}

static sr_status add_array(sr_sha256 *sha, const sr_digest_array *array) {
    const char *dtype = sr_dtype_name(array->dtype);
    SR_TRY(sr_sha256_update(sha, array->name, strlen(array->name) + 1));
    SR_TRY(sr_sha256_update(sha, dtype, strlen(dtype) + 1));
    SR_TRY(add_int64(sha, (uint64_t)array->elements));
    int64_t blocks = sr_digest_block_count(array->elements);
    for (int64_t b = 0; b < blocks; ++b) {
        SR_TRY(add_int64(sha, array->blocks[b].low));
        SR_TRY(add_int64(sha, array->blocks[b].high));
    }
    return SR_OK;
}

static int compare_arrays(const void *a, const void *b) {
    const sr_digest_array *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static sr_status add_all(sr_sha256 *sha, const sr_digest_array **sorted, int count,
                         int64_t position) {
    static const char title[] = "serried digest 1\n";
    SR_TRY(sr_sha256_update(sha, title, sizeof title - 1));
    SR_TRY(add_int64(sha, (uint64_t)position));
    SR_TRY(add_int64(sha, (uint64_t)count));
    for (int i = 0; i < count; ++i) {
        if (i > 0 && strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return SR_FAIL(SR_E_ARGUMENT, "digest: two arrays are named '%s'", sorted[i]->name);
        SR_TRY(add_array(sha, sorted[i]));
    }
    return SR_OK;
}

sr_status sr_digest_combine(const sr_digest_array *arrays, int count, int64_t position, char *hex) {
    uint8_t digest[SR_SHA256_BYTES];
    sr_sha256 *sha = NULL;
    const sr_digest_array **sorted = sr_alloc_array((size_t)count, sizeof *sorted, "digest arrays");
    if (sorted == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < count; ++i)
        sorted[i] = &arrays[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_arrays);
    sr_status status = sr_sha256_create(&sha);
    if (status == SR_OK)
        status = add_all(sha, sorted, count, position);
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, hex);
    sr_sha256_free(sha);
    sr_free(sorted);
    return status;
}
