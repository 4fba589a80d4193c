// SPDX-License-Identifier: Apache-2.0
// Schedules: values at the ends, in the middle and at milestones; warm-up; lengths; refusals.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "trainer/schedules/schedule.h"

static sr_arena arena;
static const sr_schedule_lengths lengths = {.total = 100000, .epoch = 1000, .batch = 100};
static const sr_length none = {0, SR_LENGTH_STEPS};

static int set_up(void **state) {
    (void)state;
    sr_arena_init(&arena);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sr_arena_release(&arena);
    return 0;
}

// A schedule by name with "key=value" settings; returns init's status.
static sr_status make(sr_schedule *out, const char *name, const char *const *settings,
                      sr_length warmup, double warmup_start) {
    const sr_schedule_desc *desc;
    SR_TRY(sr_schedule_find(name, &desc));
    void *options = sr_arena_alloc(&arena, desc->options->struct_size + 1);
    SR_TRY(sr_options_defaults(desc->options, options, &arena));
    for (; settings != NULL && *settings != NULL; settings += 2)
        SR_TRY(sr_options_set(desc->options, options, settings[0], settings[1], &arena));
    return sr_schedule_init(out, desc, options, 0.4, warmup, warmup_start, &lengths);
}

static void assert_near(double got, double want) {
    if (fabs(got - want) > 1e-14 + 1e-13 * fabs(want))
        fail_msg("%.17g instead of %.17g", got, want);
}

static void curves(void **state) {
    (void)state;
    sr_schedule s;
    assert_int_equal(make(&s, "constant", NULL, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 0), 0.4);
    assert_near(sr_schedule_lr_at(&s, 100000), 0.4);

    assert_int_equal(make(&s, "cosine", NULL, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 0), 0.4);
    assert_near(sr_schedule_lr_at(&s, 25000), 0.2 * (1 + sqrt(0.5)));
    assert_near(sr_schedule_lr_at(&s, 50000), 0.2);
    assert_near(sr_schedule_lr_at(&s, 100000), 0);
    assert_near(sr_schedule_lr_at(&s, 200000), 0); // after the end

    assert_int_equal(make(&s, "linear", (const char *[]){"end", "0.1", NULL}, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 50000), 0.4 * 0.55);
    assert_near(sr_schedule_lr_at(&s, 100000), 0.04);

    assert_int_equal(make(&s, "poly", (const char *[]){"power", "2", NULL}, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 50000), 0.1);
    assert_near(sr_schedule_lr_at(&s, 100000), 0);

    assert_int_equal(make(&s, "triangular",
                          (const char *[]){"start", "0.2", "peak", "0.25", "end", "0.5", NULL},
                          none, 0),
                     SR_OK);
    assert_near(sr_schedule_lr_at(&s, 0), 0.08);
    assert_near(sr_schedule_lr_at(&s, 12500), 0.4 * 0.6);
    assert_near(sr_schedule_lr_at(&s, 25000), 0.4);
    assert_near(sr_schedule_lr_at(&s, 62500), 0.4 * 0.75);
    assert_near(sr_schedule_lr_at(&s, 100000), 0.2);
}

static void milestones_count_epochs_from_the_start(void **state) {
    (void)state;
    sr_schedule s;
    const char *settings[] = {"milestones", "[30, 60, 80.5]", "gamma", "0.5", NULL};
    assert_int_equal(make(&s, "step", settings, (sr_length){5, SR_LENGTH_EPOCHS}, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 29999), 0.4);
    assert_near(sr_schedule_lr_at(&s, 30000), 0.2);
    assert_near(sr_schedule_lr_at(&s, 60000), 0.1);
    assert_near(sr_schedule_lr_at(&s, 80499), 0.1);
    assert_near(sr_schedule_lr_at(&s, 80500), 0.05);
}

// Milestones of a recipe for 25 epochs, in a run of 100; and milestones after the end of the run.
static void milestones_scale_with_the_run(void **state) {
    (void)state;
    sr_schedule s;
    const char *scaled[] = {"milestones", "[10, 20]", "of", "25", "gamma", "0.5", NULL};
    assert_int_equal(make(&s, "step", scaled, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 39999), 0.4);
    assert_near(sr_schedule_lr_at(&s, 40000), 0.2);
    assert_near(sr_schedule_lr_at(&s, 79999), 0.2);
    assert_near(sr_schedule_lr_at(&s, 80000), 0.1);
    const char *late[] = {"milestones", "[30, 3000]", NULL};
    assert_int_equal(make(&s, "step", late, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 30000), 0.04);
    assert_near(sr_schedule_lr_at(&s, 100000), 0.04);
}

static void exponential(void **state) {
    (void)state;
    sr_schedule s;
    const char *given[] = {"gamma", "0.5", "every", "2.5", NULL};
    assert_int_equal(make(&s, "exponential", given, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 0), 0.4);
    assert_near(sr_schedule_lr_at(&s, 2499), 0.4);
    assert_near(sr_schedule_lr_at(&s, 2500), 0.2);
    assert_near(sr_schedule_lr_at(&s, 7500), 0.05);
    // A tenth of the length that it is meant for.
    const char *scaled[] = {"gamma", "0.5", "every", "25", "of", "1000", NULL};
    assert_int_equal(make(&s, "exponential", scaled, none, 0), SR_OK);
    assert_near(sr_schedule_lr_at(&s, 2500), 0.2);
}

static void warm_up(void **state) {
    (void)state;
    sr_schedule s;
    const sr_length length[] = {{10, SR_LENGTH_EPOCHS},
                                {100, SR_LENGTH_STEPS},
                                {10000, SR_LENGTH_SAMPLES},
                                {10, SR_LENGTH_PERCENT}};
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(make(&s, "linear", NULL, length[i], 0.2), SR_OK);
        assert_near(sr_schedule_lr_at(&s, 0), 0.08);
        assert_near(sr_schedule_lr_at(&s, 5000), 0.4 * 0.6);
        assert_near(sr_schedule_lr_at(&s, 10000), 0.4); // the curve begins where warm-up ends
        assert_near(sr_schedule_lr_at(&s, 55000), 0.2);
        assert_near(sr_schedule_lr_at(&s, 100000), 0);
    }
    // A step has the rate at its middle: no step of a warm-up from 0 is lost.
    assert_int_equal(make(&s, "linear", NULL, length[0], 0), SR_OK);
    assert_near(sr_schedule_lr(&s, 0), 0.4 * 50 / 10000);
    assert_true(sr_schedule_lr(&s, 99900) > 0);
}

static void refuses(const char *name, const char *const *settings, sr_length warmup,
                    const char *word) {
    sr_schedule s;
    assert_int_equal(make(&s, name, settings, warmup, 0), SR_E_USAGE);
    if (strstr(sr_error_message(), word) == NULL)
        fail_msg("'%s' lacks '%s'", sr_error_message(), word);
}

static void refusals(void **state) {
    (void)state;
    refuses("cosinus", NULL, none, "did you mean 'cosine'");
    refuses("cosine", (const char *[]){"ende", "0", NULL}, none, "did you mean 'end'");
    refuses("cosine", NULL, (sr_length){101, SR_LENGTH_EPOCHS}, "schedule.warmup");
    refuses("step", NULL, none, "at least one");
    refuses("step", (const char *[]){"milestones", "60,30", NULL}, none, "increasing");
    refuses("step", (const char *[]){"milestones", "[30, 90]", "of", "90", NULL}, none,
            "not within 90 epochs");
    refuses("poly", (const char *[]){"power", "0", NULL}, none, "power");
}

// Every entry of the table has what the user interface needs.
static void every_descriptor_is_complete(void **state) {
    (void)state;
    size_t count;
    const sr_schedule_desc *const *all = sr_schedules(&count);
    assert_true(count >= 6);
    for (size_t i = 0; i < count; ++i) {
        assert_int_equal(all[i]->struct_size, sizeof **all);
        assert_int_equal(all[i]->abi, SR_SCHEDULE_ABI);
        assert_non_null(all[i]->help);
        for (size_t o = 0; o < all[i]->options->count; ++o)
            assert_int_equal(all[i]->options->options[o].option_class, SR_OPTION_NUMERICS);
        for (size_t j = 0; j < i; ++j)
            assert_string_not_equal(all[i]->name, all[j]->name);
    }
}

static void scaling(void **state) {
    (void)state;
    assert_near(sr_schedule_scale_lr(0.1, 256, 1024), 0.4);
    assert_near(sr_schedule_scale_lr(0.1, 0, 1024), 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves),
        cmocka_unit_test(milestones_count_epochs_from_the_start),
        cmocka_unit_test(milestones_scale_with_the_run),
        cmocka_unit_test(exponential),
        cmocka_unit_test(warm_up),
        cmocka_unit_test(refusals),
        cmocka_unit_test(every_descriptor_is_complete),
        cmocka_unit_test(scaling),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
