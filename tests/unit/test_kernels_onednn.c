// SPDX-License-Identifier: Apache-2.0
// oneDNN accepts a limit of its instruction set only before it has computed anything. So this
// process begins with a linear layer, which needs no engine; the convolution behind it does.
#include "tests/unit/kernel_fixture.h"
#include "tests/unit/test_support.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_convolution_after_linear, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
