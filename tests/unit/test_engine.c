// SPDX-License-Identifier: Apache-2.0
// Steps of a rank: the same bits for any number of threads, no allocation in a replayed step, two
// phases, the average of parameters.
#include "test_support.h"

#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "trainer/choices.h"
#include "trainer/state.h"
#include "trainer/train.h"

enum { SIDE = 32, BATCH = 32, LANES = 4, CLASSES = 5 };

typedef struct fixture {
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
    uint8_t *images;
    int32_t *labels;
} fixture;

static sr_status get(void *user, int lane, sr_lane_inputs *out) {
    fixture *f = user;
    int64_t first = lane * (BATCH / LANES);
    *out =
        (sr_lane_inputs){.image = f->images + first * SIDE * SIDE * 3, .label = f->labels + first};
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

static void fill_pictures(fixture *f) {
    sr_rng rng;
    sr_rng_init(&rng, 7, 0, 0, 0);
    f->images = sr_alloc((size_t)BATCH * SIDE * SIDE * 3, "pictures");
    f->labels = sr_alloc_array(BATCH, sizeof *f->labels, "labels");
    assert_non_null(f->images);
    assert_non_null(f->labels);
    for (int i = 0; i < BATCH; i++) {
        f->labels[i] = i % CLASSES;
        for (int k = 0; k < SIDE * SIDE * 3; k++)
            f->images[i * SIDE * SIDE * 3 + k] =
                (uint8_t)(sr_rng_below(&rng, 128) + (uint32_t)(i % CLASSES) * 25);
    }
}

static void begin(fixture *f, const char *recipe, int threads, const char *extra) {
    const char *overrides[] = {"batch=32", "lanes=4", extra};
    const sr_task_desc *task;
    const sr_comm_options comm = {.backend = "self"};
    assert_ok(sr_recipe_load(recipe, overrides, extra ? 3 : 2, &f->recipe));
    assert_ok(sr_train_check(f->recipe));
    assert_ok(sr_choose_task(f->recipe, &task));
    assert_ok(sr_comm_create(&comm, &f->comm));
    const sr_engine_options options = {.recipe = f->recipe,
                                       .task = task,
                                       .comm = f->comm,
                                       .threads = threads,
                                       .classes = CLASSES,
                                       .batch = BATCH,
                                       .lanes = LANES,
                                       .image_height = SIDE,
                                       .image_width = SIDE,
                                       .seed = 3};
    assert_ok(sr_engine_create(&options, &f->engine));
    for (int p = 0; p < f->engine->phase_count; p++)
        sr_phase_start_average(f->engine->phases[p]);
    fill_pictures(f);
}

static void end(fixture *f) {
    sr_engine_free(f->engine);
    sr_comm_free(f->comm);
    sr_recipe_free(f->recipe);
    sr_free(f->images);
    sr_free(f->labels);
}

static double step(fixture *f, int64_t number) {
    const sr_lane_source source = {.get = get, .done = done, .user = f};
    const sr_ema_settings ema = {.decay = 0.9, .due = true};
    double loss = 0;
    for (int p = 0; p < f->engine->phase_count; p++) {
        sr_phase_set_step(f->engine->phases[p], number, number * BATCH, 0.05, 1.0 / BATCH, ema);
        assert_ok(sr_engine_step(f->engine, p, number, &source));
        loss = sr_phase_loss_sum(f->engine->phases[p]) / BATCH;
        assert_true(loss == loss);
    }
    return loss;
}

static void run(const char *recipe, int threads, const char *extra, int steps, double *first,
                double *last, char digest[SR_SHA256_HEX]) {
    fixture f = {0};
    begin(&f, recipe, threads, extra);
    for (int i = 0; i < steps; i++) {
        *last = step(&f, i);
        if (i == 0)
            *first = *last;
    }
    assert_ok(sr_state_digest(f.engine, steps * BATCH, steps, digest));
    end(&f);
}

static void test_threads_change_no_bit(void **state) {
    (void)state;
    for (int precision = 0; precision < 2; precision++) {
        const char *extra = precision ? "precision=bf16" : "precision=fp32";
        char digest[3][SR_SHA256_HEX];
        double first, last;
        for (int threads = 1; threads <= 3; threads++)
            run("tests/recipes/tiny.yaml", threads, extra, 8, &first, &last, digest[threads - 1]);
        assert_string_equal(digest[0], digest[1]);
        assert_string_equal(digest[0], digest[2]);
        assert_true(last < first);
    }
}

// Mixing changes the run, never between threads; with probability 0 it is the plain run.
static void test_mixing(void **state) {
    (void)state;
    static const char *const extra[] = {"mix={mixup: 0.4, cutmix: 1, probability: 0.8}",
                                        "mix={mixup: 0.4, probability: 0}", NULL};
    char digest[4][SR_SHA256_HEX];
    double first, last;
    for (int i = 0; i < 3; i++)
        run("tests/recipes/tiny.yaml", 1, extra[i], 4, &first, &last, digest[i]);
    run("tests/recipes/tiny.yaml", 3, extra[0], 4, &first, &last, digest[3]);
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
        {"tests/recipes/tiny.yaml", "mix=0.2", "'mix' holds further keys: give it a map"},
        {"toy-gan", "mix.cutmix=1", "command line: error: task gan mixes no samples"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_recipe *recipe = NULL;
        sr_status status = sr_recipe_load(cases[i][0], &cases[i][1], 1, &recipe);
        if (status == SR_OK)
            status = sr_train_check(recipe);
        assert_status(SR_E_USAGE, status);
        assert_message(cases[i][2]);
        sr_recipe_free(recipe);
    }
}

static void test_a_replayed_step_allocates_nothing(void **state) {
    (void)state;
    fixture f = {0};
    begin(&f, "tests/recipes/tiny.yaml", 1, NULL);
    for (int i = 0; i < 3; i++)
        (void)step(&f, i);
    uint64_t before = sr_memory_get_stats().allocations;
    for (int i = 3; i < 6; i++)
        (void)step(&f, i);
    assert_int_equal(sr_memory_get_stats().allocations, before);
    end(&f);
}

static void test_two_phases_step(void **state) {
    (void)state;
    char one[SR_SHA256_HEX], two[SR_SHA256_HEX];
    double first, last;
    run("toy-gan", 1, NULL, 3, &first, &last, one);
    run("toy-gan", 2, NULL, 3, &first, &last, two);
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
