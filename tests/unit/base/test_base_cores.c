// SPDX-License-Identifier: Apache-2.0
// Processor sets, simulated machines, and how ranks share a machine's processors.
#include "tests/unit/support/test_support.h"

#include <sched.h>

#include "kernels/base/cores.h"
#include "tests/unit/support/machine_fixture.h"

static sr_cpu_set set_of(const char *text) {
    sr_cpu_set set;
    assert_ok(sr_cpu_set_parse(text, &set));
    return set;
}

static void test_lists_of_processors(void **state) {
    (void)state;
    char text[64], little[6];
    const sr_cpu_set set = set_of("0-3,8,10-11\n");
    assert_int_equal(7, sr_cpu_set_count(&set));
    assert_true(sr_cpu_set_has(&set, 3) && !sr_cpu_set_has(&set, 4) && sr_cpu_set_has(&set, 11));
    assert_string_equal("0-3,8,10-11", sr_cpu_set_text(&set, text, sizeof text));
    assert_string_equal("0-3,8", sr_cpu_set_text(&set, little, sizeof little)); // truncated
    const sr_cpu_set none = set_of("");
    assert_int_equal(0, sr_cpu_set_count(&none));
    assert_string_equal("", sr_cpu_set_text(&none, text, sizeof text));
    const sr_cpu_set beyond =
        set_of("1022-5000"); // processors beyond the last representable one are left out
    assert_int_equal(2, sr_cpu_set_count(&beyond));
    static const char *const wrong[] = {"x", "1-", "3-2", "1,,2", "-1", "1 2", "1;2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sr_cpu_set out;
        assert_status(SR_E_ARGUMENT, sr_cpu_set_parse(wrong[i], &out));
        assert_message(wrong[i]);
    }
}

// ---- Machines ----

static void expect_share(const sr_cpu_location *places, int count, int ranks, int index,
                         const char *want) {
    char text[64];
    sr_cpu_set share;
    assert_true(sr_cpu_share(places, count, ranks, index, &share));
    assert_string_equal(want, sr_cpu_set_text(&share, text, sizeof text));
}

static void test_ranks_share_nodes_and_cores(void **state) {
    (void)state;
    char folder[256];
    sr_cpu_location places[SR_CPUS];
    machine_make(folder);
    const sr_cpu_set all = set_of("0-15");
    const int count = sr_cpu_locations_read(folder, &all, places);
    assert_int_equal(16, count);
    assert_int_equal(8, sr_cpu_locations_cores(places, count));
    assert_int_equal(2, sr_cpu_locations_nodes(places, count));
    expect_share(places, count, 1, 0, "0-15");
    expect_share(places, count, 2, 0, "0,2,4,6,8,10,12,14"); // one node each
    expect_share(places, count, 2, 1, "1,3,5,7,9,11,13,15");
    expect_share(places, count, 4, 1, "4,6,12,14"); // whole cores
    expect_share(places, count, 8, 7, "7,15");
    expect_share(places, count, 3, 0, "0,2,8,10");
    expect_share(places, count, 3, 2, "3,5,7,11,13,15");
    sr_cpu_set share;
    assert_false(sr_cpu_share(places, count, 9, 3, &share)); // more ranks than cores
    assert_true(sr_cpu_set_equal(&all, &share));
    test_folder_remove(folder);
}

static void test_a_mask_is_respected(void **state) {
    (void)state;
    char folder[256];
    sr_cpu_location places[SR_CPUS];
    machine_make(folder);
    const sr_cpu_set mask = set_of("1,2,3,10");
    const int count = sr_cpu_locations_read(folder, &mask, places);
    assert_int_equal(4, count);
    assert_int_equal(3, sr_cpu_locations_cores(places, count)); // 2 and 10 are one core
    expect_share(places, count, 3, 0, "2,10");
    expect_share(places, count, 3, 1, "1");
    expect_share(places, count, 2, 1, "1,3");
    test_folder_remove(folder);
}

// The shares of any number of ranks are disjoint and non-empty, and cover the machine.
static void test_shares_cover_the_machine(void **state) {
    (void)state;
    char folder[256];
    sr_cpu_location places[SR_CPUS];
    machine_make(folder);
    const sr_cpu_set all = set_of("0-15");
    const int count = sr_cpu_locations_read(folder, &all, places);
    for (int ranks = 1; ranks <= 8; ranks++) {
        sr_cpu_set sum = {{0}};
        int members = 0;
        for (int r = 0; r < ranks; r++) {
            sr_cpu_set share;
            assert_true(sr_cpu_share(places, count, ranks, r, &share));
            assert_true(sr_cpu_set_count(&share) >= 2);
            members += sr_cpu_set_count(&share);
            for (int cpu = 0; cpu < 16; cpu++)
                if (sr_cpu_set_has(&share, cpu))
                    sr_cpu_set_add(&sum, cpu);
        }
        assert_int_equal(16, members);
        assert_true(sr_cpu_set_equal(&all, &sum));
    }
    test_folder_remove(folder);
}

// A container may hide the machine's topology: then every processor is a core of node 0.
static void test_an_unknown_machine(void **state) {
    (void)state;
    char folder[256];
    sr_cpu_location places[SR_CPUS];
    test_folder_make(folder);
    machine_write(folder, "devices/system/node/node0/cpulist", "nonsense\n");
    const sr_cpu_set mask = set_of("4-7");
    const int count = sr_cpu_locations_read(folder, &mask, places);
    assert_int_equal(4, sr_cpu_locations_cores(places, count));
    assert_int_equal(1, sr_cpu_locations_nodes(places, count));
    expect_share(places, count, 2, 1, "6-7");
    test_folder_remove(folder);
}

static void test_a_thread_keeps_to_its_set(void **state) {
    (void)state;
    const sr_cpu_set before = sr_cpu_set_of_thread();
    assert_true(sr_cpu_set_count(&before) > 0);
    int first = 0;
    while (!sr_cpu_set_has(&before, first))
        first++;
    sr_cpu_set one = {{0}};
    sr_cpu_set_add(&one, first);
    assert_ok(sr_cpu_set_bind(&one));
    const sr_cpu_set now = sr_cpu_set_of_thread();
    assert_true(sr_cpu_set_equal(&one, &now));
    assert_int_equal(first, sched_getcpu());
    assert_ok(sr_cpu_set_bind(&before));
    const sr_cpu_set none = {{0}};
    assert_status(SR_E_SYSTEM, sr_cpu_set_bind(&none));
    assert_message("SERRIED_PIN=0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_processors),
        cmocka_unit_test(test_ranks_share_nodes_and_cores),
        cmocka_unit_test(test_a_mask_is_respected),
        cmocka_unit_test(test_shares_cover_the_machine),
        cmocka_unit_test(test_an_unknown_machine),
        cmocka_unit_test(test_a_thread_keeps_to_its_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
