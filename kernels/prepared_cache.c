// SPDX-License-Identifier: Apache-2.0
// Prepared kernels by request: a hash table of pointers with linear probing, never more than half
// full.
#include "kernels/prepared_cache.h"

#include <pthread.h>
#include <string.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"

enum { FIRST_SLOTS = 64 };

struct sr_prepared_cache {
    pthread_mutex_t lock;
    sr_prepared_entry **slots; // NULL ones are empty
    size_t slot_count, count;
};

sr_status sr_prepared_cache_create(sr_prepared_cache **out) {
    sr_prepared_cache *cache = sr_alloc(sizeof *cache, "prepared kernels");
    if (!cache)
        return SR_E_MEMORY;
    cache->slot_count = FIRST_SLOTS;
    cache->slots = sr_alloc_array(FIRST_SLOTS, sizeof *cache->slots, "prepared kernels");
    if (!cache->slots) {
        sr_free(cache);
        return SR_E_MEMORY;
    }
    (void)pthread_mutex_init(&cache->lock, NULL);
    *out = cache;
    return SR_OK;
}

void sr_prepared_cache_free(sr_prepared_cache *cache) {
    if (!cache)
        return;
    for (size_t i = 0; i < cache->slot_count; i++) {
        if (cache->slots[i])
            sr_prepared_release(&cache->slots[i]->prepared);
        sr_free(cache->slots[i]);
    }
    sr_free(cache->slots);
    (void)pthread_mutex_destroy(&cache->lock);
    sr_free(cache);
}

// The slot of a request: its entry's, or an empty one.
static size_t slot_of(sr_prepared_entry *const *slots, size_t slot_count,
                      const sr_kernel_request *request) {
    size_t i = sr_hash64(request, sizeof *request) % slot_count;
    while (slots[i] && memcmp(&slots[i]->request, request, sizeof *request) != 0)
        i = (i + 1) % slot_count;
    return i;
}

static sr_status make_room(sr_prepared_cache *cache) {
    if (2 * (cache->count + 1) <= cache->slot_count)
        return SR_OK;
    const size_t slot_count = 2 * cache->slot_count;
    sr_prepared_entry **slots = sr_alloc_array(slot_count, sizeof *slots, "prepared kernels");
    if (!slots)
        return SR_E_MEMORY;
    for (size_t i = 0; i < cache->slot_count; i++)
        if (cache->slots[i])
            slots[slot_of(slots, slot_count, &cache->slots[i]->request)] = cache->slots[i];
    sr_free(cache->slots);
    cache->slots = slots;
    cache->slot_count = slot_count;
    return SR_OK;
}

// With the lock held. Nothing is allocated for a request that has an entry.
static sr_status get(sr_prepared_cache *cache, const sr_kernel_request *request,
                     const sr_prepared_entry **out) {
    *out = cache->slots[slot_of(cache->slots, cache->slot_count, request)];
    if (*out)
        return SR_OK;
    SR_TRY(make_room(cache));
    sr_prepared_entry *entry = sr_alloc(sizeof *entry, "prepared kernels");
    if (!entry)
        return SR_E_MEMORY;
    memcpy(&entry->request, request, sizeof *request); // with its padding
    const sr_status status = sr_kernel_prepare(request, &entry->prepared);
    if (status != SR_OK) {
        sr_free(entry);
        return status;
    }
    cache->slots[slot_of(cache->slots, cache->slot_count, request)] = entry;
    cache->count++;
    *out = entry;
    return SR_OK;
}

sr_status sr_prepared_cache_get(sr_prepared_cache *cache, const sr_kernel_request *request,
                                const sr_prepared_entry **out) {
    (void)pthread_mutex_lock(&cache->lock);
    const sr_status status = get(cache, request, out);
    (void)pthread_mutex_unlock(&cache->lock);
    return status;
}
