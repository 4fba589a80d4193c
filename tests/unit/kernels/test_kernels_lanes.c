// SPDX-License-Identifier: Apache-2.0
// Lanes side by side: a kernel of class "reference" that computes several at once gives each the
// bits that it has alone, whichever of its inputs they share; which kernels can, and which requests
// are refused. The problems are those of kernel_cases.c, on the test's device.
#include "tests/unit/support/test_support.h"

#include "kernels/base/memory.h"
#include "kernels/kernel_lanes.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/kernel_problem.h"
#include "tests/unit/support/device_run.h"

enum { LANES = 3, MOST_ELEMENTS = 5000 }; // MOST_ELEMENTS: of a problem

static bool joined_kernels[SR_KERNEL_COUNT];
static int joined_problems;

static sr_device_kind kind_of_test(void) {
    return device_of_test() ? sr_device_get_properties(device_of_test())->kind : SR_DEVICE_CPU;
}

static void run(const sr_kernel_request *request, const arrays *a) {
    sr_prepared prepared = {0};
    assert_ok(sr_kernel_prepare(request, &prepared));
    if (device_of_test()) {
        device_run(device_of_test(), &prepared, request, a->p, 0xff);
    } else {
        void *workspace = sr_alloc(prepared.workspace + 1, "test workspace");
        void *scratch = sr_alloc(prepared.scratch + 1, "test scratch");
        assert_true(workspace && scratch);
        assert_ok(sr_prepared_run(&prepared, request, a->p, workspace, scratch));
        sr_free(workspace);
        sr_free(scratch);
    }
    sr_prepared_release(&prepared);
}

// Other numbers for each lane: elements move by as many places. Indices stay, as not every index is
// possible everywhere.
static void move_elements(const problem *c, int i, int places, char *data) {
    const size_t bytes = bytes_of(c, i), size = sr_dtype_size(c->request.dtype[i]);
    const size_t by = (size_t)places * size % bytes;
    if (!sr_dtype_is_float(c->request.dtype[i]) && c->arg[i].role != KEY)
        return;
    char *copy = sr_alloc(bytes, "test array");
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    memcpy(data, copy + by, bytes - by);
    memcpy(data + bytes - by, copy, by);
    sr_free(copy);
}

// The lanes one by one. Arguments whose bit is not set are those of lane 0.
static void run_alone(const problem *c, uint32_t varies, arrays lanes[LANES]) {
    arrays inputs = make_inputs(c);
    sr_kernel_request request = c->request;
    request.device = kind_of_test();
    for (int lane = 0; lane < LANES; lane++) {
        lanes[lane] = copy_arrays(c, &inputs);
        for (int i = 0; i < c->request.args; i++)
            if (inputs.p[i] && varies >> i & 1)
                move_elements(c, i, lane, lanes[lane].p[i]);
    }
    for (int lane = 0; lane < LANES; lane++) {
        arrays own = copy_arrays(c, &lanes[lane]);
        run(&request, &own);
        for (int i = 0; i < c->request.args; i++) // inputs are needed again
            if (is_result(&c->arg[i]))
                memcpy(lanes[lane].p[i], own.p[i], bytes_of(c, i));
        free_arrays(&own);
    }
    free_arrays(&inputs);
}

static void assert_lanes(const problem *c, const problem *all, const arrays *got,
                         const arrays lanes[LANES]) {
    char name[128];
    for (int lane = 0; lane < LANES; lane++) {
        arrays part = {0};
        for (int i = 0; i < c->request.args; i++)
            if (is_result(&c->arg[i]))
                part.p[i] = (char *)got->p[i] + (size_t)lane * bytes_of(c, i);
        (void)snprintf(name, sizeof name, "lane %d of %s", lane, sr_kernel_name(c->request.kernel));
        assert_same_bits(c, &part, &lanes[lane], name, "the lane alone");
    }
    check_guards(all, got, sr_kernel_name(c->request.kernel));
}

static void check_joined(const problem *c, uint32_t varies, const sr_kernel_request *joined) {
    problem all = *c;
    arrays lanes[LANES], got = {0}, none = {0};
    all.request = *joined;
    for (int i = 0; i < c->request.args; i++) {
        all.arg[i].count = sr_kernel_argument_count(joined, i);
        assert_true(c->arg[i].role == NONE ||
                    all.arg[i].count == c->arg[i].count * (varies >> i & 1 ? LANES : 1));
    }
    run_alone(c, varies, lanes);
    got = copy_arrays(&all, &none);
    for (int i = 0; i < c->request.args; i++)
        for (int lane = 0; lane < LANES && c->arg[i].role != NONE && !c->arg[i].output; lane++)
            if (lane == 0 || varies >> i & 1)
                memcpy((char *)got.p[i] + (size_t)lane * bytes_of(c, i), lanes[lane].p[i],
                       bytes_of(c, i));
    run(joined, &got);
    assert_lanes(c, &all, &got, lanes);
    for (int lane = 0; lane < LANES; lane++)
        free_arrays(&lanes[lane]);
    free_arrays(&got);
    joined_kernels[c->request.kernel] = true;
    joined_problems++;
}

static int64_t elements_of(const problem *c) {
    int64_t count = 0;
    for (int i = 0; i < c->request.args; i++)
        count += c->arg[i].count;
    return count;
}

// Called by the cases of kernel_cases.c: tries all ways to share inputs.
void check_problem(const problem *c) {
    sr_kernel_request request = c->request, joined;
    uint32_t inputs = 0, results = 0;
    request.device = kind_of_test();
    for (int i = 0; i < c->request.args; i++) {
        inputs |= c->arg[i].role != NONE && !c->arg[i].output ? 1U << i : 0;
        results |= is_result(&c->arg[i]) ? 1U << i : 0;
    }
    if (elements_of(c) > MOST_ELEMENTS ||
        (request.device != SR_DEVICE_CPU && sr_kernel_activation(&request) == SR_F64))
        return;
    for (uint32_t shared = inputs;; shared = (shared - 1) & inputs) {
        const uint32_t varies = results | (inputs & ~shared);
        if (sr_kernel_join_lanes(&request, LANES, varies, &joined))
            check_joined(c, varies, &joined);
        if (shared == 0)
            break;
    }
}

// Whose results have no samples: the reference computes one lane.
static bool is_per_lane(sr_kernel_id kernel) {
    static const sr_kernel_id list[] = {
        SR_KERNEL_conv2d_dw,
        SR_KERNEL_linear_dw,
        SR_KERNEL_channel_sum,
        SR_KERNEL_channel_dot,
        SR_KERNEL_batchnorm_train,
        SR_KERNEL_batchnorm_grad,
        SR_KERNEL_batchnorm_moments,
        SR_KERNEL_batchnorm_sums,
        SR_KERNEL_groupnorm_grad,
        SR_KERNEL_reduce_sum,
        SR_KERNEL_topk_hits,
        SR_KERNEL_attention_bias_grad,
        SR_KERNEL_batchnorm_train_relu,
        SR_KERNEL_batchnorm_train_pair_relu,
        SR_KERNEL_batchnorm_relu_grad,
        SR_KERNEL_batchnorm_add_relu_grad,
        SR_KERNEL_batchnorm_relu_linear_dw,
        SR_KERNEL_batchnorm_train_relu_maxpool,
        SR_KERNEL_batchnorm_relu_maxpool_grad,
        SR_KERNEL_groupnorm_add_grad,
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == kernel)
            return true;
    return false;
}

// Lanes have keys of their own, which the entries for CPUs cannot take.
static bool is_drawn(sr_kernel_id kernel) {
    return kernel == SR_KERNEL_drop_path;
}

static void test_lanes_have_their_own_bits(void **state) {
    (void)state;
    for (int kernel = 0; kernel < SR_KERNEL_COUNT; kernel++) {
        const sr_kernel_id id = (sr_kernel_id)kernel;
        if (kernel_cases[kernel])
            kernel_cases[kernel](id);
        if (joined_kernels[kernel] != (sr_kernel_has_lanes(id) && !is_per_lane(id) &&
                                       !(is_drawn(id) && kind_of_test() == SR_DEVICE_CPU)))
            fail_msg("%s: %s", sr_kernel_name(id),
                     joined_kernels[kernel] ? "is in the list of kernels that compute one lane"
                                            : "no problem was joined");
    }
    print_message("%d problems\n", joined_problems);
}

static sr_kernel_request request_of(sr_kernel_id kernel, const void *params, size_t bytes) {
    sr_kernel_request request;
    sr_kernel_request_init(&request, kind_of_test(), kernel, SR_F32, params, bytes);
    return request;
}

static void test_what_is_refused(void **state) {
    (void)state;
    const sr_rows_params rows = {.rows = 6, .channels = 5};
    const sr_count_params count = {.count = 64};
    const sr_linear_params linear = {.n = 4, .c = 8, .k = 16};
    const sr_kernel_request bias = request_of(SR_KERNEL_bias_add, &rows, sizeof rows);
    const sr_kernel_request sgd = request_of(SR_KERNEL_sgd, &count, sizeof count);
    const sr_kernel_request dw = request_of(SR_KERNEL_linear_dw, &linear, sizeof linear);
    sr_kernel_request own = bias, joined;
    own.kernel = SR_KERNEL_OWN;
    assert_true(sr_kernel_join_lanes(&bias, 2, 5, &joined));
    assert_int_equal(joined.lanes, 2);
    assert_int_equal(joined.per_lane, 0);
    assert_false(sr_kernel_join_lanes(&bias, 2, 4, &joined)); // x has samples, but is shared
    assert_false(sr_kernel_join_lanes(&bias, 2, 7, &joined)); // each lane has its bias
    assert_int_equal(joined.per_lane, 2);
    assert_int_equal(sr_kernel_argument_count(&joined, 1), 10);
    assert_false(sr_kernel_join_lanes(&bias, SR_KERNEL_MAX_LANES + 1, 5, &joined));
    assert_false(sr_kernel_join_lanes(&sgd, 2, 15, &joined));
    assert_false(sr_kernel_join_lanes(&own, 2, 5, &joined));
    assert_false(sr_kernel_join_lanes(&dw, 2, 7, &joined)); // a sum over samples
    assert_false(sr_kernel_has_lanes(SR_KERNEL_sgd));
    assert_false(sr_kernel_has_lanes(SR_KERNEL_OWN));
}

// Samples that lanes repeat in other ways than one behind the other.
static void test_orders_of_samples(void **state) {
    (void)state;
    // y[j,i] = x[i,j]: the lanes are one more dimension, as long as there may be one.
    sr_rearrange_params transposed = {.count = 12,
                                      .elements = 12,
                                      .dim = {4, 3, 1, 1, 1},
                                      .step = {1, 4, 1, 1, 1},
                                      .end = {4, 3, 1, 1, 1},
                                      .every = {1, 1, 1, 1, 1},
                                      .dims = 4};
    // y has a part of the first dimension, so lanes would need one more, and all are in use.
    const sr_rearrange_params part = {.count = 12,
                                      .elements = 24,
                                      .dim = {2, 1, 1, 2, 3},
                                      .step = {6, 6, 6, 3, 1},
                                      .end = {2, 1, 1, 2, 3},
                                      .every = {1, 1, 1, 1, 1},
                                      .dims = 5};
    const sr_matmul_params full = {
        .rows = 2, .terms = 2, .columns = 2, .a_count = 8, .b_count = 8, .dim = {2, 2, 2}};
    const sr_attention_params biased = {
        .batches = 3, .queries = 2, .keys = 2, .heads = 1, .depth = 4, .biases = 2, .scale = 1};
    sr_kernel_request joined, request;
    request = request_of(SR_KERNEL_rearrange, &transposed, sizeof transposed);
    assert_true(sr_kernel_join_lanes(&request, 2, 3, &joined));
    transposed.dims = 5;
    request = request_of(SR_KERNEL_rearrange, &transposed, sizeof transposed);
    assert_false(sr_kernel_join_lanes(&request, 2, 3, &joined));
    request = request_of(SR_KERNEL_rearrange, &part, sizeof part);
    assert_false(sr_kernel_join_lanes(&request, 2, 3, &joined));
    request = request_of(SR_KERNEL_matmul, &full, sizeof full);
    assert_false(sr_kernel_join_lanes(&request, 2, 7, &joined));
    request = request_of(SR_KERNEL_attention, &biased, sizeof biased);
    assert_false(sr_kernel_join_lanes(&request, 2, 0x37, &joined));
}

static int use_portable(void **state) {
    (void)state;
    sr_kernels_use_portable(true);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_lanes_have_their_own_bits, arrays_free),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_orders_of_samples),
    };
    return cmocka_run_group_tests(tests, use_portable, NULL);
}
