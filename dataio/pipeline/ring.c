// SPDX-License-Identifier: Apache-2.0
// Futex rings in a sealed memfd.
//
// Connects the data processes of one rank: the reader produces, each transformer consumes its own
// ring, and the consumer's counter also reports its progress to the iterator. Futexes: Drepper,
// "Futexes Are Tricky"; event counts: Reed and Kanodia, CACM 1979. Process-shared condition
// variables and semaphores were rejected: a SIGKILL inside them blocks the other processes for
// ever. The memory has no name in any file system, so no crash leaves anything behind.
#include "dataio/pipeline/ring_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/machine.h"
#include "kernels/base/text.h"

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define ALIGN UINT64_C(64)

static sr_status no_room(size_t bytes, const char *cause) {
    char size[16];
    return SR_FAIL(
        SR_E_NO_SPACE,
        "not enough memory for %s of shared memory (%s); lower data.memory or data.workers",
        sr_text_bytes(bytes, size), cause);
}

// Constant memory is mapped privately: Linux before 6.7 refuses any shared mapping of it.
static sr_status map(int fd, size_t bytes, bool constant, sr_shared_memory *out) {
    void *base = constant ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0)
                          : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return SR_FAIL(SR_E_MEMORY, "cannot map %zu bytes of shared memory: %s", bytes,
                       strerror(errno));
    *out = (sr_shared_memory){.fd = fd, .base = base, .bytes = bytes};
    return SR_OK;
}

// Memory that can still be written and sealed.
static sr_status create(const char *name, size_t bytes, sr_shared_memory *out) {
    // Check first: the kernel lets a memfd grow until the OOM killer acts.
    if (bytes > sr_machine_get_memory().available)
        return no_room(bytes, "less memory is available");
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && fd < SR_SHARED_FIRST_FD) {
        int above = fcntl(fd, F_DUPFD_CLOEXEC, SR_SHARED_FIRST_FD);
        close(fd);
        fd = above;
    }
    if (fd < 0)
        return SR_FAIL(SR_E_SYSTEM, "memfd_create: %s", strerror(errno));
    sr_status status;
    int error = ftruncate(fd, (off_t)bytes) < 0 ? errno : 0;
    while (error == 0 && (error = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR)
        error = 0;
    if (error != 0) {
        status = error == EFBIG ? sr_file_fail("shared memory", "cannot be created", error)
                                : no_room(bytes, strerror(error));
        goto fail;
    }
    SR_TRY_GOTO(map(fd, bytes, false, out), fail);
    return SR_OK;
fail:
    close(fd);
    return status;
}

static sr_status seal(sr_shared_memory *memory, int seals) {
    if (fcntl(memory->fd, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0)
        return SR_OK;
    sr_status status = SR_FAIL(SR_E_SYSTEM, "cannot seal shared memory: %s", strerror(errno));
    sr_shared_release(memory);
    return status;
}

sr_status sr_shared_create(const char *name, size_t bytes, sr_shared_memory *out) {
    SR_TRY(create(name, bytes, out));
    return seal(out, SIZE_SEALS);
}

sr_status sr_shared_create_constant(const char *name, const void *data, size_t bytes,
                                    sr_shared_memory *out) {
    sr_shared_memory memory = {.fd = -1};
    SR_TRY(create(name, bytes, &memory));
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): 'create' has mapped it
    memcpy(memory.base, data, bytes);
    munmap(memory.base, bytes); // a writable mapping prevents the seal
    memory.base = NULL;
    SR_TRY(seal(&memory, SIZE_SEALS | F_SEAL_WRITE));
    sr_status status = map(memory.fd, bytes, true, out);
    if (status != SR_OK)
        close(memory.fd);
    return status;
}

sr_status sr_shared_attach(int fd, bool constant, sr_shared_memory *out) {
    const int want = SIZE_SEALS | F_SEAL_SEAL | (constant ? F_SEAL_WRITE : 0);
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat info;
    if (seals < 0 || (seals & want) != want || fstat(fd, &info) < 0 || info.st_size <= 0)
        return SR_FAIL(SR_E_ARGUMENT,
                       "descriptor %d is not sealed shared memory; data processes are started by "
                       "serried itself",
                       fd);
    return map(fd, (size_t)info.st_size, constant, out);
}

void sr_shared_release(sr_shared_memory *memory) {
    if (memory->bytes == 0)
        return;
    if (memory->base)
        munmap(memory->base, memory->bytes);
    close(memory->fd);
    *memory = (sr_shared_memory){.fd = -1};
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *timeout) {
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

void sr_bell_ring(sr_bell *bell) {
    // Both are sequentially consistent with the waiter's add and the kernel's read of the count:
    // either the waiter sees the new count or this thread sees the waiter.
    atomic_fetch_add_explicit(&bell->count, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&bell->waiters, memory_order_seq_cst) != 0)
        (void)futex(&bell->count, FUTEX_WAKE, INT32_MAX, NULL);
}

uint32_t sr_bell_read(const sr_bell *bell) {
    return atomic_load_explicit(&bell->count, memory_order_acquire);
}

void sr_bell_wait(sr_bell *bell, uint32_t seen, int64_t ns) {
    if (ns <= 0)
        return;
    if (ns > SR_WAIT_SLICE_NS)
        ns = SR_WAIT_SLICE_NS;
    struct timespec timeout = {.tv_nsec = ns};
    atomic_fetch_add_explicit(&bell->waiters, 1, memory_order_seq_cst);
    (void)futex(&bell->count, FUTEX_WAIT, seen, &timeout);
    atomic_fetch_sub_explicit(&bell->waiters, 1, memory_order_relaxed);
}

size_t sr_ring_bytes(uint64_t capacity) {
    return sizeof(sr_ring) + (size_t)capacity;
}

static uint64_t aligned(uint64_t bytes) {
    // At least one unit, so that an empty message moves the head, too.
    return bytes == 0 ? ALIGN : (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void sr_ring_init(sr_ring *ring, uint64_t capacity, uint64_t mean_message) {
    ring->depth = capacity / aligned(mean_message);
    if (ring->depth > SR_RING_CELLS)
        ring->depth = SR_RING_CELLS;
    if (ring->depth == 0)
        ring->depth = 1;
}

static sr_cell cell_at(const sr_ring *ring, uint64_t number) {
    sr_cell cell;
    sr_shared_read(&cell, &ring->cells[number % SR_RING_CELLS], sizeof cell);
    return cell;
}

// Finds the offset of the next message. Messages are contiguous, so the end of the ring may remain
// unused.
static bool find_space(const sr_ring *ring, uint64_t capacity, uint64_t published,
                       uint64_t consumed, uint64_t need, uint64_t *offset) {
    if (published == consumed) {
        *offset = 0;
        return need <= capacity;
    }
    const sr_cell newest = cell_at(ring, published - 1);
    const uint64_t tail = cell_at(ring, consumed).offset;
    uint64_t head = newest.offset + aligned(newest.bytes);
    if (head > tail) {
        if (head <= capacity && capacity - head >= need) {
            *offset = head;
            return true;
        }
        head = 0;
    }
    *offset = head;
    return head < tail && tail <= capacity && tail - head >= need;
}

uint8_t *sr_ring_reserve(sr_ring *ring, uint64_t capacity, uint64_t bytes, sr_cell **cell) {
    uint64_t published = atomic_load_explicit(&ring->published, memory_order_relaxed);
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_acquire);
    uint64_t offset;
    if (published - consumed >= SR_RING_CELLS || bytes > capacity ||
        !find_space(ring, capacity, published, consumed, aligned(bytes), &offset))
        return NULL;
    sr_cell *next = &ring->cells[published % SR_RING_CELLS];
    *next = (sr_cell){.offset = offset, .bytes = bytes};
    *cell = next;
    return ring->data + offset;
}

void sr_ring_publish(sr_ring *ring) {
    uint64_t published = atomic_load_explicit(&ring->published, memory_order_relaxed);
    atomic_store_explicit(&ring->published, published + 1, memory_order_release);
}

sr_ring_state sr_ring_peek(const sr_ring *ring, uint64_t capacity, sr_cell *cell) {
    uint64_t published = atomic_load_explicit(&ring->published, memory_order_acquire);
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    if (published == consumed)
        return SR_RING_EMPTY;
    *cell = cell_at(ring, consumed);
    bool inside = cell->offset <= capacity && cell->bytes <= capacity - cell->offset;
    return inside && published - consumed <= SR_RING_CELLS ? SR_RING_HAS_CELL : SR_RING_BROKEN;
}

const uint8_t *sr_ring_bytes_of(const sr_ring *ring, const sr_cell *cell) {
    return ring->data + cell->offset;
}

void sr_ring_consume(sr_ring *ring) {
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    atomic_store_explicit(&ring->consumed, consumed + 1, memory_order_release);
}

uint64_t sr_ring_waiting(const sr_ring *ring) {
    // Read 'consumed' first; otherwise it might exceed 'published'.
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_acquire);
    return atomic_load_explicit(&ring->published, memory_order_acquire) - consumed;
}

double sr_ring_fill(const sr_ring *ring) {
    const uint64_t waiting = sr_ring_waiting(ring);
    uint64_t depth;
    sr_shared_read(&depth, &ring->depth, sizeof depth);
    return waiting >= depth ? 1.0 : (double)waiting / (double)depth;
}
