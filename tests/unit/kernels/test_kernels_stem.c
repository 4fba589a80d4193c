// SPDX-License-Identifier: Apache-2.0
// Convolutions of pictures with few channels, and the gradients of their filters, by tensor cores
// (numerics class "mma") on the test's device, beside sums in f64 (convolution_sums.h): the
// problems of kernel_cases.c, and windows, strides, paddings, sizes and channels around those of
// tiles. Repeated runs with other contents of the workspace have the same bits, and so has each of
// several lanes side by side as alone.
#include "tests/unit/support/test_support.h"

#include "tests/unit/kernels/convolution_sums.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"

static void check_sums(const problem *c, const arrays *inputs, const void *got) {
    assert_convolution(c, inputs, got, false);
}

static library mma = {.provider = "mma", .name = "class mma", .check = check_sums};

// Called by the cases of kernel_cases.c.
void check_problem(const problem *c) {
    library_check_problem(&mma, c);
}

static void test_cases(void **state) {
    (void)state;
    if (!library_is_there(&mma))
        return;
    kernel_cases[SR_KERNEL_conv2d](SR_KERNEL_conv2d);
    const int forward = mma.checked;
    kernel_cases[SR_KERNEL_conv2d_dw](SR_KERNEL_conv2d_dw);
    assert_true(forward > 0 && mma.checked > forward);
}

static void check(const sr_conv_params *p) {
    const int before = mma.checked;
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
        library_check(SR_KERNEL_conv2d, t, p, sizeof *p, true);
        library_check(SR_KERNEL_conv2d, t, p, sizeof *p, false);
        library_check(SR_KERNEL_conv2d_dw, t, p, sizeof *p, false);
    }
    assert_int_equal(mma.checked, before + 6);
}

static void check_conv(int64_t side, int64_t channels, int64_t filters, int64_t window, int stride,
                       int before, int behind) {
    const sr_conv_params p =
        make_convolution(side, channels, filters, window, stride, before, behind, 1);
    check(&p);
}

static void test_shapes(void **state) {
    (void)state;
    if (!library_is_there(&mma))
        return;
    check_conv(64, 3, 64, 7, 2, 3, 3); // ResNet's, several tiles
    check_conv(40, 3, 96, 4, 4, 0, 0); // ConvNeXt's
    check_conv(33, 3, 16, 3, 2, 1, 1); // MobileNet's
    check_conv(19, 3, 72, 3, 1, 1, 1); // of small pictures
    check_conv(20, 1, 8, 5, 2, 2, 2);
    check_conv(18, 4, 24, 3, 2, 0, 1); // as TensorFlow pads
    check_conv(9, 2, 8, 2, 3, 0, 0);
    check_conv(5, 3, 136, 7, 4, 6, 6);
    check_conv(3, 3, 8, 3, 1, 4, 0); // outputs of padding alone
    check_conv(12, 3, 8, 8, 4, 2, 2);
}

// Windows and strides that are not square.
static void test_sides(void **state) {
    (void)state;
    if (!library_is_there(&mma))
        return;
    sr_conv_params p = make_convolution(20, 3, 16, 3, 2, 1, 1, 1);
    p.stride_w = 1;
    p.r = 5;
    p.p = (p.h + 2 - 5) / 2 + 1;
    p.q = p.w + 2 - 3 + 1;
    check(&p);
}

// Several units of a lane, of which the last one has fewer tiles; several tiles of a block.
static void test_units(void **state) {
    (void)state;
    if (!library_is_there(&mma))
        return;
    sr_conv_params units = make_convolution(33, 1, 8, 2, 2, 0, 0, 1);
    units.n = 13; // of 2 x 2 tiles; a unit has 16
    check(&units);
    sr_conv_params tiles = make_convolution(5, 1, 8, 2, 2, 0, 0, 1);
    tiles.n = 1201; // of a tile; at most 1,056 blocks of the forward pass
    const int before = mma.checked;
    library_check(SR_KERNEL_conv2d, SR_BF16, &tiles, sizeof tiles, true);
    assert_int_equal(mma.checked, before + 1);
}

static void test_lanes(void **state) {
    (void)state;
    if (!library_is_there(&mma))
        return;
    for (int64_t n = 1; n <= 3; n++) {
        sr_conv_params p = make_convolution(35, 3, 24, 3, 2, 1, 1, 1);
        p.n = n * n;
        for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
            const sr_kernel_request forward =
                                        library_request(SR_KERNEL_conv2d, t, &p, sizeof p, true),
                                    dw = library_request(SR_KERNEL_conv2d_dw, t, &p, sizeof p,
                                                         false);
            const int before = mma.checked;
            library_check_lanes(&mma, &forward, 0, false);
            library_check_lanes(&mma, &dw, 0, false);
            assert_int_equal(mma.checked, before + 4);
        }
    }
}

static void expect_refused(sr_conv_params p) {
    const sr_kernel_request r = library_request(SR_KERNEL_conv2d, SR_BF16, &p, sizeof p, false);
    assert_null(sr_kernel_find_in(&r, "mma"));
}

static void test_refused(void **state) {
    (void)state;
    if (!library_is_there(&mma))
        return;
    expect_refused(make_convolution(20, 5, 8, 3, 1, 1, 1, 1));  // channels
    expect_refused(make_convolution(20, 3, 12, 3, 1, 1, 1, 1)); // filters
    expect_refused(make_convolution(20, 3, 8, 1, 1, 0, 0, 1));  // a product
    expect_refused(make_convolution(20, 3, 8, 3, 1, 1, 1, 2));  // dilation
    expect_refused(make_convolution(20, 3, 8, 5, 1, 1, 1, 1));  // terms of a row
    expect_refused(make_convolution(40, 3, 8, 16, 16, 0, 0, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_cases, arrays_free),
        cmocka_unit_test_teardown(test_shapes, arrays_free),
        cmocka_unit_test_teardown(test_sides, arrays_free),
        cmocka_unit_test_teardown(test_units, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
        cmocka_unit_test_teardown(test_refused, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
