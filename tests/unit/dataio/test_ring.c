// SPDX-License-Identifier: Apache-2.0
// Shared memory and rings: sealing, wrap-around, waiting, and producers and consumers that are
// killed at random times, without a lost, repeated or torn message.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataio/pipeline/ring_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"

#define CAPACITY 4096u

static sr_ring *make_ring(sr_shared_memory *memory, uint64_t capacity) {
    assert_ok(sr_shared_create("test-ring", sr_ring_bytes(capacity), memory));
    sr_ring_init(memory->base, capacity, 64);
    return memory->base;
}

static void test_sealed(void **state) {
    (void)state;
    sr_shared_memory memory, other;
    assert_ok(sr_shared_create("test", 10000, &memory));
    assert_int_equal(-1, ftruncate(memory.fd, 100));
    assert_int_equal(-1, ftruncate(memory.fd, 100000));
    assert_int_not_equal(0, fcntl(memory.fd, F_GETFD) & FD_CLOEXEC);
    int fd = dup(memory.fd);
    assert_ok(sr_shared_attach(fd, false, &other));
    ((char *)memory.base)[9999] = 7;
    assert_int_equal(7, ((char *)other.base)[9999]);
    sr_shared_release(&other);
    sr_shared_release(&memory);
    assert_status(SR_E_ARGUMENT, sr_shared_attach(0, false, &other));
    int open_fd = memfd_create("unsealed", MFD_CLOEXEC);
    assert_status(SR_E_ARGUMENT, sr_shared_attach(open_fd, false, &other));
    close(open_fd);
}

// The kernel refuses every way to write it, in every process that has it.
static void test_constant(void **state) {
    (void)state;
    sr_shared_memory memory, other;
    char path[64];
    assert_ok(sr_shared_create_constant("test", "abc", 4, &memory));
    assert_string_equal("abc", memory.base);
    assert_int_not_equal(0, fcntl(memory.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(memory.fd >= SR_SHARED_FIRST_FD);
    assert_ptr_equal(MAP_FAILED, mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0));
    assert_int_equal(-1, pwrite(memory.fd, "x", 1, 0));
    assert_int_equal(-1, ftruncate(memory.fd, 0));
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", memory.fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    assert_true(again < 0 || pwrite(again, "x", 1, 0) < 0);
    assert_ok(sr_shared_attach(again >= 0 ? again : dup(memory.fd), true, &other));
    assert_string_equal("abc", other.base);
    sr_shared_release(&other);
    sr_shared_release(&memory);
    assert_ok(sr_shared_create("test", 100, &memory));
    assert_status(SR_E_ARGUMENT, sr_shared_attach(memory.fd, true, &other));
    sr_shared_release(&memory);
}

static void test_too_large(void **state) {
    (void)state;
    sr_shared_memory memory;
    // Refused before anything is allocated: trying it would get other programs killed.
    assert_status(SR_E_NO_SPACE, sr_shared_create("test", (size_t)1 << 50, &memory));
    assert_message("data.memory");
}

// Message i has a length and bytes that follow from i.
static uint64_t length_of(uint64_t i) {
    return sr_philox(1, (uint32_t)i, 0, 0, 0).v[0] % 900;
}

static void fill(uint8_t *to, uint64_t i) {
    for (uint64_t k = 0; k < length_of(i); k++)
        to[k] = (uint8_t)(i * 31 + k);
}

static bool intact(const sr_ring *ring, const sr_cell *cell, uint64_t i) {
    const uint8_t *bytes = sr_ring_bytes_of(ring, cell);
    if (cell->sample != (int64_t)i || cell->bytes != length_of(i))
        return false;
    for (uint64_t k = 0; k < cell->bytes; k++)
        if (bytes[k] != (uint8_t)(i * 31 + k))
            return false;
    return true;
}

static bool peek(const sr_ring *ring, sr_cell *cell) {
    sr_ring_state state = sr_ring_peek(ring, CAPACITY, cell);
    assert_int_not_equal(SR_RING_BROKEN, state);
    return state == SR_RING_HAS_CELL;
}

static bool produce(sr_ring *ring, uint64_t i) {
    sr_cell *cell;
    uint8_t *to = sr_ring_reserve(ring, CAPACITY, length_of(i), &cell);
    if (!to)
        return false;
    fill(to, i);
    cell->sample = (int64_t)i;
    sr_ring_publish(ring);
    sr_bell_ring(&ring->published_bell);
    return true;
}

static void test_wraps(void **state) {
    (void)state;
    sr_shared_memory memory;
    sr_ring *ring = make_ring(&memory, CAPACITY);
    uint64_t in = 0, out = 0;
    for (uint32_t turn = 0; out < 5000; turn++) {
        for (uint32_t n = sr_philox(2, turn, 0, 0, 0).v[0] % 7; n > 0 && produce(ring, in); n--)
            in++;
        assert_int_equal(in - out, sr_ring_waiting(ring));
        for (uint32_t n = sr_philox(3, turn, 0, 0, 0).v[0] % 7; n > 0; n--) {
            sr_cell cell;
            if (!peek(ring, &cell)) {
                assert_int_equal(in, out);
                break;
            }
            assert_true(intact(ring, &cell, out++));
            sr_ring_consume(ring);
        }
    }
    sr_shared_release(&memory);
}

static void test_limits(void **state) {
    (void)state;
    sr_shared_memory memory;
    sr_ring *ring = make_ring(&memory, CAPACITY);
    sr_cell *cell;
    assert_null(sr_ring_reserve(ring, CAPACITY, CAPACITY + 1, &cell));
    assert_non_null(sr_ring_reserve(ring, CAPACITY, CAPACITY, &cell)); // all of an empty ring
    sr_ring_publish(ring);
    assert_null(sr_ring_reserve(ring, CAPACITY, 0, &cell));
    sr_ring_consume(ring);
    int n = 0;
    for (; sr_ring_reserve(ring, CAPACITY, 0, &cell); n++)
        sr_ring_publish(ring);
    assert_int_equal(CAPACITY / 64, n); // empty messages also take space
    assert_true(sr_ring_fill(ring) >= 1);
    sr_shared_release(&memory);
}

// Positions that another process has corrupted do not lead out of the ring.
static void test_broken(void **state) {
    (void)state;
    sr_shared_memory memory;
    sr_ring *ring = make_ring(&memory, CAPACITY);
    sr_cell *cell, copy;
    assert_true(produce(ring, 1));
    sr_cell *first = &ring->cells[0];
    const sr_cell sound = *first;
    const uint64_t wrong[] = {CAPACITY + 1, CAPACITY + 64, UINT64_MAX, UINT64_MAX - 63};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        first->offset = wrong[i];
        assert_int_equal(SR_RING_BROKEN, sr_ring_peek(ring, CAPACITY, &copy));
        const uint8_t *room = sr_ring_reserve(ring, CAPACITY, 64, &cell);
        assert_true(room == NULL || (room >= ring->data && room + 64 <= ring->data + CAPACITY));
        *first = sound;
        first->bytes = wrong[i];
        assert_int_equal(SR_RING_BROKEN, sr_ring_peek(ring, CAPACITY, &copy));
        room = sr_ring_reserve(ring, CAPACITY, 64, &cell);
        assert_true(room == NULL || (room >= ring->data && room + 64 <= ring->data + CAPACITY));
        *first = sound;
    }
    assert_int_equal(SR_RING_HAS_CELL, sr_ring_peek(ring, CAPACITY, &copy));
    atomic_store(&ring->consumed, 5); // ahead of what was published
    assert_int_equal(SR_RING_BROKEN, sr_ring_peek(ring, CAPACITY, &copy));
    assert_null(sr_ring_reserve(ring, CAPACITY, UINT64_MAX, &cell));
    sr_shared_release(&memory);
}

static void test_wait_times_out(void **state) {
    (void)state;
    sr_bell bell = {0};
    int64_t begin = sr_clock_ns();
    sr_bell_wait(&bell, 0, 3600 * SR_NS_PER_S); // shortened to 50 ms
    assert_true(sr_clock_ns() - begin >= 40 * SR_NS_PER_MS);
    assert_true(sr_clock_ns() - begin < 5 * SR_NS_PER_S);
    sr_bell_ring(&bell);
    sr_bell_wait(&bell, 0, SR_NS_PER_S); // differs already: returns at once
    assert_int_equal(0, atomic_load(&bell.waiters));
}

static void *consume_thread(void *user) {
    sr_ring *ring = user;
    for (uint64_t i = 0; i < 20000; i++) {
        sr_cell cell;
        for (;;) {
            uint32_t seen = sr_bell_read(&ring->published_bell);
            if (sr_ring_peek(ring, CAPACITY, &cell) == SR_RING_HAS_CELL)
                break;
            sr_bell_wait(&ring->published_bell, seen, SR_NS_PER_S);
        }
        if (!intact(ring, &cell, i))
            return ring;
        sr_ring_consume(ring);
        sr_bell_ring(&ring->consumed_bell);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    sr_shared_memory memory;
    sr_ring *ring = make_ring(&memory, CAPACITY);
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, consume_thread, ring));
    for (uint64_t i = 0; i < 20000;) {
        uint32_t seen = sr_bell_read(&ring->consumed_bell);
        if (produce(ring, i))
            i++;
        else
            sr_bell_wait(&ring->consumed_bell, seen, SR_NS_PER_S);
    }
    void *bad;
    assert_int_equal(0, pthread_join(thread, &bad));
    assert_null(bad);
    sr_shared_release(&memory);
}

static void produce_for_ever(sr_ring *ring) {
    for (;;) {
        uint32_t seen = sr_bell_read(&ring->consumed_bell);
        if (!produce(ring, atomic_load(&ring->published)))
            sr_bell_wait(&ring->consumed_bell, seen, SR_NS_PER_S);
    }
}

// A producer that continues from the ring alone is killed again and again.
static void test_killed_producer(void **state) {
    (void)state;
    sr_shared_memory memory;
    sr_ring *ring = make_ring(&memory, CAPACITY);
    uint64_t out = 0;
    for (uint32_t kills = 0; kills < 60; kills++) {
        pid_t child = fork();
        if (child == 0)
            produce_for_ever(ring);
        assert_true(child > 0);
        uint64_t until = out + sr_philox(4, kills, 0, 0, 0).v[0] % 300;
        while (out < until) {
            uint32_t seen = sr_bell_read(&ring->published_bell);
            sr_cell cell;
            if (!peek(ring, &cell)) {
                sr_bell_wait(&ring->published_bell, seen, SR_NS_PER_S);
                continue;
            }
            assert_true(intact(ring, &cell, out++));
            sr_ring_consume(ring);
            sr_bell_ring(&ring->consumed_bell);
        }
        assert_int_equal(0, kill(child, SIGKILL));
        assert_int_equal(child, waitpid(child, NULL, 0));
    }
    for (sr_cell cell; peek(ring, &cell); sr_ring_consume(ring))
        assert_true(intact(ring, &cell, out++));
    sr_shared_release(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sealed),          cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_wraps),           cmocka_unit_test(test_limits),
        cmocka_unit_test(test_wait_times_out),  cmocka_unit_test(test_threads),
        cmocka_unit_test(test_killed_producer), cmocka_unit_test(test_broken),
        cmocka_unit_test(test_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
