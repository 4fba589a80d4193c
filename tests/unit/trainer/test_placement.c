// SPDX-License-Identifier: Apache-2.0
// Ranks, here threads, share the processors that they have in common (trainer/engine/placement.h).
#include "tests/unit/support/test_support.h"

#include <pthread.h>

#include "collective/backend_local_internal.h"
#include "kernels/base/pool.h"
#include "tests/unit/support/machine_fixture.h"
#include "trainer/engine/placement.h"

enum { MOST_RANKS = 8 };

typedef struct placed_rank {
    sr_comm *comm;
    const sr_cpu_set *mask; // its own, or NULL
    sr_status status;
    sr_placement placement;
    sr_cpu_set after; // of its thread
} placed_rank;

static void *place(void *user) {
    placed_rank *r = user;
    r->status = r->mask ? sr_cpu_set_bind(r->mask) : SR_OK;
    if (r->status == SR_OK)
        r->status = sr_placement_make(r->comm, &r->placement);
    r->after = sr_cpu_set_of_thread();
    sr_comm_free(r->comm);
    return NULL;
}

// masks: of each rank, or NULL for those of this thread.
static void place_ranks(int count, const sr_cpu_set *masks, placed_rank *ranks) {
    sr_local_world *world;
    pthread_t threads[MOST_RANKS];
    assert_ok(sr_local_world_create(&(sr_local_options){.size = count}, &world));
    for (int r = 0; r < count; r++) {
        ranks[r] = (placed_rank){.mask = masks ? &masks[r] : NULL};
        assert_ok(sr_local_world_join(world, r, &(sr_comm_options){0}, &ranks[r].comm));
    }
    for (int r = 0; r < count; r++)
        assert_int_equal(0, pthread_create(&threads[r], NULL, place, &ranks[r]));
    for (int r = 0; r < count; r++) {
        assert_int_equal(0, pthread_join(threads[r], NULL));
        assert_ok(ranks[r].status);
    }
    sr_local_world_free(world);
}

// Two different processors of this process; skips the test if there is only one.
static void two_processors(sr_cpu_set one[2]) {
    const sr_cpu_set all = sr_cpu_set_of_thread();
    if (sr_cpu_count() < 2)
        test_skip("only one processor");
    one[0] = one[1] = (sr_cpu_set){{0}};
    for (int cpu = 0, found = 0; cpu < SR_CPUS && found < 2; cpu++)
        if (sr_cpu_set_has(&all, cpu))
            sr_cpu_set_add(&one[found++], cpu);
}

static void test_ranks_with_one_mask_share_it(void **state) {
    (void)state;
    sr_cpu_set one[2], masks[2] = {{{0}}};
    placed_rank ranks[2];
    two_processors(one);
    for (size_t i = 0; i < SR_CPU_WORDS; i++)
        masks[0].words[i] = masks[1].words[i] = one[0].words[i] | one[1].words[i];
    place_ranks(2, masks, ranks);
    if (!ranks[0].placement.bound)
        test_skip("the processors are threads of one core, or there is a quota");
    for (int r = 0; r < 2; r++) {
        assert_true(sr_cpu_set_equal(&ranks[r].placement.cpus, &ranks[r].after));
        assert_int_equal(1, sr_cpu_set_count(&ranks[r].after));
        assert_int_equal(1, ranks[r].placement.threads);
        assert_int_equal(2, ranks[r].placement.ranks);
    }
    assert_false(sr_cpu_set_equal(&ranks[0].after, &ranks[1].after));
}

static void test_a_mask_of_ones_own_stays(void **state) {
    (void)state;
    sr_cpu_set one[2];
    placed_rank ranks[2];
    two_processors(one);
    place_ranks(2, one, ranks);
    for (int r = 0; r < 2; r++) {
        assert_true(sr_cpu_set_equal(&one[r], &ranks[r].after));
        assert_int_equal(1, ranks[r].placement.ranks);
        assert_int_equal(1, ranks[r].placement.threads);
    }
}

static void test_more_ranks_than_cores_run_anywhere(void **state) {
    (void)state;
    sr_cpu_set one[2], masks[MOST_RANKS];
    placed_rank ranks[MOST_RANKS];
    two_processors(one);
    for (int r = 0; r < 3; r++) // of one processor
        masks[r] = one[0];
    place_ranks(3, masks, ranks);
    for (int r = 0; r < 3; r++) {
        assert_false(ranks[r].placement.bound);
        assert_int_equal(1, ranks[r].placement.threads);
        assert_true(sr_cpu_set_equal(&one[0], &ranks[r].after));
    }
}

static void test_settings_of_the_environment(void **state) {
    (void)state;
    const sr_cpu_set before = sr_cpu_set_of_thread();
    placed_rank ranks[2];
    assert_int_equal(0, setenv("SERRIED_PIN", "0", 1));
    assert_int_equal(0, setenv("SERRIED_THREADS", "5", 1));
    place_ranks(2, NULL, ranks);
    for (int r = 0; r < 2; r++) {
        assert_false(ranks[r].placement.bound);
        assert_true(sr_cpu_set_equal(&before, &ranks[r].after));
        assert_int_equal(5, ranks[r].placement.threads);
    }
    static const char *const wrong[] = {"", "abc", "2x", "0", "-1", "1e3", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sr_comm *comm;
        sr_placement placement;
        const sr_comm_options options = {.alone = true};
        assert_int_equal(0, setenv("SERRIED_THREADS", wrong[i], 1));
        assert_ok(sr_comm_create(&options, &comm));
        assert_status(SR_E_USAGE, sr_placement_make(comm, &placement));
        assert_message("is not a number of threads from 1 to ");
        sr_comm_free(comm);
    }
    assert_int_equal(0, unsetenv("SERRIED_PIN"));
    assert_int_equal(0, unsetenv("SERRIED_THREADS"));
}

static void expect_lane(const char *sys, const char *cpus, int lanes, int index, const char *want) {
    char text[64];
    sr_cpu_set of, lane;
    assert_ok(sr_cpu_set_parse(cpus, &of));
    assert_true(sr_placement_of_lane(sys, &of, lanes, index, &lane));
    assert_string_equal(want, sr_cpu_set_text(&lane, text, sizeof text));
}

static void test_lanes_keep_to_a_node(void **state) {
    (void)state;
    char sys[256];
    sr_cpu_set of, lane;
    machine_make(sys);
    expect_lane(sys, "0-15", 2, 0, "0,2,4,6,8,10,12,14");
    expect_lane(sys, "0-15", 2, 1, "1,3,5,7,9,11,13,15");
    expect_lane(sys, "0-15", 8, 3, "6,14");
    expect_lane(sys, "0-3", 2, 1, "1,3");
    assert_ok(sr_cpu_set_parse("0,2,4,6", &of)); // of one node
    assert_false(sr_placement_of_lane(sys, &of, 2, 0, &lane));
    assert_ok(sr_cpu_set_parse("0-15", &of));
    assert_false(sr_placement_of_lane(sys, &of, 1, 0, &lane));
    assert_int_equal(0, setenv("SERRIED_PIN", "0", 1));
    assert_false(sr_placement_of_lane(sys, &of, 2, 0, &lane));
    assert_int_equal(0, unsetenv("SERRIED_PIN"));
    test_folder_remove(sys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_with_one_mask_share_it),
        cmocka_unit_test(test_a_mask_of_ones_own_stays),
        cmocka_unit_test(test_more_ranks_than_cores_run_anywhere),
        cmocka_unit_test(test_settings_of_the_environment),
        cmocka_unit_test(test_lanes_keep_to_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
