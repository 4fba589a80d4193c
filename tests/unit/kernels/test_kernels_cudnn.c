// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN on the test's device, beside sums in f64 of the same factors: the problems
// of kernel_cases.c without groups, and more windows, strides, paddings and channels.
//
// Weights are rounded to the type of the activations, and so are their gradients. Products of two
// factors are exact in fp32. Each of n additions is rounded, by tensor cores toward zero, to at
// most 2^-23 of a partial sum in any order, and no partial sum exceeds the sum of all absolute
// values; the result is rounded once more, before a bias is added and after that:
//     |got - want| <= roundoff(T) |want| + (n + 2) 2^-23 (sum of |a b|) + roundoff(T) |sum of a b|
// Repeated runs with other contents of the workspace have the same bits, and so has each of several
// lanes side by side as alone.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"

// What a result is the sum of: pairs of x or y's elements and filters.
typedef struct sum {
    double value, magnitude;
    int64_t terms;
} sum;

static void add(sum *s, double product) {
    s->value += product;
    s->magnitude += fabs(product);
    s->terms++;
}

// Adds to 'out', one for each element of the result, all products of a picture's element, a
// filter's and an output's place, of which the kernel knows two.
static void add_products(const problem *c, const double *a, const double *b, sum *out) {
    const sr_conv_params *p = (const void *)c->request.params;
    const sr_kernel_id kernel = c->request.kernel;
    for (int64_t y = 0; y < p->n * p->p * p->q; y++) {
        const int64_t n = y / (p->p * p->q), row = y / p->q % p->p, column = y % p->q;
        for (int64_t t = 0; t < p->r * p->s; t++) {
            const int64_t h = row * p->stride_h - p->pad_top + t / p->s * p->dilation_h;
            const int64_t w = column * p->stride_w - p->pad_left + t % p->s * p->dilation_w;
            if (h < 0 || h >= p->h || w < 0 || w >= p->w)
                continue;
            for (int64_t k = 0; k < p->k; k++) {
                for (int64_t i = 0; i < p->c; i++) {
                    const int64_t picture = ((n * p->h + h) * p->w + w) * p->c + i;
                    const int64_t filter = (k * p->c + i) * p->r * p->s + t, result = y * p->k + k;
                    if (kernel == SR_KERNEL_conv2d)
                        add(&out[result], a[picture] * b[filter]);
                    else if (kernel == SR_KERNEL_conv2d_dx)
                        add(&out[picture], a[result] * b[filter]);
                    else
                        add(&out[filter], a[picture] * b[result]);
                }
            }
        }
    }
}

static void assert_convolution(const problem *c, const arrays *inputs, const void *got) {
    const int result = c->request.args - 1;
    const sr_dtype dtype = sr_kernel_activation(&c->request);
    const bool biased = c->request.kernel == SR_KERNEL_conv2d && c->arg[2].role != NONE;
    const sr_conv_params *p = (const void *)c->request.params;
    const double roundings = (dtype == SR_BF16 ? 0x1p-8 : 0x1p-11) / 0x1p-24;
    double *a = library_rounded(c, inputs, 0), *b = library_rounded(c, inputs, 1);
    sum *sums = sr_alloc_array((size_t)c->arg[result].count, sizeof *sums, "test");
    assert_non_null(sums);
    add_products(c, a, b, sums);
    for (int64_t i = 0; i < c->arg[result].count; i++) {
        const double terms = 2.0 * (double)(sums[i].terms + 2);
        const double added = biased ? library_number(SR_F32, inputs->p[2], i % p->k) : 0;
        assert_near(sr_kernel_name(c->request.kernel), i, dtype,
                    library_number(c->request.dtype[result], got, i), sums[i].value + added, terms,
                    sums[i].magnitude + (biased ? roundings * fabs(sums[i].value) / terms : 0));
    }
    sr_free(sums);
    test_free(a);
    test_free(b);
}

static library cudnn = {
    .provider = "cudnn", .name = "cuDNN", .stand_in = "SOFT_CUDNN", .check = assert_convolution};

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
    assert_true(cudnn.checked > 0);
    print_message("%d problems, %d without an engine\n", cudnn.checked, cudnn.refused);
}

// Of two samples, with paddings before and behind.
static sr_conv_params make_conv(int64_t side, int64_t channels, int64_t filters, int64_t window,
                                int stride, int before, int behind, int dilation) {
    const int64_t extent = (window - 1) * dilation + 1,
                  out = (side + before + behind - extent) / stride + 1;
    return (sr_conv_params){.n = 2,
                            .h = side,
                            .w = side + 1,
                            .c = channels,
                            .k = filters,
                            .r = window,
                            .s = window,
                            .p = out,
                            .q = (side + 1 + before + behind - extent) / stride + 1,
                            .stride_h = stride,
                            .stride_w = stride,
                            .pad_top = before,
                            .pad_left = before,
                            .pad_bottom = behind,
                            .pad_right = behind,
                            .dilation_h = dilation,
                            .dilation_w = dilation,
                            .groups = 1};
}

static void check_conv(int64_t side, int64_t channels, int64_t filters, int64_t window, int stride,
                       int before, int behind, int dilation) {
    const sr_conv_params p =
        make_conv(side, channels, filters, window, stride, before, behind, dilation);
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
    check_lanes_of(1, make_conv(3, 9, 17, 3, 1, 1, 1, 1));
    check_lanes_of(2, make_conv(4, 16, 24, 3, 1, 1, 1, 1));
    check_lanes_of(3, make_conv(9, 3, 8, 7, 2, 3, 3, 1));
    check_lanes_of(4, make_conv(8, 16, 8, 1, 2, 0, 0, 1));
    check_lanes_of(5, make_conv(6, 5, 8, 3, 2, 0, 1, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_cases, arrays_free),
        cmocka_unit_test_teardown(test_shapes, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
