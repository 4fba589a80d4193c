// SPDX-License-Identifier: Apache-2.0
// The thread pool: every item runs once, on the worker that the partition names, in every size;
// repeated runs.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "tests/unit/support/test_support.h"

enum { ITEMS = 1000, SIZES = 5 };

typedef struct tally {
    int size;
    int worker_of[ITEMS]; // plain memory: the pool's own ordering must make it visible (TSan)
    int runs[ITEMS];
    atomic_int inits;
} tally;

static void visit(void *user, int64_t item, int worker) {
    tally *t = user;
    t->worker_of[item] = worker;
    t->runs[item]++;
}

static void count_init(void *user, int worker) {
    tally *t = user;
    assert_true(worker >= 0 && worker < t->size);
    atomic_fetch_add(&t->inits, 1);
}

static void every_item_once(void **state) {
    (void)state;
    static const int sizes[SIZES] = {1, 2, 3, 4, 7};
    static const int64_t counts[] = {0, 1, 2, 3, 5, ITEMS};
    for (int s = 0; s < SIZES; s++) {
        tally t = {.size = sizes[s]};
        sr_pool *pool = NULL;
        assert_ok(sr_pool_create(sizes[s], count_init, &t, &pool));
        assert_int_equal(sizes[s], sr_pool_size(pool));
        assert_int_equal(sizes[s], atomic_load(&t.inits));
        for (int c = 0; c < 6; c++) {
            memset(t.runs, 0, sizeof t.runs);
            sr_pool_run(pool, counts[c], visit, &t);
            for (int64_t i = 0; i < ITEMS; i++) {
                assert_int_equal(i < counts[c], t.runs[i]);
                if (i < counts[c])
                    assert_int_equal(i % sizes[s], t.worker_of[i]);
            }
        }
        sr_pool_free(pool);
    }
    sr_pool_free(NULL);
}

// Many short runs, some with pauses, so that runs find workers spinning, falling asleep and asleep.
static void many_runs_lose_no_wake_up(void **state) {
    (void)state;
    tally t = {.size = 3};
    sr_pool *pool = NULL;
    assert_ok(sr_pool_create(3, NULL, NULL, &pool));
    uint64_t allocations = sr_memory_get_stats().allocations;
    enum { RUNS = 4000 };
    for (int n = 0; n < RUNS; n++) {
        sr_pool_run(pool, 3 + n % 5, visit, &t);
        if (n % 64 == 0)
            sr_clock_sleep_ns(n % 128 == 0 ? 20000 : 100000);
    }
    assert_int_equal(RUNS, t.runs[0]);
    assert_int_equal(RUNS, t.runs[2]);
    assert_int_equal(RUNS / 5, t.runs[6]);
    assert_int_equal(allocations, sr_memory_get_stats().allocations);
    sr_pool_free(pool);
}

static void check_mask(void *user, int64_t item, int worker) {
    (void)item;
    sigset_t set;
    assert_int_equal(0, pthread_sigmask(SIG_SETMASK, NULL, &set));
    if (worker > 0 && sigismember(&set, SIGTERM) == 1)
        atomic_fetch_add((atomic_int *)user, 1);
}

static void workers_take_no_signals(void **state) {
    (void)state;
    atomic_int blocked = 0;
    sr_pool *pool = NULL;
    assert_ok(sr_pool_create(3, NULL, NULL, &pool));
    sr_pool_run(pool, 3, check_mask, &blocked);
    assert_int_equal(2, atomic_load(&blocked));
    sigset_t set;
    assert_int_equal(0, pthread_sigmask(SIG_SETMASK, NULL, &set));
    assert_int_equal(0, sigismember(&set, SIGTERM));
    sr_pool_free(pool);
}

static void errors(void **state) {
    (void)state;
    sr_pool *pool = NULL;
    assert_status(SR_E_ARGUMENT, sr_pool_create(0, NULL, NULL, &pool));
    assert_status(SR_E_ARGUMENT, sr_pool_create(100000, NULL, NULL, &pool));
    uint64_t live = sr_memory_get_stats().live_blocks;
    for (uint64_t n = 1; n <= 2; n++) {
        sr_memory_fail_nth(n);
        assert_status(SR_E_MEMORY, sr_pool_create(2, NULL, NULL, &pool));
        assert_int_equal(live, sr_memory_get_stats().live_blocks);
    }
    assert_null(pool);
}

static void processors(void **state) {
    (void)state;
    cpu_set_t set, one;
    int count = sr_cpu_count();
    assert_true(count >= 1);
    assert_int_equal(0, sched_getaffinity(0, sizeof set, &set));
    assert_true(count <= CPU_COUNT(&set));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &set))
            CPU_SET(i, &one);
    assert_int_equal(0, sched_setaffinity(0, sizeof one, &one));
    assert_int_equal(1, sr_cpu_count());
    assert_int_equal(0, sched_setaffinity(0, sizeof set, &set));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(many_runs_lose_no_wake_up),
        cmocka_unit_test(workers_take_no_signals),
        cmocka_unit_test(errors),
        cmocka_unit_test(processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
