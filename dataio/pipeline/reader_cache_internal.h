// SPDX-License-Identifier: Apache-2.0
// Records read ahead, by (epoch, sample): the contents of the shuffle buffers of this reader's
// lanes. Only a cache: records that are not in it are read directly.
#ifndef SR_DATAIO_READER_CACHE_INTERNAL_H
#define SR_DATAIO_READER_CACHE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

typedef struct sr_cached_record {
    int64_t epoch, sample;
    uint8_t *data; // NULL: free entry
    size_t bytes;
} sr_cached_record;

typedef struct sr_reader_cache {
    sr_cached_record *entries; // open addressing, a power of two
    size_t capacity, count;
} sr_reader_cache;

void sr_reader_cache_release(sr_reader_cache *cache);
// Copies the record.
SR_NODISCARD sr_status sr_reader_cache_put(sr_reader_cache *cache, int64_t epoch, int64_t sample,
                                           const void *data, size_t bytes);
// Removes the record: the caller owns *data (sr_free); NULL when it is not cached.
void sr_reader_cache_take(sr_reader_cache *cache, int64_t epoch, int64_t sample, uint8_t **data,
                          size_t *bytes);

#endif
