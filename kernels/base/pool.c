// SPDX-License-Identifier: Apache-2.0
// A thread pool with a fixed partition (see pool.h).
//
// Each worker has a ticket on its own cache line. The caller increments the tickets of the workers
// that have items and wakes those that sleep; the last worker to finish wakes the caller. Both
// sides first spin for 20 us, then sleep in a futex (futex(2)). One side publishes its work and
// then checks whether the other sleeps; the other marks itself as sleeping and then checks for work
// again. These accesses are sequentially consistent, so no wake-up is lost. Deliberately no work
// stealing: which thread computes what must not depend on timing.
#include "kernels/base/pool.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/float_control.h"
#include "kernels/base/machine.h"
#include "kernels/base/memory.h"
#include "kernels/base/thread.h"

enum { SPIN_NS = 20000, SPINS_PER_LOOK = 32, SIZE_LIMIT = 1024 };

typedef struct pool_worker {
    _Alignas(64) atomic_uint ticket; // incremented for each call of sr_pool_run
    atomic_uint sleeps;
    pthread_t thread;
    sr_pool *pool;
    int index;
} pool_worker;

struct sr_pool {
    // Written by the caller before tickets are raised, read by workers after.
    sr_pool_fn fn;
    void *user;
    int64_t count;
    bool stop;
    int size, started;
    int64_t spin_ns;
    void (*init)(void *user, int worker);
    void *init_user;
    pool_worker *workers; // [size]; [0] is the caller and has no thread
    _Alignas(64) atomic_uint pending;
    atomic_uint caller_sleeps;
};

static void futex_wait(atomic_uint *word, unsigned expected) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Spins for a short time; true when *word changed from 'seen'.
static bool spin_while(atomic_uint *word, unsigned seen, int64_t spin_ns) {
    int64_t end = spin_ns > 0 ? sr_clock_ns() + spin_ns : 0;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen)
                return true;
            relax();
        }
    } while (spin_ns > 0 && sr_clock_ns() < end);
    return false;
}

// Returns when *word differs from 'seen'; *sleeps shows the other side that a wake-up is needed.
static void wait_while(atomic_uint *word, unsigned seen, atomic_uint *sleeps, int64_t spin_ns) {
    if (spin_while(word, seen, spin_ns))
        return;
    atomic_store(sleeps, 1);
    while (atomic_load(word) == seen)
        futex_wait(word, seen); // returns at once when *word has changed, or on a signal
    atomic_store(sleeps, 0);
}

static void run_share(const sr_pool *pool, int worker) {
    sr_float_control();
    for (int64_t item = worker; item < pool->count; item += pool->size)
        pool->fn(pool->user, item, worker);
}

static void finish_share(sr_pool *pool) {
    if (atomic_fetch_sub(&pool->pending, 1) == 1 && atomic_load(&pool->caller_sleeps))
        futex_wake(&pool->pending);
}

static void *worker_main(void *argument) {
    pool_worker *worker = argument;
    sr_pool *pool = worker->pool;
    if (pool->init != NULL)
        pool->init(pool->init_user, worker->index);
    finish_share(pool);
    for (unsigned seen = 0;; seen++) {
        wait_while(&worker->ticket, seen, &worker->sleeps, pool->spin_ns);
        if (pool->stop)
            return NULL;
        run_share(pool, worker->index);
        finish_share(pool);
    }
}

static sr_status start_thread(pool_worker *worker) {
    char name[32];
    (void)snprintf(name, sizeof name, "sr-pool-%d", worker->index);
    return sr_thread_start(&worker->thread, name, worker_main, worker);
}

static void wait_for_all(sr_pool *pool) {
    for (;;) {
        unsigned left = atomic_load(&pool->pending);
        if (left == 0)
            return;
        wait_while(&pool->pending, left, &pool->caller_sleeps, pool->spin_ns);
    }
}

sr_status sr_pool_create(int size, void (*init)(void *user, int worker), void *user,
                         sr_pool **out) {
    if (size < 1 || size > SIZE_LIMIT)
        return SR_FAIL(SR_E_ARGUMENT, "a pool of %d threads: must be 1 to %d", size, SIZE_LIMIT);
    sr_pool *pool = sr_alloc(sizeof *pool, "a thread pool");
    if (pool == NULL)
        return SR_E_MEMORY;
    pool->size = size;
    pool->spin_ns = sr_cpu_count() > 1 ? SPIN_NS : 0;
    pool->init = init;
    pool->init_user = user;
    pool->workers = sr_alloc_array((size_t)size, sizeof *pool->workers, "pool workers");
    if (pool->workers == NULL) {
        sr_free(pool);
        return SR_E_MEMORY;
    }
    for (int i = 1; i < size; i++) {
        pool_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i;
        atomic_fetch_add(&pool->pending, 1);
        sr_status status = start_thread(worker);
        if (status != SR_OK) {
            atomic_fetch_sub(&pool->pending, 1);
            sr_pool_free(pool);
            return status;
        }
        pool->started++;
    }
    if (init != NULL)
        init(user, 0);
    wait_for_all(pool); // every thread is set up before the pool is used
    *out = pool;
    return SR_OK;
}

int sr_pool_size(const sr_pool *pool) {
    return pool->size;
}

static void raise_tickets(sr_pool *pool, int workers) {
    for (int i = 1; i <= workers; i++) {
        pool_worker *worker = &pool->workers[i];
        atomic_fetch_add(&worker->ticket, 1);
        if (atomic_load(&worker->sleeps))
            futex_wake(&worker->ticket);
    }
}

void sr_pool_run(sr_pool *pool, int64_t count, sr_pool_fn fn, void *user) {
    if (count <= 0)
        return;
    assert(atomic_load(&pool->pending) == 0);
    if (pool->size == 1 || count == 1) { // only the caller has items
        sr_float_control();
        for (int64_t item = 0; item < count; item++)
            fn(user, item, 0);
        return;
    }
    pool->fn = fn;
    pool->user = user;
    pool->count = count;
    int others = count < pool->size ? (int)count - 1 : pool->size - 1;
    atomic_store(&pool->pending, (unsigned)others);
    raise_tickets(pool, others);
    run_share(pool, 0);
    wait_for_all(pool);
}

void sr_pool_free(sr_pool *pool) {
    if (pool == NULL)
        return;
    wait_for_all(pool);
    pool->stop = true;
    raise_tickets(pool, pool->started);
    for (int i = 1; i <= pool->started; i++)
        (void)pthread_join(pool->workers[i].thread, NULL);
    sr_free(pool->workers);
    sr_free(pool);
}

static int affinity_count(void) {
    for (int processors = 1024; processors <= 1 << 20; processors *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)processors);
        if (set == NULL)
            return 1;
        size_t bytes = CPU_ALLOC_SIZE((size_t)processors);
        int result = sched_getaffinity(0, bytes, set);
        int error = errno;
        int count = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (result == 0)
            return count > 0 ? count : 1;
        if (error != EINVAL) // EINVAL: the mask of this kernel is longer
            return 1;
    }
    return 1;
}

// The first numbers of a file of a cgroup; those that are missing, or "max", stay 0.
static void read_numbers(const char *folder, const char *name, double *first, double *second) {
    char path[4300], text[64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(text, sizeof text, file) != NULL) { // "max 100000" or "150000 100000"
        char *rest = text;
        *first = strtod(text, &rest);
        *second = strtod(rest, NULL);
    }
    (void)fclose(file);
}

// The processors that one cgroup's quota allows, rounded up, where they are fewer than *user.
static void bound_by_cgroup(const char *folder, void *user) {
    double quota = 0, period = 0, none;
    int *count = user;
    read_numbers(folder, "cpu.max", &quota, &period);
    if (quota <= 0) { // version 1
        read_numbers(folder, "cpu.cfs_quota_us", &quota, &none);
        read_numbers(folder, "cpu.cfs_period_us", &period, &none);
    }
    if (quota <= 0 || period <= 0)
        return;
    double allowed = (quota + period - 1) / period; // may be more than an int holds
    if (allowed < *count)
        *count = (int)allowed;
}

int sr_cpu_count(void) {
    int count = affinity_count();
    sr_machine_visit_cgroups("cpu", bound_by_cgroup, &count);
    return count < 1 ? 1 : count;
}
