// SPDX-License-Identifier: Apache-2.0
// Every kernel of the test's device (SERRIED_TEST_DEVICE), where that has kernels of its own: it
// exists in f32, bf16 and f16, and those of class "reference" have the bits of the CPU's reference,
// in place, too, where operators use them so. The problems are those of kernel_cases.c; kernels
// that only the reference implements have none there, but golden digests, whose tests run on the
// device, too.
//
//     test_kernels_device [ELEMENTS]    only problems whose arrays have so many elements at most
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "graph/op.h"
#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/kernel_problem.h"
#include "tests/unit/support/device_run.h"

static int checked; // problems
static int64_t most_elements = INT64_MAX;

static int64_t elements_of(const problem *c) {
    int64_t count = 0;
    for (int i = 0; i < c->request.args; i++)
        count += c->arg[i].count;
    return count;
}

static sr_prepared prepare(const sr_kernel_request *request) {
    sr_prepared prepared = {0};
    const sr_kernel_entry *entry = sr_kernel_find_in(request, SR_KERNEL_REFERENCE);
    if (!entry)
        fail_msg("%s has no kernel %s in %s", sr_device_kind_name(request->device),
                 sr_kernel_name(request->kernel), sr_dtype_name(sr_kernel_activation(request)));
    assert_ok(sr_kernel_prepare_as(request, entry, 0, &prepared));
    return prepared;
}

static bool is_nan(sr_dtype dtype, const void *value) {
    double number = 0;
    if (dtype == SR_F32) {
        float f;
        memcpy(&f, value, sizeof f);
        number = (double)f;
    } else if (dtype == SR_BF16 || dtype == SR_F16) {
        uint16_t h;
        memcpy(&h, value, sizeof h);
        number = (double)(dtype == SR_BF16 ? sr_bf16_to_f32(h) : sr_f16_to_f32(h));
    } else if (dtype == SR_F64) {
        memcpy(&number, value, sizeof number);
    }
    return isnan(number);
}

// Equal bits; which NaN it is does not matter.
static void assert_same(const problem *c, int i, const char *got, const char *want,
                        const char *how) {
    const sr_dtype dtype = c->request.dtype[i];
    const size_t size = sr_dtype_size(dtype);
    for (size_t k = 0; k < bytes_of(c, i); k += size) {
        if (memcmp(got + k, want + k, size) != 0 &&
            !(is_nan(dtype, got + k) && is_nan(dtype, want + k)))
            fail_msg("%s %s%s: element %zu of argument %d differs from the reference",
                     sr_kernel_name(c->request.kernel),
                     sr_dtype_name(sr_kernel_activation(&c->request)), how, k / size, i);
    }
}

static arrays run_reference(const problem *c, const arrays *inputs) {
    arrays a = copy_arrays(c, inputs);
    sr_prepared prepared = prepare(&c->request);
    void *workspace = sr_alloc(prepared.workspace + 1, "test workspace");
    void *scratch = sr_alloc(prepared.scratch + 1, "test scratch");
    assert_true(workspace && scratch);
    assert_ok(sr_prepared_run(&prepared, &c->request, a.p, workspace, scratch));
    sr_free(workspace);
    sr_free(scratch);
    sr_prepared_release(&prepared);
    return a;
}

static void run_on_device(const problem *c, const sr_prepared *prepared,
                          const sr_kernel_request *request, const arrays *inputs,
                          const arrays *want) {
    arrays a = copy_arrays(c, inputs);
    device_run(device_of_test(), prepared, request, a.p, 0xff);
    for (int i = 0; i < request->args; i++)
        if (is_result(&c->arg[i]))
            assert_same(c, i, a.p[i], want->p[i], "");
    free_arrays(&a);
}

// Output 'out' is written over input 'in'.
static void run_in_place(const problem *c, const sr_prepared *prepared,
                         const sr_kernel_request *request, const arrays *inputs, const arrays *want,
                         int in, int out) {
    arrays a = copy_arrays(c, inputs);
    void *const own = a.p[out];
    a.p[out] = a.p[in];
    device_run(device_of_test(), prepared, request, a.p, 0xff);
    assert_same(c, out, a.p[out], want->p[out], " in place");
    a.p[out] = own;
    free_arrays(&a);
}

static void check_in_place(const problem *c, const sr_prepared *prepared,
                           const sr_kernel_request *request, const arrays *inputs,
                           const arrays *want) {
    const sr_op *op = sr_op_find(sr_kernel_name(c->request.kernel));
    for (int bit = 0; op && bit < 32; bit++) {
        const int in = bit % 8, out = op->inputs + bit / 8;
        if (op->in_place >> bit & 1 && bytes_of(c, in) == bytes_of(c, out))
            run_in_place(c, prepared, request, inputs, want, in, out);
    }
}

// Called by the cases of kernel_cases.c.
void check_problem(const problem *c) {
    if (sr_kernel_activation(&c->request) == SR_F64 || elements_of(c) > most_elements)
        return;
    sr_kernel_request request = c->request;
    request.device = sr_device_get_properties(device_of_test())->kind;
    arrays inputs = make_inputs(c), want = run_reference(c, &inputs);
    sr_prepared prepared = prepare(&request);
    run_on_device(c, &prepared, &request, &inputs, &want);
    check_in_place(c, &prepared, &request, &inputs, &want);
    sr_prepared_release(&prepared);
    free_arrays(&inputs);
    free_arrays(&want);
    checked++;
}

// Whose digests are in test_kernels_reference.c, test_kernels_windows.c and test_mix.c.
static bool has_golden_digest(sr_kernel_id kernel) {
    static const sr_kernel_id list[] = {SR_KERNEL_random_normal, SR_KERNEL_mix_batch,
                                        SR_KERNEL_topk_hits};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == kernel)
            return true;
    return false;
}

static void test_the_references_bits(void **state) {
    (void)state;
    if (!device_of_test()) {
        test_skip("this device runs the CPU's kernels");
        return;
    }
    for (int kernel = 0; kernel < SR_KERNEL_COUNT; kernel++) {
        assert_true(!kernel_cases[kernel] == has_golden_digest((sr_kernel_id)kernel));
        if (kernel_cases[kernel])
            kernel_cases[kernel]((sr_kernel_id)kernel);
    }
    assert_true(checked > (most_elements == INT64_MAX ? SR_KERNEL_COUNT : 0));
    print_message("%d problems\n", checked);
}

// A problem with the arguments that kernel_list.def says.
static problem problem_of(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes) {
    static const arg_role roles[] = {
        [SR_ARG_T] = ACTIVATION, [SR_ARG_P] = PARAMETER, [SR_ARG_I32] = KEY};
    problem c = {.terms = 1};
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    sr_kernel_request_init(&c.request, SR_DEVICE_CPU, kernel, t, params, bytes);
    for (int i = 0; i < count; i++)
        c.arg[i] = (argument){.role = roles[arguments[i].type],
                              .output = sr_argument_is_result(arguments[i].role),
                              .count = sr_kernel_argument_count(&c.request, i)};
    return c;
}

static void check(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes) {
    const problem c = problem_of(kernel, t, params, bytes);
    check_problem(&c);
}

// Where a tap is outside of the picture, or past the last row or term, an infinite weight, gradient
// or element of the second matrix does not count.
static void check_infinite(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes) {
    const problem c = problem_of(kernel, t, params, bytes);
    const sr_dtype dtype = c.request.dtype[1];
    const uint32_t wide = 0x7f800000;
    const uint16_t narrow = dtype == SR_BF16 ? 0x7f80 : 0x7c00;
    sr_kernel_request request = c.request;
    request.device = sr_device_get_properties(device_of_test())->kind;
    arrays inputs = make_inputs(&c);
    if (dtype == SR_F32)
        memcpy(inputs.p[1], &wide, sizeof wide);
    else
        memcpy(inputs.p[1], &narrow, sizeof narrow);
    arrays want = run_reference(&c, &inputs);
    sr_prepared prepared = prepare(&request);
    run_on_device(&c, &prepared, &request, &inputs, &want);
    sr_prepared_release(&prepared);
    free_arrays(&inputs);
    free_arrays(&want);
}

static void test_infinite_weights(void **state) {
    (void)state;
    if (!device_of_test()) {
        test_skip("this device runs the CPU's kernels");
        return;
    }
    for (int stride = 1; stride <= 2; stride++) {
        sr_conv_params p = {.n = 2, .h = 7, .w = 5, .c = 40, .k = 24, .r = 3, .s = 3, .groups = 1};
        p.stride_h = p.stride_w = stride;
        p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 1;
        p.dilation_h = p.dilation_w = 1;
        p.p = (p.h - 1) / stride + 1;
        p.q = (p.w - 1) / stride + 1;
        for (sr_dtype t = SR_F32; t <= SR_F16; t++) {
            check_infinite(SR_KERNEL_conv2d, t, &p, sizeof p);
            check_infinite(SR_KERNEL_conv2d_dx, t, &p, sizeof p);
            check_infinite(SR_KERNEL_conv2d_dw, t, &p, sizeof p);
        }
    }
}

static void test_infinite_factors(void **state) {
    (void)state;
    if (!device_of_test()) {
        test_skip("this device runs the CPU's kernels");
        return;
    }
    for (int transposed = 0; transposed < 4; transposed++) {
        const sr_matmul_params p = {.rows = 37,
                                    .terms = 45,
                                    .columns = 70,
                                    .a_count = 2,
                                    .b_count = 1,
                                    .dim = {1, 1, 2},
                                    .a_step = {0, 0, 1},
                                    .alpha = 1,
                                    .transpose_a = transposed % 2,
                                    .transpose_b = transposed / 2};
        for (sr_dtype t = SR_F32; t <= SR_F16; t++)
            check_infinite(SR_KERNEL_matmul, t, &p, sizeof p);
    }
}

// Kernels with golden digests alone: pictures that are whole vectors of 16 bytes, and others.
static void test_whole_vectors(void **state) {
    (void)state;
    if (!device_of_test()) {
        test_skip("this device runs the CPU's kernels");
        return;
    }
    for (sr_dtype t = SR_F32; t <= SR_F16; t++) {
        for (int64_t c = 15; c <= 16; c++) {
            const sr_pool_params up = {2, 3, 4, c, 6, 12, 2, 3, 2, 3, 0, 0, 0, 0, 0, 0};
            check(SR_KERNEL_upsample2d, t, &up, sizeof up);
            check(SR_KERNEL_upsample2d_grad, t, &up, sizeof up);
        }
        for (uint32_t scope = 0; scope < 12; scope++) {
            const sr_mix_params mix = {.n = 6,
                                       .h = 5,
                                       .w = scope % 3 == 0 ? 7 : 8,
                                       .c = 3,
                                       .mixup = scope % 4 == 0 ? 0.4 : 0,
                                       .cutmix = scope % 4 == 0 ? 0 : 1,
                                       .probability = 1,
                                       .scope = scope};
            check(SR_KERNEL_mix_batch, t, &mix, sizeof mix);
        }
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        most_elements = strtoll(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_references_bits, arrays_free),
        cmocka_unit_test_teardown(test_whole_vectors, arrays_free),
        cmocka_unit_test_teardown(test_infinite_weights, arrays_free),
        cmocka_unit_test_teardown(test_infinite_factors, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
