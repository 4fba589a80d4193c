// SPDX-License-Identifier: Apache-2.0
// Who holds the memory of this process: bytes by the name that each allocation gives for itself
// ("optimiser state"), for reports. What libraries take is not seen. Any thread.
#ifndef SR_KERNELS_BASE_MEMORY_OWNERS_H
#define SR_KERNELS_BASE_MEMORY_OWNERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct sr_memory_owner {
    const char *what; // static storage; the first SR_MEMORY_OWNER_BYTES - 1 bytes of the name
    uint64_t blocks, bytes, peak_bytes;
} sr_memory_owner;

#define SR_MEMORY_OWNER_BYTES 48
#define SR_MEMORY_OWNERS 256 // names that are told apart; later ones are "others"

// Fills rows of all names that ever held memory, in no order; returns how many.
size_t sr_memory_get_owners(sr_memory_owner rows[SR_MEMORY_OWNERS]);

// ---- For what takes memory: memory.c, and devices, whose memory is mapped pages ----

// The number of a name; allocates nothing.
uint32_t sr_memory_owner_find(const char *what);
// A block of so many bytes more; 0 bytes are a block, too.
void sr_memory_owner_add(uint32_t owner, size_t bytes);
void sr_memory_owner_remove(uint32_t owner, size_t bytes);
// A block that is there grows.
void sr_memory_owner_grow(uint32_t owner, size_t bytes);

#endif
