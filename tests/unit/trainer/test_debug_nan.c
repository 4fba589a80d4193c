// SPDX-License-Identifier: Apache-2.0
// Checked replays (debug.nan): the first value that is not finite is named, with its operator and
// layer; without one, no bit changes.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "graph/executor_check.h"
#include "tests/unit/support/picture_slot.h"
#include "tests/unit/trainer/engine_fixture.h"

enum { COUNT = 6 };

typedef struct checked {
    sr_context *context;
    sr_executor *executor;
    sr_tensor w; // variable "layer.weight"
} checked;

static const sr_info shape = {.dtype = SR_F32, .rank = 1, .dim = {COUNT}};

static void begin(checked *c, const float *weights) {
    const sr_context_options options = {.threads = 1, .optimize = -1};
    assert_ok(sr_context_create(&options, &c->context));
    assert_ok(sr_executor_create(sr_context_device(c->context), 1, &c->executor));
    assert_ok(sr_executor_set_checking(c->executor, c->context));
    c->w = sr_variable(c->context, "layer.weight", &shape, weights);
}

static void end(checked *c) {
    sr_executor_free(c->executor);
    sr_context_free(c->context);
}

static sr_status run(checked *c, sr_tensor result) {
    const sr_target target = {.tensor = result};
    const sr_run nothing = {0};
    sr_plan *plan;
    assert_ok(sr_context_status(c->context));
    assert_ok(sr_compile(c->context, &target, 1, &plan));
    const sr_status status = sr_executor_begin(c->executor, plan, &nothing);
    return status == SR_OK ? sr_executor_wait(c->executor) : status;
}

static void test_finite(void **state) {
    (void)state;
    checked c;
    begin(&c, (const float[COUNT]){1, 2, 3, 4, 5, 6});
    assert_ok(run(&c, sr_reduce_sum(sr_log_op(c.w))));
    end(&c);
}

// The operator that makes the value, not one that hands it on.
static void test_operator_is_named(void **state) {
    (void)state;
    checked c;
    begin(&c, (const float[COUNT]){1, 2, 0, 4, -5, 6});
    assert_status(SR_E_NON_FINITE, run(&c, sr_reduce_sum(sr_relu(sr_log_op(c.w)))));
    assert_message("the result of log at ");
    assert_message("test_debug_nan.c:");
    assert_message(
        " in layer (which reads layer.weight) is not finite: element 2 of [6] f32 is -infinity, "
        "and 2 of 6 are not finite");
    end(&c);
}

static void test_layer_before_is_named(void **state) {
    (void)state;
    checked c;
    begin(&c, (const float[COUNT]){1, 2, 3, 4, 5, 6});
    const sr_tensor less = sr_scale(sr_square(c.w), -1, 0);
    assert_status(SR_E_NON_FINITE, run(&c, sr_reduce_sum(sr_sqrt(sr_cast(less, SR_BF16)))));
    assert_message("the result of sqrt at ");
    assert_message("(after layer.weight) is not finite: element 0 of [6] bf16 is NaN");
    end(&c);
}

static void test_variable_is_named(void **state) {
    (void)state;
    checked c;
    begin(&c, (const float[COUNT]){1, 2, 3, NAN, 5, 6});
    assert_status(SR_E_NON_FINITE, run(&c, sr_reduce_sum(c.w)));
    assert_message("layer.weight, before the first operator, is not finite: element 3 of [6] f32");
    end(&c);
}

static void test_switched_off(void **state) {
    (void)state;
    checked c;
    begin(&c, (const float[COUNT]){1, 2, 3, -4, 5, 6});
    assert_ok(sr_executor_set_checking(c.executor, NULL));
    assert_ok(run(&c, sr_reduce_sum(sr_log_op(c.w))));
    end(&c);
}

static void test_same_bits(void **state) {
    (void)state;
    char digest[2][SR_SHA256_HEX];
    double first, last;
    for (int i = 0; i < 2; i++)
        engine_run("tests/recipes/tiny.yaml", 2, i ? "debug.nan=true" : NULL, 2, &first, &last,
                   digest[i]);
    assert_string_equal(digest[0], digest[1]);
}

typedef struct lanes {
    uint8_t pixels[ENGINE_BATCH * ENGINE_SIDE * ENGINE_SIDE * 3];
    int32_t labels[ENGINE_BATCH];
} lanes;

static sr_status get(void *user, int lane, sr_slot *out) {
    lanes *l = user;
    (void)lane;
    *out = picture_slot(ENGINE_BATCH / ENGINE_LANES, ENGINE_SIDE, l->pixels, l->labels);
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

// A learning rate that no network survives: the step after the first update names the layer.
static void test_training(void **state) {
    (void)state;
    lanes *l = test_calloc(1, sizeof *l);
    for (size_t i = 0; i < sizeof l->pixels; i++)
        l->pixels[i] = (uint8_t)(i * 37 % 251);
    engine_fixture f = {0};
    engine_begin(&f, "tests/recipes/tiny.yaml", 1, "debug.nan=true");
    const sr_lane_source source = {.get = get, .done = done, .user = l};
    sr_status status = SR_OK;
    int steps = 0;
    for (; steps < 4 && status == SR_OK; steps++) {
        sr_phase_set_step(sr_engine_get_phase(f.engine, 0), steps, steps * ENGINE_BATCH, 1e30,
                          1.0 / ENGINE_BATCH, (sr_ema_settings){0});
        status = sr_engine_step(f.engine, 0, steps, &source);
    }
    assert_status(SR_E_NON_FINITE, status);
    assert_int_equal(2, steps);
    assert_message("lane ");
    assert_message("the result of ");
    assert_message(".weight) is not finite");
    engine_end(&f);
    test_free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite),
        cmocka_unit_test(test_operator_is_named),
        cmocka_unit_test(test_layer_before_is_named),
        cmocka_unit_test(test_variable_is_named),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
