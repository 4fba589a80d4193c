// SPDX-License-Identifier: Apache-2.0
// oneDNN accepts a limit of its instruction set only before it has computed anything. So this
// process starts with a linear layer, which needs no engine, before the convolution, which does.
// Also tests a shape for which the library's own code writes out of bounds.
#include "kernels/base/cpuid.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

static void run(sr_kernel_id kernel, const void *params, size_t bytes, test_array *const *args) {
    assert_ok(kernel_try("onednn", kernel, params, bytes, 4, args));
}

static void test_convolution_after_linear(void **state) {
    (void)state;
    const sr_linear_params linear = {.n = 1, .c = 2, .k = 1};
    test_array *x = array_of(SR_F32, 2, (const double[]){3, 4});
    test_array *w = array_of(SR_F32, 2, (const double[]){5, 6});
    test_array *y = array_new(SR_F32, 1);
    run(SR_KERNEL_linear, &linear, sizeof linear, (test_array *[]){x, w, NULL, y});
    assert_float_equal((float)array_get(y, 0), 39.0f, 0.0f);
    const sr_conv_params conv = {.n = 1,
                                 .h = 1,
                                 .w = 1,
                                 .c = 2,
                                 .k = 1,
                                 .r = 1,
                                 .s = 1,
                                 .p = 1,
                                 .q = 1,
                                 .stride_h = 1,
                                 .stride_w = 1,
                                 .dilation_h = 1,
                                 .dilation_w = 1,
                                 .groups = 1};
    run(SR_KERNEL_conv2d, &conv, sizeof conv, (test_array *[]){x, w, NULL, y});
    assert_float_equal((float)array_get(y, 0), 39.0f, 0.0f);
}

static void test_strided_pointwise_gradient(void **state) {
    (void)state;
    const sr_conv_params p = {.n = 5,
                              .h = 66,
                              .w = 34,
                              .c = 8,
                              .k = 16,
                              .r = 1,
                              .s = 1,
                              .p = 33,
                              .q = 17,
                              .stride_h = 2,
                              .stride_w = 2,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .groups = 1};
    test_array *x = array_random(SR_F32, p.n * p.h * p.w * p.c, 1, 0, 1);
    test_array *dy = array_random(SR_F32, p.n * p.p * p.q * p.k, 2, 0, 1);
    test_array *dw = array_new(SR_F32, p.k * p.c);
    assert_ok(
        kernel_try("onednn", SR_KERNEL_conv2d_dw, &p, sizeof p, 3, (test_array *[]){x, dy, dw}));
    for (int64_t k = 0; k < p.k; k++) {
        for (int64_t c = 0; c < p.c; c++) {
            double want = 0;
            for (int64_t i = 0; i < p.n * p.p * p.q; i++) {
                const int64_t n = i / (p.p * p.q), row = i / p.q % p.p, column = i % p.q;
                const int64_t pixel = (n * p.h + 2 * row) * p.w + 2 * column;
                want += array_get(x, pixel * p.c + c) * array_get(dy, i * p.k + k);
            }
            assert_float_equal((float)array_get(dw, k * p.c + c), (float)want, 1e-4f * (float)want);
        }
    }
}

// Where a product is cut into several blocks of rows and of columns, every block has its own rows.
static void compare_blocks(sr_kernel_id kernel, const void *params, size_t bytes, sr_dtype type,
                           test_array *const *in, int args, int64_t results) {
    test_array *arrays[] = {in[0], in[1], NULL, NULL};
    test_array *own = array_new(type, results), *reference = array_new(type, results);
    // sums of 150 products of at most 1, and a rounding to T
    const float tolerance = type == SR_F32 ? 1e-4f : 0.2f;
    arrays[args - 1] = own;
    assert_ok(kernel_try("onednn", kernel, params, bytes, args, arrays));
    arrays[args - 1] = reference;
    assert_ok(kernel_try("reference", kernel, params, bytes, args, arrays));
    for (int64_t i = 0; i < results; i++)
        assert_float_equal((float)array_get(own, i), (float)array_get(reference, i), tolerance);
}

static void test_blocks_of_rows(void **state) {
    (void)state;
    const sr_linear_params l = {.n = 1170, .c = 150, .k = 140};
    static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
    for (int t = 0; t < 3; t++) {
        test_array *x = array_random(types[t], l.n * l.c, 1, -1, 1);
        test_array *dy = array_random(types[t], l.n * l.k, 2, -1, 1);
        test_array *w = array_random(SR_F32, l.k * l.c, 3, -1, 1);
        test_array *b = array_random(types[t], l.k * l.c, 4, -1, 1);
        compare_blocks(SR_KERNEL_linear, &l, sizeof l, types[t], (test_array *[]){x, w}, 4,
                       l.n * l.k);
        compare_blocks(SR_KERNEL_linear_dx, &l, sizeof l, types[t], (test_array *[]){dy, w}, 3,
                       l.n * l.c);
        for (int transposed = 0; transposed < 2; transposed++) {
            const sr_matmul_params m = {.rows = l.n,
                                        .terms = l.c,
                                        .columns = l.k,
                                        .a_count = 1,
                                        .b_count = 1,
                                        .dim = {1, 1, 1},
                                        .alpha = 1,
                                        .transpose_a = transposed,
                                        .transpose_b = !transposed};
            compare_blocks(SR_KERNEL_matmul, &m, sizeof m, types[t], (test_array *[]){x, b}, 3,
                           l.n * l.k);
        }
    }
}

// Where both can compute a convolution of bf16, the faster one serves it, and provider x86 still
// has its kernel, for builds without oneDNN.
static void test_amx_outranks_x86(void **state) {
    (void)state;
    const sr_conv_params p = {.n = 2,
                              .h = 16,
                              .w = 16,
                              .c = 64,
                              .k = 64,
                              .r = 1,
                              .s = 1,
                              .p = 16,
                              .q = 16,
                              .stride_h = 1,
                              .stride_w = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .groups = 1};
    sr_kernel_request request;
    if ((sr_cpu_features() & SR_CPU_AMX_BF16) == 0)
        test_skip("this processor has no AMX");
    sr_kernel_request_init(&request, SR_DEVICE_CPU, SR_KERNEL_conv2d, SR_BF16, &p, sizeof p);
    request.dtype[2] = SR_DTYPE_COUNT; // no bias
    assert_string_equal("conv2d/onednn-amx", sr_kernel_find(&request)->name);
    const sr_kernel_entry *x86 = sr_kernel_find_in(&request, "x86");
    if (!x86) {
        test_skip("this build has no provider x86");
        return;
    }
    assert_string_equal("conv2d/x86-gemm", x86->name);
    request.dtype[0] = request.dtype[3] = SR_F32;
    assert_string_equal("conv2d/x86-gemm", sr_kernel_find(&request)->name);
}

// The weight gradient of rows that are shorter than a stride is not left to oneDNN's bf16 kernel.
static void test_rows_shorter_than_stride(void **state) {
    (void)state;
    sr_conv_params p = {.n = 8,
                        .h = 18,
                        .w = 2,
                        .c = 16,
                        .k = 16,
                        .r = 3,
                        .s = 3,
                        .p = 9,
                        .q = 1,
                        .stride_h = 2,
                        .stride_w = 2,
                        .pad_top = 1,
                        .pad_left = 1,
                        .dilation_h = 1,
                        .dilation_w = 1,
                        .groups = 1};
    sr_kernel_request request;
    if ((sr_cpu_features() & SR_CPU_AMX_BF16) == 0)
        test_skip("this processor has no AMX");
    sr_kernel_request_init(&request, SR_DEVICE_CPU, SR_KERNEL_conv2d_dw, SR_BF16, &p, sizeof p);
    assert_string_equal("conv2d_dw/onednn-amx", sr_kernel_find(&request)->name);
    p.w = 1;
    sr_kernel_request_init(&request, SR_DEVICE_CPU, SR_KERNEL_conv2d_dw, SR_BF16, &p, sizeof p);
    assert_null(sr_kernel_find_in(&request, "onednn"));
    assert_non_null(sr_kernel_find(&request));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amx_outranks_x86),
        cmocka_unit_test(test_rows_shorter_than_stride),
        cmocka_unit_test_teardown(test_convolution_after_linear, arrays_free),
        cmocka_unit_test_teardown(test_strided_pointwise_gradient, arrays_free),
        cmocka_unit_test_teardown(test_blocks_of_rows, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
