// SPDX-License-Identifier: Apache-2.0
// Memory allocation with counters and injected failures, and arenas.
//
// Every allocation of serried uses these functions: it is counted (a replayed step must allocate
// nothing), and the n-th one can be made to fail. Allocations inside libraries are not counted.
#ifndef SR_KERNELS_BASE_MEMORY_H
#define SR_KERNELS_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zero-filled, 64-byte aligned memory of 'bytes' bytes (0 gives a unique non-NULL pointer). NULL
// with the error set (SR_E_MEMORY, naming 'what' and the size) when memory is out.
void *sr_alloc(size_t bytes, const char *what);
// Allocates count * size bytes, with an overflow check.
void *sr_alloc_array(size_t count, size_t size, const char *what);
// Grows or shrinks memory of sr_alloc; new bytes are zero. On failure the old block stays valid.
void *sr_realloc(void *old, size_t old_bytes, size_t new_bytes, const char *what);
// Growable arrays: makes room for at least 'need' elements of 'size' bytes, doubling *capacity.
SR_NODISCARD sr_status sr_grow(void **array, size_t *capacity, size_t need, size_t size,
                               const char *what);
// A copy of a text; NULL with the error set when memory is out.
char *sr_strdup(const char *text);
// Frees memory from sr_alloc, sr_realloc, sr_grow or sr_strdup; NULL is legal.
void sr_free(void *memory);

// Memory that sr_alloc and the functions below have allocated.
typedef struct sr_memory_stats {
    uint64_t allocations; // calls that allocated new memory since process start
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t peak_bytes;
} sr_memory_stats;

// The counters of this process. Any thread.
sr_memory_stats sr_memory_get_stats(void);
// Makes the n-th allocation from now fail, once (n >= 1); 0 switches this off.
void sr_memory_fail_nth(uint64_t n);
// Calls 'watch' for every requested allocation, on its thread, so that a test can list them; NULL
// switches this off. The callback must not allocate with these functions.
void sr_memory_watch(void (*watch)(size_t bytes, const char *what));

// Arena: a growing region whose memory is freed all at once. One thread at a time.
typedef struct sr_arena {
    struct sr_arena_chunk *first, *current;
    size_t used; // in the current chunk
} sr_arena;

// Initialises an empty arena; allocates nothing yet.
void sr_arena_init(sr_arena *arena);
// Memory that is 16-byte aligned and zero-filled; NULL with the error set when memory is out.
void *sr_arena_alloc(sr_arena *arena, size_t bytes);
// A copy of a text in the arena; NULL with the error set when memory is out.
char *sr_arena_strdup(sr_arena *arena, const char *text);
// Empties the arena but keeps its chunks, so that repeated use allocates nothing.
void sr_arena_reset(sr_arena *arena);
// Frees all memory; the arena is then as after sr_arena_init.
void sr_arena_release(sr_arena *arena);
// Bytes of memory that the arena has allocated.
size_t sr_arena_bytes(const sr_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
