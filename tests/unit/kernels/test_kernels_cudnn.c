// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN on the test's device, beside sums in f64 of the same factors: the problems
// of kernel_cases.c without groups, and more windows, strides, paddings and channels.
//
// The bounds are those of convolution_sums.h; gradients of weights are rounded, too. Factors of
// fp32 are cut to TF32, which adds 2 2^-10 + 2^-20 of the sum of the products' absolute values.
// Repeated runs with other contents of the workspace have the same bits, and so has each of several
// lanes side by side as alone.
#include "tests/unit/support/test_support.h"

#include "tests/unit/kernels/convolution_sums.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"

static void check_rounded(const problem *c, const arrays *inputs, const void *got) {
    assert_convolution(c, inputs, got, true);
}

static library cudnn = {
    .provider = "cudnn", .name = "cuDNN", .stand_in = "SOFT_CUDNN", .check = check_rounded};

// Called by the cases of kernel_cases.c.
void check_problem(const problem *c) {
    if (((const sr_conv_params *)(const void *)c->request.params)->groups == 1)
        library_check_problem(&cudnn, c);
}

static void test_cases(void **state) {
    (void)state;
    if (!library_is_there(&cudnn))
        return;
    for (sr_kernel_id k = SR_KERNEL_conv2d; k <= SR_KERNEL_conv2d_dw; k++)
        kernel_cases[k](k);
    library_assert_checked(&cudnn);
}

static void check_conv(int64_t side, int64_t channels, int64_t filters, int64_t window, int stride,
                       int before, int behind, int dilation) {
    const sr_conv_params p =
        make_convolution(side, channels, filters, window, stride, before, behind, dilation);
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
        library_check(SR_KERNEL_conv2d, t, &p, sizeof p, true);
        library_check(SR_KERNEL_conv2d, t, &p, sizeof p, false);
        library_check(SR_KERNEL_conv2d_dx, t, &p, sizeof p, false);
        library_check(SR_KERNEL_conv2d_dw, t, &p, sizeof p, false);
    }
}

static void test_shapes(void **state) {
    (void)state;
    if (!library_is_there(&cudnn))
        return;
    for (int64_t channels = 1; channels <= 17; channels += 8)
        for (int64_t filters = 1; filters <= 17; filters += 8)
            check_conv(3, channels, filters, 3, 1, 1, 1, 1);
    check_conv(4, 16, 24, 3, 1, 1, 1, 1);
    check_conv(9, 3, 8, 7, 2, 3, 3, 1);  // a stem
    check_conv(8, 16, 8, 1, 2, 0, 0, 1); // a shortcut
    check_conv(6, 8, 8, 2, 2, 0, 0, 1);
    check_conv(6, 5, 8, 3, 2, 0, 1, 1); // as TensorFlow pads
    check_conv(9, 8, 3, 3, 1, 2, 2, 2);
    check_conv(3, 8, 8, 3, 1, 4, 0, 1); // outputs of padding alone
}

// fp32, whose factors are cut to TF32: filters that stay where they are, and others.
static void test_tf32(void **state) {
    const sr_conv_params windows = make_convolution(4, 9, 16, 3, 1, 1, 1, 1),
                         points = make_convolution(3, 16, 9, 1, 1, 0, 0, 1);
    (void)state;
    if (!library_is_there(&cudnn))
        return;
    for (int i = 0; i < 2; i++) {
        const sr_conv_params *p = i == 0 ? &windows : &points;
        library_check(SR_KERNEL_conv2d, SR_F32, p, sizeof *p, i == 0);
        library_check(SR_KERNEL_conv2d_dx, SR_F32, p, sizeof *p, false);
        library_check(SR_KERNEL_conv2d_dw, SR_F32, p, sizeof *p, false);
        const sr_kernel_request lane =
            library_request(SR_KERNEL_conv2d, SR_F32, p, sizeof *p, i == 1);
        library_check_lanes(&cudnn, &lane, 0, false);
    }
}

// Of 'n' samples each. The gradients of weights run lane by lane.
static void check_lanes_of(int64_t n, sr_conv_params p) {
    p.n = n;
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
        for (int bias = 0; bias < 2; bias++) {
            const sr_kernel_request forward =
                library_request(SR_KERNEL_conv2d, t, &p, sizeof p, bias);
            library_check_lanes(&cudnn, &forward, 0, false);
        }
        const sr_kernel_request dx = library_request(SR_KERNEL_conv2d_dx, t, &p, sizeof p, false),
                                dw = library_request(SR_KERNEL_conv2d_dw, t, &p, sizeof p, false);
        sr_kernel_request all;
        library_check_lanes(&cudnn, &dx, 0, false);
        assert_false(sr_kernel_join_lanes(&dw, 2, 7, &all));
    }
}

static void test_lanes(void **state) {
    (void)state;
    if (!library_is_there(&cudnn))
        return;
    check_lanes_of(1, make_convolution(3, 9, 17, 3, 1, 1, 1, 1));
    check_lanes_of(2, make_convolution(4, 16, 24, 3, 1, 1, 1, 1));
    check_lanes_of(3, make_convolution(9, 5, 8, 7, 2, 3, 3, 1));
    check_lanes_of(4, make_convolution(8, 16, 8, 1, 2, 0, 0, 1));
    check_lanes_of(5, make_convolution(6, 5, 8, 3, 2, 0, 1, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_cases, arrays_free),
        cmocka_unit_test_teardown(test_shapes, arrays_free),
        cmocka_unit_test_teardown(test_tf32, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
