// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/convolution_sums.h"

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

void assert_convolution(const problem *c, const arrays *inputs, const void *got, bool of_cudnn) {
    const int result = c->request.args - 1;
    const sr_dtype activation = sr_kernel_activation(&c->request);
    const sr_dtype dtype = of_cudnn ? activation : c->request.dtype[result];
    const bool biased = c->request.kernel == SR_KERNEL_conv2d && c->arg[2].role != NONE;
    const sr_conv_params *p = (const void *)c->request.params;
    const double roundings = (activation == SR_BF16  ? 0x1p-8
                              : activation == SR_F16 ? 0x1p-11
                                                     : 0x1p-24) /
                             0x1p-24;
    double *a = library_rounded(c, inputs, 0), *b = library_rounded(c, inputs, 1);
    sum *sums = sr_alloc_array((size_t)c->arg[result].count, sizeof *sums, "test");
    assert_non_null(sums);
    add_products(c, a, b, sums);
    for (int64_t i = 0; i < c->arg[result].count; i++) {
        const double terms = 2.0 * (double)(sums[i].terms + 2) + library_product_roundings(c);
        const double added = biased ? library_number(SR_F32, inputs->p[2], i % p->k) : 0;
        assert_near(sr_kernel_name(c->request.kernel), i, dtype,
                    library_number(c->request.dtype[result], got, i), sums[i].value + added, terms,
                    sums[i].magnitude +
                        (biased && of_cudnn ? roundings * fabs(sums[i].value) / terms : 0));
    }
    sr_free(sums);
    test_free(a);
    test_free(b);
}

sr_conv_params make_convolution(int64_t side, int64_t channels, int64_t filters, int64_t window,
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
