// SPDX-License-Identifier: Apache-2.0
// Only what is requested is compiled: operators that nobody reads and gradients that nobody
// requests are in no plan, and the requested ones keep their bits.
#include <string.h>

#include "autograd/gradients.h"
#include "graph/context.h"
#include "graph/plan_view.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

enum { FILTER = 4 * 4 * 3 * 3, IMAGE = 2 * 6 * 6 * 4 };

typedef struct prune_network {
    sr_context *context;
    sr_tensor x, w, h, loss;
} prune_network;

// Two convolutions with one filter; with 'dead', operators that nobody reads use each value.
static prune_network record(bool dead) {
    const sr_context_options options = {.threads = 1};
    const sr_info image = {.dtype = SR_F32, .rank = 4, .dim = {2, 6, 6, 4}};
    const sr_info filter = {.dtype = SR_F32, .rank = 4, .dim = {4, 4, 3, 3}};
    const sr_conv2d_opts same = {.pad = 1};
    float pixels[IMAGE], weights[FILTER];
    prune_network n = {0};
    for (int i = 0; i < IMAGE; i++)
        pixels[i] = (float)(i % 17 - 8) / 16;
    for (int i = 0; i < FILTER; i++)
        weights[i] = (float)(i % 11 - 5) / 32;
    assert_ok(sr_context_create(&options, &n.context));
    sr_context_begin_step(n.context);
    n.w = sr_variable(n.context, "w", &filter, weights);
    n.x = sr_variable(n.context, "x", &image, pixels);
    n.h = sr_relu(sr_conv2d(n.x, n.w, same));
    if (dead)
        (void)sr_tanh_op(sr_conv2d(n.h, n.w, same));
    n.loss = sr_reduce_sum(sr_conv2d(n.h, n.w, same));
    if (dead)
        (void)sr_mul(n.loss, sr_reduce_sum(sr_tanh_op(n.h)));
    return n;
}

static sr_plan *compile(const prune_network *n, sr_tensor wanted) {
    sr_plan *plan;
    const sr_target target = {.tensor = wanted};
    assert_ok(sr_compile(n->context, &target, 1, &plan));
    return plan;
}

static int count_launches(const sr_plan *plan, const char *op) {
    int count = 0;
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view launch;
        sr_plan_get_launch(plan, i, &launch);
        count += strcmp(launch.op, op) == 0;
    }
    return count;
}

static void test_dead_operators_are_not_compiled(void **state) {
    (void)state;
    const prune_network with = record(true), without = record(false);
    const sr_plan *first = compile(&with, with.loss), *second = compile(&without, without.loss);
    assert_int_equal(2, count_launches(first, "conv2d"));
    assert_int_equal(sr_plan_node_count(second), sr_plan_node_count(first));
    // What follows the requested value is dead too.
    assert_int_equal(1, count_launches(compile(&with, with.h), "conv2d"));
    sr_context_free(with.context);
    sr_context_free(without.context);
}

static void test_gradients_keep_their_bits(void **state) {
    (void)state;
    float dw[2][FILTER], dx[2][IMAGE];
    for (int dead = 0; dead < 2; dead++) {
        prune_network n = record(dead != 0);
        const sr_tensor both[2] = {n.w, n.x};
        sr_tensor grads[2];
        sr_gradients(n.loss, SR_NONE, both, 2, grads);
        sr_read_later(grads[0], dw[dead], sizeof dw[dead]);
        sr_read_later(grads[1], dx[dead], sizeof dx[dead]);
        assert_ok(sr_context_run(n.context));
        sr_context_free(n.context);
    }
    assert_true(dw[0][0] != 0 && dx[0][0] != 0);
    assert_memory_equal(dw[0], dw[1], sizeof dw[0]);
    assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
}

// Of a convolution's two gradients only the requested one runs, even if both are recorded.
static void test_unwanted_gradients_are_not_compiled(void **state) {
    (void)state;
    prune_network n = record(false);
    const sr_tensor both[2] = {n.w, n.x};
    sr_tensor grads[2];
    sr_gradients(n.loss, SR_NONE, both, 2, grads);
    const sr_plan *plan = compile(&n, grads[0]);
    assert_int_equal(2, count_launches(plan, "conv2d_dw"));
    assert_int_equal(1, count_launches(plan, "conv2d_dx")); // of the second convolution only
    plan = compile(&n, grads[1]);
    assert_int_equal(0, count_launches(plan, "conv2d_dw"));
    assert_int_equal(2, count_launches(plan, "conv2d_dx"));
    sr_context_free(n.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dead_operators_are_not_compiled),
        cmocka_unit_test(test_gradients_keep_their_bits),
        cmocka_unit_test(test_unwanted_gradients_are_not_compiled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
