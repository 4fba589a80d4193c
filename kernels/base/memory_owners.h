// SPDX-License-Identifier: Apache-2.0
// Memory of this process by owner, for reports: the bytes for each name that allocations give
// ("optimiser state"). Allocations inside libraries are not counted. Any thread.
#ifndef SR_KERNELS_BASE_MEMORY_OWNERS_H
#define SR_KERNELS_BASE_MEMORY_OWNERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct sr_memory_owner {
    const char *what; // static storage; the first SR_MEMORY_OWNER_BYTES - 1 bytes of the name
    uint64_t blocks, bytes, peak_bytes;
} sr_memory_owner;

#define SR_MEMORY_OWNER_BYTES 48
#define SR_MEMORY_OWNERS 256 // distinct names; later ones are counted as "others"

// Fills one row for every name that has ever owned memory, in no particular order; returns their
// number.
size_t sr_memory_get_owners(sr_memory_owner rows[SR_MEMORY_OWNERS]);

// ---- For allocators: memory.c, and devices, whose memory is mapped pages ----

// The number of a name; allocates nothing.
uint32_t sr_memory_owner_find(const char *what);
// Counts a new block of this size; a block of 0 bytes counts, too.
void sr_memory_owner_add(uint32_t owner, size_t bytes);
void sr_memory_owner_remove(uint32_t owner, size_t bytes);
// Counts the growth of an existing block.
void sr_memory_owner_grow(uint32_t owner, size_t bytes);

#endif
