// SPDX-License-Identifier: Apache-2.0
// Memory by owner (see memory_owners.h): a hash table of fixed size whose entries are never
// removed, so that a look-up takes no lock. Counters are statistics and order nothing.
#include "kernels/base/memory_owners.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef enum entry_state { ENTRY_FREE = 0, ENTRY_TAKEN, ENTRY_NAMED } entry_state;

typedef struct owner_entry {
    char name[SR_MEMORY_OWNER_BYTES];
    atomic_int state; // the name may be read when it is ENTRY_NAMED
    _Atomic uint64_t blocks, bytes, peak;
} owner_entry;

enum { OTHERS = 0, FIRST = 1 };

static owner_entry entries[SR_MEMORY_OWNERS] = {
    [OTHERS] = {.name = "others", .state = ENTRY_NAMED}};

static uint32_t hash(const char *what) {
    uint32_t h = 2166136261u; // FNV-1a
    for (int i = 0; what[i] && i < SR_MEMORY_OWNER_BYTES - 1; i++)
        h = (h ^ (unsigned char)what[i]) * 16777619u;
    return h;
}

// Whether the entry has this name; a free entry takes it.
static bool is_of(owner_entry *p, const char *what) {
    int state = ENTRY_FREE;
    if (atomic_compare_exchange_strong_explicit(&p->state, &state, ENTRY_TAKEN,
                                                memory_order_acquire, memory_order_acquire)) {
        strncpy(p->name, what, sizeof p->name - 1); // the last byte is and stays zero
        atomic_store_explicit(&p->state, ENTRY_NAMED, memory_order_release);
        return true;
    }
    while (state == ENTRY_TAKEN) // another thread is between the two stores above
        state = atomic_load_explicit(&p->state, memory_order_acquire);
    return strncmp(p->name, what, sizeof p->name - 1) == 0;
}

uint32_t sr_memory_owner_find(const char *what) {
    const uint32_t start = hash(what), count = SR_MEMORY_OWNERS - FIRST;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t number = FIRST + (start % count + i) % count;
        if (is_of(&entries[number], what))
            return number;
    }
    return OTHERS;
}

void sr_memory_owner_grow(uint32_t owner, size_t bytes) {
    owner_entry *p = &entries[owner];
    const uint64_t now = atomic_fetch_add_explicit(&p->bytes, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&p->peak, memory_order_relaxed);
    while (peak < now && !atomic_compare_exchange_weak_explicit(
                             &p->peak, &peak, now, memory_order_relaxed, memory_order_relaxed))
        continue;
}

void sr_memory_owner_add(uint32_t owner, size_t bytes) {
    atomic_fetch_add_explicit(&entries[owner].blocks, 1, memory_order_relaxed);
    sr_memory_owner_grow(owner, bytes);
}

void sr_memory_owner_remove(uint32_t owner, size_t bytes) {
    atomic_fetch_sub_explicit(&entries[owner].blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&entries[owner].bytes, bytes, memory_order_relaxed);
}

size_t sr_memory_get_owners(sr_memory_owner rows[SR_MEMORY_OWNERS]) {
    size_t count = 0;
    for (size_t i = 0; i < SR_MEMORY_OWNERS; i++) {
        owner_entry *p = &entries[i];
        const uint64_t peak = atomic_load_explicit(&p->peak, memory_order_relaxed);
        if (atomic_load_explicit(&p->state, memory_order_acquire) != ENTRY_NAMED || peak == 0)
            continue;
        rows[count++] = (sr_memory_owner){
            .what = p->name,
            .blocks = atomic_load_explicit(&p->blocks, memory_order_relaxed),
            .bytes = atomic_load_explicit(&p->bytes, memory_order_relaxed),
            .peak_bytes = peak,
        };
    }
    return count;
}
