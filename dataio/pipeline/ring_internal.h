// SPDX-License-Identifier: Apache-2.0
// Shared memory of the data processes: one sealed memfd, bells to wait on, and cell rings.
//
// Rules that keep survivors alive when any process is killed at any instruction:
// - no mutex, condition variable or semaphore lives here; each word has one writer;
// - every counter only grows and is published by a single store after the data it covers;
// - a waiter re-checks at least every 50 ms, so that a wake lost with its sender costs no more.
// A killed producer or consumer is replaced by one that reads the counters and goes on; whatever
// was half done was not published and is done again.
#ifndef SR_DATAIO_RING_INTERNAL_H
#define SR_DATAIO_RING_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#define SR_WAIT_SLICE_NS (50 * INT64_C(1000000))

typedef struct sr_shared_memory {
    int fd;
    void *base;
    size_t bytes;
} sr_shared_memory;

// New zero-filled memory that cannot be resized any more. All pages are taken now, so that later
// writes never fault (SR_E_NO_SPACE otherwise). The descriptor is close-on-exec.
SR_NODISCARD sr_status sr_shared_create(const char *name, size_t bytes, sr_shared_memory *out);
// Maps memory that was inherited under this descriptor; refuses anything not sealed.
SR_NODISCARD sr_status sr_shared_attach(int fd, sr_shared_memory *out);
void sr_shared_release(sr_shared_memory *memory);

// An event count: waiters read it, check their condition, and wait for it to differ.
typedef struct sr_bell {
    _Atomic uint32_t count;
    _Atomic uint32_t waiters; // a killed waiter leaves it too high: that costs system calls only
} sr_bell;

// Called after the change that waiters look for.
void sr_bell_ring(sr_bell *bell);
uint32_t sr_bell_read(const sr_bell *bell);
// Returns when the count differs from 'seen' or after at most min(ns, 50 ms).
void sr_bell_wait(sr_bell *bell, uint32_t seen, int64_t ns);

// One message: what is known about a sample, and where its bytes lie.
typedef struct sr_cell {
    uint64_t offset, bytes; // in the ring's data area
    int64_t position, sample, epoch;
    int32_t status; // an sr_status; not SR_OK: the bytes are the message
    int32_t reserved;
} sr_cell;

#define SR_RING_CELLS 512

// Single producer, single consumer. Lies in shared memory; 'bytes' of data follow it.
typedef struct sr_ring {
    _Alignas(64) _Atomic uint64_t published; // cells ever published
    sr_bell published_bell;
    _Alignas(64) _Atomic uint64_t consumed; // cells ever consumed
    sr_bell consumed_bell;
    _Alignas(64) uint64_t depth; // cells that usually fill it, for sr_ring_fill
    sr_cell cells[SR_RING_CELLS];
    _Alignas(64) uint8_t data[];
} sr_ring;

// Bytes of a ring with a data area of 'capacity' bytes (a multiple of 64); the longest message that
// fits once the ring is empty has that many.
size_t sr_ring_bytes(uint64_t capacity);
void sr_ring_init(sr_ring *ring, uint64_t capacity, uint64_t mean_message);

// 'capacity' is what the caller knows of the ring from elsewhere: what lies in shared memory is
// compared with it before it becomes an address.

// Producer. Space for a message, contiguous and 64-byte aligned, or NULL when there is none now.
// Asking again without publishing gives the same space.
uint8_t *sr_ring_reserve(sr_ring *ring, uint64_t capacity, uint64_t bytes, sr_cell **cell);
// Publishes the reserved cell; does not ring the bell.
void sr_ring_publish(sr_ring *ring);

typedef enum sr_ring_state {
    SR_RING_EMPTY = 0,
    SR_RING_HAS_CELL,
    SR_RING_BROKEN, // counters or the cell's place are no producer's doing
} sr_ring_state;

// Consumer. A copy of the oldest cell, whose bytes lie inside of the ring; it stays until
// sr_ring_consume (which rings no bell).
sr_ring_state sr_ring_peek(const sr_ring *ring, uint64_t capacity, sr_cell *cell);
const uint8_t *sr_ring_bytes_of(const sr_ring *ring, const sr_cell *cell);
void sr_ring_consume(sr_ring *ring);

// Cells that wait, and their share of what usually fits, 0..1.
uint64_t sr_ring_waiting(const sr_ring *ring);
double sr_ring_fill(const sr_ring *ring);

#endif
