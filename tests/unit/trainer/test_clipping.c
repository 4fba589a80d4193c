// SPDX-License-Identifier: Apache-2.0
// Limits of gradients and loss scaling: what the ranks agree on before an update.
#include "tests/unit/support/test_support.h"

#include <math.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "tests/unit/trainer/engine_fixture.h"
#include "trainer/engine/param_set_internal.h"

#define TINY "tests/recipes/tiny.yaml"
#define PLAIN "momentum: 0, weight_decay: 0, lr: 0.05, name: sgd"
#define LR 0.05 // of engine_step

// The parameters as they are now.
static float *values_of(const sr_param_set *set) {
    float *mapped, *copy = sr_alloc_array((size_t)set->elements, sizeof *copy, "values");
    assert_non_null(copy);
    assert_ok(sr_param_set_map(set, SR_SET_VALUES, &mapped));
    memcpy(copy, mapped, (size_t)set->elements * sizeof *copy);
    assert_ok(sr_param_set_unmap(set, SR_SET_VALUES, mapped, false));
    return copy;
}

// The gradients of the first step: what SGD without momentum subtracts, over the learning rate;
// zero where a segment is no parameter.
static double *gradients(const char *extra, double *norm, double *told) {
    engine_fixture f = {0};
    engine_begin(&f, TINY, 2, extra);
    const sr_param_set *set = sr_engine_get_set(f.engine, 0);
    float *before = values_of(set);
    (void)engine_step(&f, 0);
    float *after = values_of(set);
    double *g = sr_alloc_array((size_t)set->elements, sizeof *g, "gradients"), squares = 0;
    assert_non_null(g);
    for (int s = 0; s < set->segment_count; s++) {
        const sr_segment *segment = &set->segments[s];
        if (set->uses[s].kind != SR_SEGMENT_PARAM)
            continue;
        for (int64_t i = segment->begin; i < segment->begin + segment->count; i++) {
            g[i] = ((double)before[i] - (double)after[i]) / LR;
            squares += g[i] * g[i];
        }
    }
    *norm = sqrt(squares);
    *told = set->gradient_norm;
    sr_free(before);
    sr_free(after);
    engine_end(&f);
    return g;
}

static void assert_close(double got, double want, double relative) {
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.9g where %.9g is wanted", got, want);
}

static void test_norm(void **state) {
    (void)state;
    double norm, told, free_norm;
    sr_free(gradients("optimizer={" PLAIN "}", &free_norm, &told));
    assert_true(isnan(told));
    sr_free(gradients("optimizer={" PLAIN ", clip_norm: 1e6}", &norm, &told));
    assert_close(norm, free_norm, 1e-12);
    assert_close(told, free_norm, 1e-5);
    char limit[128];
    (void)snprintf(limit, sizeof limit, "optimizer={" PLAIN ", clip_norm: %.9g}", free_norm / 3);
    sr_free(gradients(limit, &norm, &told));
    assert_close(norm, free_norm / 3, 1e-4);
    assert_close(told, free_norm, 1e-5);
}

static void test_value(void **state) {
    (void)state;
    double norm, told;
    double *whole = gradients("optimizer={" PLAIN "}", &norm, &told);
    double *limited = gradients("optimizer={" PLAIN ", clip_value: 0.01}", &norm, &told);
    engine_fixture f = {0};
    engine_begin(&f, TINY, 1, NULL);
    int64_t changed = 0, elements = sr_engine_get_set(f.engine, 0)->elements;
    engine_end(&f);
    assert_true(isnan(told));
    for (int64_t i = 0; i < elements; i++) {
        const double want = fmax(fmin(whole[i], 0.01), -0.01);
        changed += want != whole[i];
        assert_true(fabs(limited[i] - want) < 1e-5);
    }
    assert_true(changed > 10);
    sr_free(whole);
    sr_free(limited);
}

// A limit that no gradient reaches changes no bit, although its updates come after all gradients.
static void test_limits_out_of_reach(void **state) {
    (void)state;
    static const char *const extra[] = {NULL, "optimizer.clip_norm=1e9",
                                        "optimizer.clip_value=1e9"};
    char digest[3][SR_SHA256_HEX];
    double first, last;
    for (int i = 0; i < 3; i++)
        engine_run(TINY, 2, extra[i], 3, &first, &last, digest[i]);
    assert_string_equal(digest[0], digest[1]);
    assert_string_equal(digest[0], digest[2]);
}

static void test_threads_change_no_bit(void **state) {
    (void)state;
    static const char *const extra[] = {"optimizer.clip_norm=0.1", "precision=fp16"};
    for (int i = 0; i < 2; i++) {
        char one[SR_SHA256_HEX], three[SR_SHA256_HEX];
        double first, last;
        engine_run(TINY, 1, extra[i], 4, &first, &last, one);
        engine_run(TINY, 3, extra[i], 4, &first, &last, three);
        assert_string_equal(one, three);
        assert_true(last < first);
    }
}

static void test_both_limits_are_refused(void **state) {
    (void)state;
    sr_recipe *recipe = NULL;
    const char *const both[] = {"optimizer.clip_norm=1", "optimizer.clip_value=1"};
    assert_status(SR_E_USAGE, sr_recipe_load(TINY, both, 2, &recipe));
    assert_message("limited by clip_norm or by clip_value, not by both");
    sr_recipe_free(recipe);
}

// ---- Loss scaling ----

static void engine_begin_fp16(engine_fixture *f, const char *initial) {
    char extra[64];
    (void)snprintf(extra, sizeof extra, "loss_scale.initial=%s", initial);
    f->more = "precision=fp16";
    engine_begin(f, TINY, 2, extra);
}

// A step whose gradients overflow leaves parameters, states, average and running statistics.
static void test_overflow_skips_a_step(void **state) {
    (void)state;
    engine_fixture f = {0};
    engine_begin_fp16(&f, "16777216");
    const sr_param_set *set = sr_engine_get_set(f.engine, 0);
    const size_t bytes = (size_t)set->scalar_begin * sizeof(float);
    for (int step = 0; step < 40 && set->loss_scale.steps == 0; step++) {
        float *before = values_of(set);
        const sr_loss_scale old = set->loss_scale;
        (void)engine_step(&f, step);
        float *after = values_of(set);
        assert_true(set->skipped == (set->loss_scale.skipped == old.skipped + 1));
        assert_true(set->skipped == (set->loss_scale.scale == 0.5 * old.scale));
        assert_true(set->skipped == (memcmp(before, after, bytes) == 0));
        sr_free(before);
        sr_free(after);
    }
    assert_true(set->loss_scale.skipped >= 1);
    assert_true(set->loss_scale.steps == 1);
    assert_true(isfinite(set->gradient_norm));
    engine_end(&f);
}

// The scale is gone from the gradients: they are those of fp32, within the precision of f16.
static void test_gradients_are_unscaled(void **state) {
    (void)state;
    double norm[2];
    for (int i = 0; i < 2; i++) {
        engine_fixture f = {0};
        if (i == 0)
            engine_begin(&f, TINY, 2, "optimizer.clip_norm=1e9");
        else
            engine_begin_fp16(&f, "1024");
        (void)engine_step(&f, 0);
        norm[i] = sr_engine_get_set(f.engine, 0)->gradient_norm;
        engine_end(&f);
    }
    assert_close(norm[1], norm[0], 0.02);
}

static void test_rule(void **state) {
    (void)state;
    sr_loss_scale s = {.scale = 1024};
    for (int i = 0; i < 3; i++)
        assert_ok(sr_loss_scale_update(&s, 4, true));
    assert_true(s.scale == 1024 && s.steps == 3 && s.skipped == 0);
    assert_ok(sr_loss_scale_update(&s, 4, true));
    assert_true(s.scale == 2048 && s.steps == 0);
    assert_ok(sr_loss_scale_update(&s, 4, true));
    assert_ok(sr_loss_scale_update(&s, 4, false));
    assert_true(s.scale == 1024 && s.steps == 0 && s.skipped == 1);
    s = (sr_loss_scale){.scale = 8};
    assert_ok(sr_loss_scale_update(&s, 0, false));
    for (int i = 0; i < 5000; i++)
        assert_ok(sr_loss_scale_update(&s, 0, true));
    assert_true(s.scale == 8 && s.skipped == 1);
    s = (sr_loss_scale){.scale = SR_LOSS_SCALE_MOST};
    assert_ok(sr_loss_scale_update(&s, 1, true));
    assert_true(s.scale == SR_LOSS_SCALE_MOST);
    s = (sr_loss_scale){.scale = SR_LOSS_SCALE_LEAST};
    assert_status(SR_E_NON_FINITE, sr_loss_scale_update(&s, 1, false));
    assert_message("not even at a loss scale of 1.52588e-05");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_value),
        cmocka_unit_test(test_limits_out_of_reach),
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_both_limits_are_refused),
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_overflow_skips_a_step),
        cmocka_unit_test(test_gradients_are_unscaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
