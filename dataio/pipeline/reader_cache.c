// SPDX-License-Identifier: Apache-2.0
// Records read ahead (reader_cache_internal.h): a hash table with open addressing, linear probing
// and backward-shift deletion (Knuth, TAOCP 3, 6.4 R).
#include "dataio/pipeline/reader_cache_internal.h"

#include <string.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"

static size_t home(const sr_reader_cache *cache, int64_t epoch, int64_t sample) {
    int64_t key[2] = {epoch, sample};
    return (size_t)sr_hash64(key, sizeof key) & (cache->capacity - 1);
}

void sr_reader_cache_release(sr_reader_cache *cache) {
    for (size_t i = 0; i < cache->capacity; i++)
        sr_free(cache->entries[i].data);
    sr_free(cache->entries);
    *cache = (sr_reader_cache){0};
}

static void insert(sr_reader_cache *cache, const sr_cached_record *record) {
    size_t i = home(cache, record->epoch, record->sample);
    while (cache->entries[i].data)
        i = (i + 1) & (cache->capacity - 1);
    cache->entries[i] = *record;
}

static sr_status make_room(sr_reader_cache *cache) {
    if (2 * (cache->count + 1) <= cache->capacity)
        return SR_OK;
    sr_reader_cache grown = {.capacity = cache->capacity ? 2 * cache->capacity : 256};
    grown.entries = sr_alloc_array(grown.capacity, sizeof *grown.entries, "record cache");
    if (!grown.entries)
        return SR_E_MEMORY;
    for (size_t i = 0; i < cache->capacity; i++)
        if (cache->entries[i].data)
            insert(&grown, &cache->entries[i]);
    sr_free(cache->entries);
    cache->entries = grown.entries;
    cache->capacity = grown.capacity;
    return SR_OK;
}

sr_status sr_reader_cache_put(sr_reader_cache *cache, int64_t epoch, int64_t sample,
                              const void *data, size_t bytes) {
    SR_TRY(make_room(cache));
    sr_cached_record record = {.epoch = epoch, .sample = sample, .bytes = bytes};
    record.data = sr_alloc(bytes, "cached record");
    if (!record.data)
        return SR_E_MEMORY;
    memcpy(record.data, data, bytes);
    insert(cache, &record);
    cache->count++;
    return SR_OK;
}

void sr_reader_cache_take(sr_reader_cache *cache, int64_t epoch, int64_t sample, uint8_t **data,
                          size_t *bytes) {
    *data = NULL;
    if (cache->count == 0)
        return;
    size_t mask = cache->capacity - 1, hole = home(cache, epoch, sample);
    while (cache->entries[hole].data &&
           (cache->entries[hole].epoch != epoch || cache->entries[hole].sample != sample))
        hole = (hole + 1) & mask;
    if (!cache->entries[hole].data)
        return;
    *data = cache->entries[hole].data;
    *bytes = cache->entries[hole].bytes;
    cache->count--;
    // Close the hole: move an entry into it unless the entry's home position lies after the hole.
    for (size_t i = (hole + 1) & mask; cache->entries[i].data; i = (i + 1) & mask) {
        size_t want = home(cache, cache->entries[i].epoch, cache->entries[i].sample);
        if (((i - want) & mask) >= ((i - hole) & mask)) {
            cache->entries[hole] = cache->entries[i];
            hole = i;
        }
    }
    cache->entries[hole] = (sr_cached_record){0};
}
