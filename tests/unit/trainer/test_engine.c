// SPDX-License-Identifier: Apache-2.0
// Steps of a rank: the same bits for any number of threads, no allocation in a replayed step, two
// phases, the average of parameters.
#include "tests/unit/support/test_support.h"

#include "kernels/base/memory.h"
#include "tests/unit/trainer/engine_fixture.h"

static void test_threads_change_no_bit(void **state) {
    (void)state;
    for (int precision = 0; precision < 2; precision++) {
        const char *extra = precision ? "precision=bf16" : "precision=fp32";
        char digest[3][SR_SHA256_HEX];
        double first, last;
        for (int threads = 1; threads <= 3; threads++)
            engine_run("tests/recipes/tiny.yaml", threads, extra, 8, &first, &last,
                       digest[threads - 1]);
        assert_string_equal(digest[0], digest[1]);
        assert_string_equal(digest[0], digest[2]);
        assert_true(last < first);
    }
}

// Mixing changes the results, but not between thread counts; with probability 0 it is the plain
// run.
static void test_mixing(void **state) {
    (void)state;
    static const char *const extra[] = {"mix={mixup: 0.4, cutmix: 1, probability: 0.8}",
                                        "mix={mixup: 0.4, probability: 0}", NULL};
    char digest[4][SR_SHA256_HEX];
    double first, last;
    for (int i = 0; i < 3; i++)
        engine_run("tests/recipes/tiny.yaml", 1, extra[i], 4, &first, &last, digest[i]);
    engine_run("tests/recipes/tiny.yaml", 3, extra[0], 4, &first, &last, digest[3]);
    assert_string_equal(digest[0], digest[3]);
    assert_string_equal(digest[1], digest[2]);
    assert_string_not_equal(digest[0], digest[2]);
}

static void test_mistakes_in_mixing(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"tests/recipes/tiny.yaml", "mix.mixup=-0.2", "mix.mixup: must be 0 to 1000, got '-0.2'"},
        {"tests/recipes/tiny.yaml", "mix.cutmix=nan", "mix.cutmix: expected a number, got 'nan'"},
        {"tests/recipes/tiny.yaml", "mix.probability=2", "mix.probability: must be 0 to 1"},
        {"tests/recipes/tiny.yaml", "mix={cutmx: 1}", "'cutmx'; did you mean 'cutmix'?"},
        {"tests/recipes/tiny.yaml", "mix=0.2", "'mix' is a section: give it a map of keys"},
        {"toy-gan", "mix.cutmix=1", "command line: error: task gan mixes no samples"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_recipe *recipe = NULL;
        sr_status status = sr_recipe_load(cases[i][0], &cases[i][1], 1, &recipe);
        if (status == SR_OK)
            status = sr_recipe_check(recipe);
        assert_status(SR_E_USAGE, status);
        assert_message(cases[i][2]);
        sr_recipe_free(recipe);
    }
}

static void test_a_replayed_step_allocates_nothing(void **state) {
    (void)state;
    engine_fixture f = {0};
    engine_begin(&f, "tests/recipes/tiny.yaml", 1, NULL);
    for (int i = 0; i < 3; i++)
        (void)engine_step(&f, i);
    uint64_t before = sr_memory_get_stats().allocations;
    for (int i = 3; i < 6; i++)
        (void)engine_step(&f, i);
    assert_int_equal(sr_memory_get_stats().allocations, before);
    engine_end(&f);
}

static void test_two_phases_step(void **state) {
    (void)state;
    char one[SR_SHA256_HEX], two[SR_SHA256_HEX];
    double first, last;
    engine_run("toy-gan", 1, NULL, 3, &first, &last, one);
    engine_run("toy-gan", 2, NULL, 3, &first, &last, two);
    assert_string_equal(one, two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_mixing),
        cmocka_unit_test(test_mistakes_in_mixing),
        cmocka_unit_test(test_a_replayed_step_allocates_nothing),
        cmocka_unit_test(test_two_phases_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
