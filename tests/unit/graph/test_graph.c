// SPDX-License-Identifier: Apache-2.0
// The graph's single path: recording, cuts, updates, plans, replay.
#include <stdio.h>
#include <string.h>

#include "autograd/gradients.h"
#include "graph/context.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "tests/unit/support/device_support.h"

static const sr_info vec4 = {.dtype = SR_F32, .rank = 1, .dim = {4}};

static sr_context *new_context(int optimize) {
    sr_context *c;
    sr_context_options o = {.threads = 2, .optimize = optimize};
    assert_int_equal(sr_context_create(&o, &c), SR_OK);
    sr_context_begin_step(c);
    return c;
}

static void expect_values(sr_tensor t, const float *want) {
    float got[4];
    assert_int_equal(sr_read(t, got, sizeof got), SR_OK);
    assert_memory_equal(got, want, sizeof got);
}

static void test_reads_what_it_records(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    const float a[4] = {1, -2, 3, -4};
    sr_tensor x = sr_constant(c, &vec4, a);
    expect_values(sr_relu(sr_add(x, x)), (const float[]){2, 0, 6, 0});
    sr_context_free(c);
}

static void test_first_error_persists_with_its_line(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    const sr_info vec3 = {.dtype = SR_F32, .rank = 1, .dim = {3}};
    const float a[4] = {0};
    sr_tensor x = sr_constant(c, &vec4, a), y = sr_constant(c, &vec3, a);
    sr_tensor bad = sr_add(x, y);
    sr_tensor later = sr_relu(bad);
    assert_true(sr_is_none(later));
    assert_int_equal(sr_context_status(c), SR_E_SHAPE);
    assert_non_null(strstr(sr_error_message(), "test_graph.c:"));
    assert_non_null(strstr(sr_error_message(), "add"));
    sr_context_begin_step(c);
    assert_int_equal(sr_context_status(c), SR_OK);
    sr_context_free(c);
}

static void test_stale_tensor_is_an_error(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    const float a[4] = {0};
    sr_tensor x = sr_constant(c, &vec4, a);
    sr_context_begin_step(c);
    assert_true(sr_is_none(sr_relu(x)));
    assert_int_equal(sr_context_status(c), SR_E_ARGUMENT);
    assert_non_null(strstr(sr_error_message(), "earlier step"));
    sr_context_free(c);
}

static void test_cut_recomputes_what_was_not_kept(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    const float a[4] = {1, 2, 3, 4};
    sr_tensor x = sr_constant(c, &vec4, a);
    sr_tensor lost = sr_scale(x, 2, 0); // no derivative rule reads its output
    sr_tensor seen = sr_scale(lost, 3, 0);
    expect_values(seen, (const float[]){6, 12, 18, 24});
    assert_int_equal(sr_context_get_stats(c).nodes_recomputed, 0);
    expect_values(sr_add(lost, seen), (const float[]){8, 16, 24, 32});
    assert_int_equal(sr_context_get_stats(c).nodes_recomputed, 1);
    sr_context_begin_step(c);
    x = sr_constant(c, &vec4, a);
    sr_tensor kept = sr_scale(x, 2, 0);
    sr_keep(kept);
    seen = sr_scale(kept, 3, 0);
    expect_values(seen, (const float[]){6, 12, 18, 24});
    expect_values(sr_add(kept, seen), (const float[]){8, 16, 24, 32});
    assert_int_equal(sr_context_get_stats(c).nodes_recomputed, 1);
    sr_context_free(c);
}

// Gradients after a cut use the values that the derivative rules kept: nothing is recomputed.
static void test_gradients_go_through_a_cut(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    const float a[4] = {1, -2, 3, -4};
    sr_tensor x = sr_constant(c, &vec4, a), grad;
    sr_tensor y = sr_relu(x), z = sr_mul(y, y);
    expect_values(z, (const float[]){1, 0, 9, 0});
    sr_gradients(z, SR_NONE, &x, 1, &grad);
    expect_values(grad, (const float[]){2, 0, 6, 0});
    assert_int_equal(sr_context_get_stats(c).nodes_recomputed, 0);
    sr_context_free(c);
}

static sr_tensor descend(sr_context *c, sr_tensor p, sr_tensor m) {
    const float hyper[8] = {0.125f, 0.5f, 0, 0, 1, 0, 0, 0}, target[4] = {1, 2, 3, 4};
    const sr_info eight = {.dtype = SR_F32, .rank = 1, .dim = {8}};
    sr_tensor h = sr_constant(c, &eight, hyper), t = sr_constant(c, &vec4, target), grad;
    sr_tensor d = sr_sub(p, t), loss = sr_reduce_sum(sr_mul(d, d));
    sr_gradients(loss, SR_NONE, &p, 1, &grad);
    sr_sgd_update(p, m, grad, h);
    return loss;
}

static void test_updates_converge_and_replay_without_allocation(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    sr_tensor p = sr_variable(c, "p", &vec4, NULL), m = sr_variable(c, "m", &vec4, NULL);
    float loss = 0;
    uint64_t allocations = 0;
    for (int step = 0; step < 60; step++) {
        sr_context_begin_step(c);
        sr_read_later(descend(c, p, m), &loss, sizeof loss);
        assert_int_equal(sr_context_run(c), SR_OK);
        if (step == 0)
            allocations = sr_memory_get_stats().allocations;
    }
    assert_int_equal(sr_memory_get_stats().allocations, allocations);
    assert_int_equal(sr_context_get_stats(c).plans_compiled, 1);
    assert_true(loss < 1e-6f);
    float got[4];
    assert_int_equal(sr_read(p, got, sizeof got), SR_OK);
    for (int i = 0; i < 4; i++)
        assert_true(got[i] > (float)i + 0.99f && got[i] < (float)i + 1.01f);
    sr_context_free(c);
}

static void test_values_before_an_update_are_lost(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    const float one[4] = {1, 1, 1, 1};
    sr_tensor p = sr_variable(c, "p", &vec4, one);
    sr_tensor before = sr_scale(p, 10, 0);
    sr_variable_assign(p, sr_scale(p, 2, 0));
    assert_int_equal(sr_context_run(c), SR_OK);
    expect_values(p, (const float[]){2, 2, 2, 2});
    float got[4];
    assert_int_equal(sr_read(before, got, sizeof got), SR_E_ARGUMENT);
    assert_non_null(strstr(sr_error_message(), "before an update"));
    sr_context_free(c);
}

static void test_assignments_swap(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    const float one[4] = {1, 1, 1, 1}, two[4] = {2, 2, 2, 2};
    sr_tensor a = sr_variable(c, "a", &vec4, one), b = sr_variable(c, "b", &vec4, two);
    sr_variable_assign(a, b);
    sr_variable_assign(b, a);
    assert_int_equal(sr_context_run(c), SR_OK);
    expect_values(a, two);
    expect_values(b, one);
    sr_context_free(c);
}

// ---- Compiled plans ----

typedef struct deliveries {
    int order[8], count;
    float value[8];
} deliveries;

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    deliveries *d = user;
    assert_int_equal(bytes, 16);
    d->order[d->count] = index;
    return sr_stream_download(stream, &d->value[d->count++], data, sizeof(float));
}

static void run_compiled(sr_context *c, sr_tensor w, sr_executor *e, float input, deliveries *d) {
    const float values[4] = {input, input, input, input};
    sr_plan *plan;
    sr_context_begin_step(c);
    sr_tensor x = sr_input(c, 3, &vec4);
    sr_tensor y = sr_scale(x, 2, 0); // ready before the last read of w
    sr_tensor z = sr_mul(sr_add(y, w), w);
    const sr_target targets[2] = {{.tensor = y, .after = w}, {.tensor = z}};
    assert_int_equal(sr_compile(c, targets, 2, &plan), SR_OK);
    const sr_address inputs[64] = {[3] = device_copy(sr_context_device(c), values, sizeof values)};
    const sr_run run = {.inputs = inputs, .sink = sink, .user = d};
    assert_int_equal(sr_executor_begin(e, plan, &run), SR_OK);
    assert_int_equal(sr_executor_wait(e), SR_OK);
}

static void test_targets_wait_for_readers_of_a_variable(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    sr_executor *e;
    const float two[4] = {2, 2, 2, 2};
    sr_tensor w = sr_variable(c, "w", &vec4, two);
    assert_int_equal(sr_executor_create(sr_context_device(c), 1, &e), SR_OK);
    for (int step = 0; step < 3; step++) {
        deliveries d = {.count = 0};
        run_compiled(c, w, e, (float)(step + 1), &d);
        assert_int_equal(d.count, 2);
        assert_true(d.value[0] ==
                    2.0f * (float)(step + 1)); // y is ready, but only after z has been launched
        assert_true(d.value[1] == (2.0f * (float)(step + 1) + 2) * 2);
    }
    assert_int_equal(sr_context_get_stats(c).plans_compiled, 1);
    assert_int_equal(sr_context_get_stats(c).plans_replayed, 2);
    sr_executor_free(e);
    sr_context_free(c);
}

static void test_unbound_input_is_an_error(void **state) {
    (void)state;
    sr_context *c = new_context(0);
    float got[4];
    assert_int_equal(sr_read(sr_relu(sr_input(c, 5, &vec4)), got, sizeof got), SR_E_ARGUMENT);
    assert_non_null(strstr(sr_error_message(), "input slot 5"));
    sr_context_free(c);
}

// ---- Passes change no bit ----

static float network(int optimize, size_t *peak, size_t *bound) {
    sr_context *c = new_context(optimize);
    const sr_info image = {.dtype = SR_F32, .rank = 4, .dim = {2, 8, 8, 4}};
    const sr_info filter = {.dtype = SR_F32, .rank = 4, .dim = {4, 4, 3, 3}};
    float x[512], w[144], loss;
    for (int i = 0; i < 512; i++)
        x[i] = (float)(i * 37 % 101) * 0.01f - 0.5f;
    for (int i = 0; i < 144; i++)
        w[i] = (float)(i * 53 % 97) * 0.01f - 0.5f;
    sr_tensor v = sr_variable(c, "w", &filter, w), grad;
    sr_tensor h = sr_constant(c, &image, x);
    for (int layer = 0; layer < 4; layer++) {
        sr_tensor y = sr_conv2d(h, v, (sr_conv2d_opts){.pad = 1});
        h = sr_relu(sr_add(sr_batchnorm_train(y, SR_NONE, SR_NONE, 1e-5).y, h));
    }
    sr_tensor sum = sr_reduce_sum(h);
    sr_gradients(sum, SR_NONE, &v, 1, &grad);
    sr_tensor norm = sr_reduce_sum(sr_mul(grad, grad));
    assert_int_equal(sr_read(norm, &loss, sizeof loss), SR_OK);
    *peak = sr_context_get_stats(c).planned_peak_bytes;
    *bound = sr_context_get_stats(c).live_bound_bytes;
    sr_context_free(c);
    return loss;
}

static void test_memory_passes_are_bit_neutral(void **state) {
    (void)state;
    size_t peak, bound, plain_peak, plain_bound;
    float with = network(0, &peak, &bound), without = network(-1, &plain_peak, &plain_bound);
    assert_memory_equal(&with, &without, sizeof with);
    assert_true(peak < plain_peak);
    assert_true(peak >= bound && (double)peak <= 1.05 * (double)bound);
}

// ---- A steady step ----

// A miniature training step: recorded, found in the cache, replayed.
static void take_step(sr_context *c, sr_executor *e, sr_address pictures, sr_tensor w,
                      sr_tensor bias) {
    const sr_info image = {.dtype = SR_F32, .rank = 4, .dim = {4, 8, 8, 8}};
    const sr_address inputs[64] = {pictures};
    sr_tensor xs[2] = {w, bias}, grads[2];
    sr_plan *plan;
    sr_context_begin_step(c);
    sr_tensor h = sr_input(c, 0, &image);
    for (int layer = 0; layer < 3; layer++) {
        sr_tensor y = sr_conv2d_bias(h, w, bias, (sr_conv2d_opts){.pad = 1});
        h = sr_relu(sr_batchnorm_train(y, SR_NONE, SR_NONE, 1e-5).y);
    }
    sr_gradients(sr_reduce_sum(h), SR_NONE, xs, 2, grads);
    const sr_target targets[2] = {{.tensor = grads[0], .after = w},
                                  {.tensor = grads[1], .after = bias}};
    assert_int_equal(sr_compile(c, targets, 2, &plan), SR_OK);
    const sr_run run = {.inputs = inputs};
    assert_int_equal(sr_executor_begin(e, plan, &run), SR_OK);
    assert_int_equal(sr_executor_wait(e), SR_OK);
}

static void test_a_thousand_steps_allocate_nothing(void **state) {
    (void)state;
    enum { STEPS = 1000 };
    const sr_info filter = {.dtype = SR_F32, .rank = 4, .dim = {8, 8, 3, 3}};
    const sr_info channels = {.dtype = SR_F32, .rank = 1, .dim = {8}};
    sr_context *c = new_context(0);
    sr_executor *e;
    const int threads = sr_cpu_count() > 1 ? 2 : 1;
    assert_int_equal(sr_executor_create(sr_context_device(c), threads, &e), SR_OK);
    sr_tensor w = sr_variable(c, "w", &filter, NULL), b = sr_variable(c, "b", &channels, NULL);
    static const float zeros[2048];
    const sr_address pictures = device_copy(sr_context_device(c), zeros, sizeof zeros);
    uint64_t allocations = 0;
    for (int step = 0; step < STEPS; step++) {
        take_step(c, e, pictures, w, b);
        if (step == 0)
            allocations = sr_memory_get_stats().allocations;
    }
    assert_int_equal(allocations, sr_memory_get_stats().allocations);
    assert_int_equal(1, sr_context_get_stats(c).plans_compiled);
    sr_executor_free(e);
    sr_context_free(c);
}

static void test_failed_allocations_are_errors(void **state) {
    (void)state;
    for (uint64_t n = 1; n < 60; n++) {
        sr_context *c = NULL;
        sr_memory_fail_nth(n);
        const sr_context_options o = {.threads = 1};
        sr_status status = sr_context_create(&o, &c);
        if (status == SR_OK) {
            const float a[4] = {1, 2, 3, 4};
            float got[4];
            sr_context_begin_step(c);
            status = sr_read(sr_relu(sr_constant(c, &vec4, a)), got, sizeof got);
        }
        sr_memory_fail_nth(0);
        assert_true(status == SR_OK || status == SR_E_MEMORY || status == SR_E_ARGUMENT);
        sr_context_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_it_records),
        cmocka_unit_test(test_first_error_persists_with_its_line),
        cmocka_unit_test(test_stale_tensor_is_an_error),
        cmocka_unit_test(test_cut_recomputes_what_was_not_kept),
        cmocka_unit_test(test_gradients_go_through_a_cut),
        cmocka_unit_test(test_updates_converge_and_replay_without_allocation),
        cmocka_unit_test(test_values_before_an_update_are_lost),
        cmocka_unit_test(test_assignments_swap),
        cmocka_unit_test(test_targets_wait_for_readers_of_a_variable),
        cmocka_unit_test(test_unbound_input_is_an_error),
        cmocka_unit_test(test_memory_passes_are_bit_neutral),
        cmocka_unit_test(test_a_thousand_steps_allocate_nothing),
        cmocka_unit_test(test_failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
