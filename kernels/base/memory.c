// SPDX-License-Identifier: Apache-2.0
// Counted memory with injected failures, and arenas (see memory.h).
//
//   block:  | padding | header: raw pointer, bytes | user memory, 64-byte aligned ... |
//   arena:  first -> chunk -> chunk -> ... ; 'current' is being filled, later ones are empty
//
// Counters are relaxed atomics: they are statistics and order nothing. Each block stores its owner
// (memory_owners.h). Deliberately not a new allocator: the C library's is good, and tools such as
// ASan understand it.
#include "kernels/base/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory_owners.h"

enum {
    ALIGNMENT = 64,
    LARGE_BYTES = 1 << 20, // from this size on, the system's zero pages are cheaper than memset
    ARENA_ALIGNMENT = 16,
    ARENA_FIRST_BYTES = 4096 - 64,
};

typedef struct block_header {
    void *raw;
    size_t bytes;
    uint32_t owner;
    uint64_t magic;
} block_header;

static_assert(sizeof(block_header) <= ALIGNMENT, "a header fits into the padding before a block");

#define BLOCK_MAGIC UINT64_C(0x5e221edb10c4a11e)

static _Atomic uint64_t allocations, live_blocks, live_bytes, peak_bytes;
static _Atomic uint64_t fail_countdown;
static void (*_Atomic watcher)(size_t bytes, const char *what);

// True when this allocation is the one that must fail.
static bool must_fail(void) {
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left != 0)
        if (atomic_compare_exchange_weak_explicit(&fail_countdown, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return left == 1;
    return false;
}

static void count_block(size_t bytes) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    uint64_t live = atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (peak < live && !atomic_compare_exchange_weak_explicit(
                              &peak_bytes, &peak, live, memory_order_relaxed, memory_order_relaxed))
        continue;
}

static block_header *header_of(void *memory) {
    block_header *header = (block_header *)memory - 1;
    assert(header->magic == BLOCK_MAGIC && "memory that sr_alloc did not give, or freed twice");
    return header;
}

// Zeroed memory with an aligned user part; *raw is the pointer to free. Small blocks end exactly at
// the end of their raw memory, so that ASan detects an overrun of one byte.
static void *take(size_t bytes, void **raw) {
    if (bytes >= LARGE_BYTES) {
        *raw = calloc(1, bytes + sizeof(block_header) + ALIGNMENT);
        if (*raw == NULL)
            return NULL;
        uintptr_t start = (uintptr_t)*raw + sizeof(block_header);
        return (char *)*raw + sizeof(block_header) + (-start & (ALIGNMENT - 1));
    }
    if (posix_memalign(raw, ALIGNMENT, bytes + ALIGNMENT) != 0)
        return NULL;
    return memset((char *)*raw + ALIGNMENT, 0, bytes);
}

void *sr_alloc(size_t bytes, const char *what) {
    void (*watch)(size_t, const char *) = atomic_load_explicit(&watcher, memory_order_relaxed);
    void *raw = NULL;
    void *memory = NULL;
    if (watch != NULL)
        watch(bytes, what);
    if (bytes <= SIZE_MAX / 2 && !must_fail())
        memory = take(bytes, &raw);
    if (memory == NULL) {
        (void)SR_FAIL(SR_E_MEMORY,
                      "out of memory: %zu bytes for %s; lower the batch, lanes or cache limits",
                      bytes, what);
        return NULL;
    }
    const uint32_t owner = sr_memory_owner_find(what);
    ((block_header *)memory)[-1] =
        (block_header){.raw = raw, .bytes = bytes, .owner = owner, .magic = BLOCK_MAGIC};
    count_block(bytes);
    sr_memory_owner_add(owner, bytes);
    return memory;
}

void *sr_alloc_array(size_t count, size_t size, const char *what) {
    if (size != 0 && count > SIZE_MAX / size) {
        (void)SR_FAIL(SR_E_MEMORY, "out of memory: %zu elements of %zu bytes for %s overflow",
                      count, size, what);
        return NULL;
    }
    return sr_alloc(count * size, what);
}

void *sr_realloc(void *old, size_t old_bytes, size_t new_bytes, const char *what) {
    void *memory = sr_alloc(new_bytes, what);
    if (memory == NULL || old == NULL)
        return memory;
    assert(header_of(old)->bytes >= old_bytes);
    memcpy(memory, old, old_bytes < new_bytes ? old_bytes : new_bytes);
    sr_free(old);
    return memory;
}

sr_status sr_grow(void **array, size_t *capacity, size_t need, size_t size, const char *what) {
    if (need <= *capacity)
        return SR_OK;
    size_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < need) {
        if (grown > SIZE_MAX / 2 / (size ? size : 1))
            return SR_FAIL(SR_E_MEMORY, "out of memory: %zu elements of %zu bytes for %s overflow",
                           need, size, what);
        grown *= 2;
    }
    void *memory = sr_realloc(*array, *capacity * size, grown * size, what);
    if (memory == NULL)
        return SR_E_MEMORY;
    *array = memory;
    *capacity = grown;
    return SR_OK;
}

char *sr_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = sr_alloc(bytes, "a string");
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

void sr_free(void *memory) {
    if (memory == NULL)
        return;
    block_header *header = header_of(memory);
    header->magic = 0;
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_bytes, header->bytes, memory_order_relaxed);
    sr_memory_owner_remove(header->owner, header->bytes);
    free(header->raw);
}

sr_memory_stats sr_memory_get_stats(void) {
    return (sr_memory_stats){
        .allocations = atomic_load_explicit(&allocations, memory_order_relaxed),
        .live_blocks = atomic_load_explicit(&live_blocks, memory_order_relaxed),
        .live_bytes = atomic_load_explicit(&live_bytes, memory_order_relaxed),
        .peak_bytes = atomic_load_explicit(&peak_bytes, memory_order_relaxed),
    };
}

void sr_memory_fail_nth(uint64_t n) {
    atomic_store_explicit(&fail_countdown, n, memory_order_relaxed);
}

void sr_memory_watch(void (*watch)(size_t bytes, const char *what)) {
    atomic_store_explicit(&watcher, watch, memory_order_relaxed);
}

struct sr_arena_chunk {
    struct sr_arena_chunk *next;
    size_t capacity;
    _Alignas(ARENA_ALIGNMENT) unsigned char data[];
};

void sr_arena_init(sr_arena *arena) {
    *arena = (sr_arena){0};
}

static bool fits(const sr_arena *arena, size_t bytes) {
    return arena->current != NULL && bytes <= arena->current->capacity - arena->used;
}

// Makes 'current' a chunk with room for 'bytes': a later one of the list, or a new one.
static sr_status advance(sr_arena *arena, size_t bytes) {
    while (arena->current != NULL && arena->current->next != NULL) {
        arena->current = arena->current->next;
        arena->used = 0;
        if (fits(arena, bytes))
            return SR_OK;
    }
    size_t capacity = arena->current ? 2 * arena->current->capacity : ARENA_FIRST_BYTES;
    if (capacity < bytes)
        capacity = bytes;
    struct sr_arena_chunk *chunk =
        sr_alloc(offsetof(struct sr_arena_chunk, data) + capacity, "an arena");
    if (chunk == NULL)
        return SR_E_MEMORY;
    chunk->capacity = capacity;
    if (arena->current != NULL)
        arena->current->next = chunk;
    else
        arena->first = chunk;
    arena->current = chunk;
    arena->used = 0;
    return SR_OK;
}

void *sr_arena_alloc(sr_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 4) {
        (void)SR_FAIL(SR_E_MEMORY, "out of memory: %zu bytes in an arena", bytes);
        return NULL;
    }
    bytes = (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    if (!fits(arena, bytes) && advance(arena, bytes) != SR_OK)
        return NULL;
    void *memory = arena->current->data + arena->used;
    arena->used += bytes;
    return memset(memory, 0, bytes);
}

char *sr_arena_strdup(sr_arena *arena, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = sr_arena_alloc(arena, bytes);
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

void sr_arena_reset(sr_arena *arena) {
    arena->current = arena->first;
    arena->used = 0;
}

void sr_arena_release(sr_arena *arena) {
    struct sr_arena_chunk *chunk = arena->first;
    while (chunk != NULL) {
        struct sr_arena_chunk *next = chunk->next;
        sr_free(chunk);
        chunk = next;
    }
    *arena = (sr_arena){0};
}

size_t sr_arena_bytes(const sr_arena *arena) {
    size_t bytes = 0;
    for (const struct sr_arena_chunk *chunk = arena->first; chunk != NULL; chunk = chunk->next)
        bytes += sizeof *chunk + chunk->capacity;
    return bytes;
}
