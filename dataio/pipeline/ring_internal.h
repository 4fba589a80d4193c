// SPDX-License-Identifier: Apache-2.0
// Shared memory of the data processes: sealed memfds, bells to wait on, and cell rings.
//
// Rules that keep the other processes running when one is killed at any instruction:
// - there is no mutex, condition variable or semaphore; each word has one writer;
// - every counter only grows and is published by a single store after the data that it covers;
// - a waiter re-checks at least every 50 ms, so a lost wake-up costs no more than that.
// A killed producer or consumer is replaced by one that continues from the counters; unfinished
// work was not published and is repeated.
#ifndef SR_DATAIO_RING_INTERNAL_H
#define SR_DATAIO_RING_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/base/status.h"

#define SR_WAIT_SLICE_NS (50 * INT64_C(1000000))
#define SR_SHARED_FIRST_FD 5 // lower descriptors are those of a data process (SR_STAGE_PLAN_FD)

typedef struct sr_shared_memory {
    int fd;
    void *base;
    size_t bytes;
} sr_shared_memory;

// Creates zero-filled memory of fixed size. All pages are allocated now, so that later writes never
// fail (SR_E_NO_SPACE). The descriptor is close-on-exec.
SR_NODISCARD sr_status sr_shared_create(const char *name, size_t bytes, sr_shared_memory *out);
// The same with the first bytes of 'data', and read-only for ever: the kernel refuses every write
// to it and every writable mapping, in all processes. Mapped read-only.
SR_NODISCARD sr_status sr_shared_create_constant(const char *name, const void *data, size_t bytes,
                                                 sr_shared_memory *out);
// Maps inherited memory; refuses memory that is not sealed or, with 'constant', that can be
// written.
SR_NODISCARD sr_status sr_shared_attach(int fd, bool constant, sr_shared_memory *out);
void sr_shared_release(sr_shared_memory *memory);

// Copies from memory that another process may write at any time. Afterwards only the copy counts:
// what is checked is what is used, because the compiler may not read the source again.
static inline void sr_shared_read(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    atomic_signal_fence(memory_order_seq_cst);
}

// An event count: waiters read it, check their condition, and wait until it changes.
typedef struct sr_bell {
    _Atomic uint32_t count;
    _Atomic uint32_t waiters; // too high after a waiter was killed, which only costs system calls
} sr_bell;

// Wakes the waiters; called after the change that they wait for.
void sr_bell_ring(sr_bell *bell);
uint32_t sr_bell_read(const sr_bell *bell);
// Returns when the count differs from 'seen' or after at most min(ns, 50 ms).
void sr_bell_wait(sr_bell *bell, uint32_t seen, int64_t ns);

// One message: a sample's identity and the location of its bytes.
typedef struct sr_cell {
    uint64_t offset, bytes; // in the ring's data area
    int64_t position, sample, epoch;
    int32_t status; // an sr_status; not SR_OK: the bytes are the error message
    int32_t reserved;
} sr_cell;

#define SR_RING_CELLS 512

// Single producer, single consumer. In shared memory, followed by its data area.
typedef struct sr_ring {
    _Alignas(64) _Atomic uint64_t published; // cells ever published
    sr_bell published_bell;
    _Alignas(64) _Atomic uint64_t consumed; // cells ever consumed
    sr_bell consumed_bell;
    _Alignas(64) uint64_t depth; // cells of mean size that fill it, for sr_ring_fill
    sr_cell cells[SR_RING_CELLS];
    _Alignas(64) uint8_t data[];
} sr_ring;

// Bytes of a ring with a data area of 'capacity' bytes (a multiple of 64), which is also the size
// of the longest message that fits.
size_t sr_ring_bytes(uint64_t capacity);
void sr_ring_init(sr_ring *ring, uint64_t capacity, uint64_t mean_message);

// 'capacity' comes from the caller, not from shared memory: offsets read from shared memory are
// checked against it before they are used as addresses.

// Producer. Contiguous, 64-byte aligned space for a message, or NULL when the ring is full. A
// repeated call without publishing returns the same space.
uint8_t *sr_ring_reserve(sr_ring *ring, uint64_t capacity, uint64_t bytes, sr_cell **cell);
// Publishes the reserved cell; does not ring the bell.
void sr_ring_publish(sr_ring *ring);

typedef enum sr_ring_state {
    SR_RING_EMPTY = 0,
    SR_RING_HAS_CELL,
    SR_RING_BROKEN, // invalid counters or cell; no producer writes them
} sr_ring_state;

// Consumer. Copies the oldest cell; its bytes are within the ring. It remains until sr_ring_consume
// (which does not ring the bell).
sr_ring_state sr_ring_peek(const sr_ring *ring, uint64_t capacity, sr_cell *cell);
const uint8_t *sr_ring_bytes_of(const sr_ring *ring, const sr_cell *cell);
void sr_ring_consume(sr_ring *ring);

// Number of waiting cells, and their share of 'depth', 0..1.
uint64_t sr_ring_waiting(const sr_ring *ring);
double sr_ring_fill(const sr_ring *ring);

#endif
