// SPDX-License-Identifier: Apache-2.0
// Reference kernels with windows, and linear layers, compared with independent double loops, as in
// test_kernels_reference.c.
#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

// ---- Convolution ----

// n h w c | k r s | p q | stride | pads t l b r | dilation | groups
static const sr_conv_params conv_cases[] = {
    {2, 7, 6, 3, 5, 3, 3, 7, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0},     // small channels, same size
    {1, 9, 40, 20, 70, 3, 2, 4, 39, 2, 1, 0, 0, 0, 0, 1, 1, 1, 0}, // several tiles and chunks
    {2, 8, 8, 4, 6, 1, 1, 4, 4, 2, 2, 0, 0, 0, 0, 1, 1, 1, 0},     // 1 x 1, stride 2
    {1, 11, 9, 4, 8, 3, 3, 5, 3, 2, 3, 1, 2, 1, 2, 2, 3, 2, 0},    // dilation, groups, uneven
    {2, 6, 5, 70, 70, 3, 3, 6, 5, 1, 1, 1, 1, 1, 1, 1, 1, 70, 0},  // depthwise, two chunks
    {1, 6, 6, 36, 72, 3, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 2, 0},   // wide groups
    {1, 5, 5, 2, 3, 4, 5, 4, 4, 1, 1, 2, 1, 0, 3, 1, 1, 1, 0},     // asymmetric padding
    {1, 4, 4, 17, 1, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 0},    // one filter
    {1, 3, 3, 2, 2, 3, 3, 5, 5, 1, 1, 2, 2, 2, 2, 1, 1, 1, 0}, // windows entirely in the padding
};

typedef struct conv_sums { // results and sums of absolute terms
    double *y, *dx, *dw, *y_abs, *dx_abs, *dw_abs;
} conv_sums;

// All three sums in one loop over (output, tap, channel).
static void naive_conv(const sr_conv_params *p, const test_array *x, const test_array *w,
                       const test_array *dy, const conv_sums *out) {
    const int64_t cg = p->c / p->groups, kg = p->k / p->groups;
    for (int64_t i = 0; i < p->n * p->p * p->q * p->k; i++) {
        const int64_t k = i % p->k, q = i / p->k % p->q, row = i / p->k / p->q % p->p,
                      n = i / p->k / p->q / p->p;
        for (int64_t j = 0; j < p->r * p->s * cg; j++) {
            const int64_t c = j % cg, s = j / cg % p->s, r = j / cg / p->s;
            const int64_t h = row * p->stride_h - p->pad_top + r * p->dilation_h;
            const int64_t v = q * p->stride_w - p->pad_left + s * p->dilation_w;
            if (h < 0 || h >= p->h || v < 0 || v >= p->w)
                continue;
            const int64_t xi = ((n * p->h + h) * p->w + v) * p->c + k / kg * cg + c;
            const int64_t wi = ((k * cg + c) * p->r + r) * p->s + s;
            const double xv = array_get(x, xi), dv = array_get(dy, i);
            const double wv = round_to(x->dtype, array_get(w, wi));
            out->y[i] += xv * wv;
            out->y_abs[i] += fabs(xv * wv);
            out->dx[xi] += dv * wv;
            out->dx_abs[xi] += fabs(dv * wv);
            out->dw[wi] += xv * dv;
            out->dw_abs[wi] += fabs(xv * dv);
        }
    }
}

static void check_sums(const char *what, sr_dtype dtype, const test_array *got, const double *want,
                       const double *magnitude, double terms) {
    for (int64_t i = 0; i < got->count; i++)
        assert_near(what, i, dtype, array_get(got, i), want[i], terms, magnitude[i]);
}

static void check_conv(const sr_conv_params *p, sr_dtype dtype) {
    const sr_dtype param = parameter_type(dtype);
    const int64_t nx = p->n * p->h * p->w * p->c, ny = p->n * p->p * p->q * p->k,
                  terms = p->c / p->groups * p->r * p->s, nw = p->k * terms;
    test_array *x = array_random(dtype, nx, 1, -1, 1), *w = array_random(param, nw, 2, -1, 1);
    test_array *dy = array_random(dtype, ny, 3, -1, 1), *bias = array_random(param, p->k, 4, -1, 1);
    test_array *y = array_new(dtype, ny), *dx = array_new(dtype, nx), *dw = array_new(param, nw);
    const conv_sums want = {zeros(ny), zeros(nx), zeros(nw), zeros(ny), zeros(nx), zeros(nw)};
    naive_conv(p, x, w, dy, &want);
    KERNEL_RUN(conv2d, *p, x, w, NULL, y);
    check_sums("conv2d", dtype, y, want.y, want.y_abs, (double)(terms + 2));
    KERNEL_RUN(conv2d, *p, x, w, bias, y);
    for (int64_t i = 0; i < ny; i++) {
        want.y[i] += array_get(bias, i % p->k);
        want.y_abs[i] += 1;
    }
    check_sums("conv2d with bias", dtype, y, want.y, want.y_abs, (double)(terms + 2));
    KERNEL_RUN(conv2d_dx, *p, dy, w, dx);
    check_sums("conv2d_dx", dtype, dx, want.dx, want.dx_abs, (double)(p->k * p->r * p->s + 2));
    KERNEL_RUN(conv2d_dw, *p, x, dy, dw);
    check_sums("conv2d_dw", param, dw, want.dw, want.dw_abs, (double)(p->n * p->p * p->q + 2));
    double *all[] = {want.y, want.dx, want.dw, want.y_abs, want.dx_abs, want.dw_abs};
    for (int i = 0; i < 6; i++)
        test_free(all[i]);
}

static void test_convolution(void **state) {
    for (size_t i = 0; i < sizeof conv_cases / sizeof conv_cases[0]; i++)
        for (int t = 0; t < 4; t++) {
            check_conv(&conv_cases[i], fixture_types[t]);
            arrays_free(state);
        }
}

// A linear layer equals a 1 x 1 convolution of N pictures of one pixel.
static void check_linear(int64_t n, int64_t c, int64_t k, sr_dtype dtype) {
    const sr_linear_params p = {n, c, k};
    const sr_conv_params as_conv = {n, 1, 1, c, k, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0};
    const sr_dtype param = parameter_type(dtype);
    test_array *x = array_random(dtype, n * c, 1, -1, 1), *w = array_random(param, k * c, 2, -1, 1);
    test_array *dy = array_random(dtype, n * k, 3, -1, 1), *bias = array_random(param, k, 4, -1, 1);
    test_array *y = array_new(dtype, n * k), *dx = array_new(dtype, n * c);
    test_array *dw = array_new(param, k * c);
    const conv_sums want = {zeros(n * k), zeros(n * c), zeros(k * c),
                            zeros(n * k), zeros(n * c), zeros(k * c)};
    naive_conv(&as_conv, x, w, dy, &want);
    KERNEL_RUN(linear, p, x, w, NULL, y);
    check_sums("linear", dtype, y, want.y, want.y_abs, (double)c + 2);
    KERNEL_RUN(linear, p, x, w, bias, y);
    for (int64_t i = 0; i < n * k; i++) {
        want.y[i] += array_get(bias, i % k);
        want.y_abs[i] += 1;
    }
    check_sums("linear with bias", dtype, y, want.y, want.y_abs, (double)c + 2);
    KERNEL_RUN(linear_dx, p, dy, w, dx);
    check_sums("linear_dx", dtype, dx, want.dx, want.dx_abs, (double)k + 2);
    KERNEL_RUN(linear_dw, p, x, dy, dw);
    check_sums("linear_dw", param, dw, want.dw, want.dw_abs, (double)n + 2);
    double *all[] = {want.y, want.dx, want.dw, want.y_abs, want.dx_abs, want.dw_abs};
    for (int i = 0; i < 6; i++)
        test_free(all[i]);
}

static void test_linear(void **state) {
    for (int t = 0; t < 4; t++) {
        check_linear(3, 5, 4, fixture_types[t]);
        check_linear(37, 70, 130, fixture_types[t]);
        check_linear(1, 1, 1, fixture_types[t]);
        arrays_free(state);
    }
}

// ---- Pooling ----

// n h w c p q | window | stride | pads t l b r
static const sr_pool_params pool_cases[] = {
    {2, 6, 6, 3, 3, 3, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0},
    {1, 7, 8, 5, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},
    {1, 5, 9, 2, 3, 3, 3, 5, 1, 2, 0, 0, 0, 0, 0, 0},
    {2, 7, 5, 4, 1, 1, 7, 5, 7, 5, 0, 0, 0, 0, 0, 0},
    {1, 9, 9, 1, 3, 3, 2, 2, 3, 3, 0, 0, 0, 0, 0, 0},
    {1, 4, 4, 3, 5, 5, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0},
};

// The same and gaps: maximum pooling with dilation, and a window that has no pixel.
static const sr_pool_params gap_cases[] = {
    {1, 9, 8, 5, 5, 6, 3, 3, 1, 1, 0, 0, 0, 0, 1, 0},
    {2, 7, 11, 8, 3, 3, 2, 3, 2, 3, 1, 1, 1, 1, 2, 1},
    {1, 2, 2, 3, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 2, 2},
};

typedef struct pool_want {
    double *max, *mean, *dmax, *dmean;
    int *index;
} pool_want;

static void naive_pool(const sr_pool_params *p, const test_array *x, const test_array *dy,
                       const pool_want *out) {
    for (int64_t i = 0; i < p->n * p->p * p->q * p->c; i++) {
        const int64_t c = i % p->c, q = i / p->c % p->q, row = i / p->c / p->q % p->p,
                      n = i / p->c / p->q / p->p;
        int64_t seen[256] = {0}, at[256] = {0}, count = 0, best = 0;
        double sum = 0;
        for (int64_t j = 0; j < (int64_t)p->window_h * p->window_w; j++) {
            const int64_t h = row * p->stride_h - p->pad_top + j / p->window_w * (1 + p->gap_h);
            const int64_t w = q * p->stride_w - p->pad_left + j % p->window_w * (1 + p->gap_w);
            if (h < 0 || h >= p->h || w < 0 || w >= p->w)
                continue;
            seen[count] = j;
            at[count] = ((n * p->h + h) * p->w + w) * p->c + c;
            sum += array_get(x, at[count]);
            if (array_get(x, at[count]) > array_get(x, at[best]))
                best = count;
            count++;
        }
        out->max[i] = count > 0 ? array_get(x, at[best]) : -(double)INFINITY;
        out->index[i] = count > 0 ? (int)seen[best] : 255;
        out->mean[i] = sum / (double)count;
        if (count > 0)
            out->dmax[at[best]] += array_get(dy, i);
        for (int64_t j = 0; j < count; j++)
            out->dmean[at[j]] += array_get(dy, i) / (double)count;
    }
}

static void check_means(const sr_pool_params *p, test_array *x, test_array *dy,
                        const pool_want *want) {
    test_array *mean = array_new(x->dtype, dy->count), *dmean = array_new(x->dtype, x->count);
    KERNEL_RUN(avgpool2d, *p, x, mean);
    KERNEL_RUN(avgpool2d_grad, *p, dy, dmean);
    for (int64_t i = 0; i < mean->count; i++)
        assert_near("avgpool2d", i, x->dtype, array_get(mean, i), want->mean[i], 40, 8);
    for (int64_t i = 0; i < dmean->count; i++)
        assert_near("avgpool2d_grad", i, x->dtype, array_get(dmean, i), want->dmean[i], 12, 8);
}

static void check_pool(const sr_pool_params *p, sr_dtype dtype) {
    const int64_t nx = p->n * p->h * p->w * p->c, ny = p->n * p->p * p->q * p->c;
    test_array *x = array_random(dtype, nx, 1, 0, 8), *dy = array_random(dtype, ny, 2, -1, 1);
    test_array *max = array_new(dtype, ny), *index = array_new(SR_U8, ny);
    test_array *dmax = array_new(dtype, nx);
    for (int64_t i = 0; i < nx; i++)
        array_set(x, i, floor(array_get(x, i))); // ties: the first maximum wins
    pool_want want = {zeros(ny), zeros(ny), zeros(nx), zeros(nx), NULL};
    want.index = test_calloc((size_t)ny, sizeof *want.index);
    naive_pool(p, x, dy, &want);
    KERNEL_RUN(maxpool2d, *p, x, max, index);
    KERNEL_RUN(maxpool2d_grad, *p, dy, index, dmax);
    if (p->gap_h == 0 && p->gap_w == 0)
        check_means(p, x, dy, &want);
    for (int64_t i = 0; i < ny; i++) {
        assert_true(array_get(max, i) == want.max[i]);
        assert_int_equal(want.index[i], (int)array_get(index, i));
    }
    for (int64_t i = 0; i < nx; i++)
        assert_near("maxpool2d_grad", i, dtype, array_get(dmax, i), want.dmax[i], 12, 8);
    test_free(want.max);
    test_free(want.mean);
    test_free(want.dmax);
    test_free(want.dmean);
    test_free(want.index);
}

static void test_pooling(void **state) {
    for (size_t i = 0; i < sizeof pool_cases / sizeof pool_cases[0]; i++)
        for (int t = 0; t < 4; t++) {
            check_pool(&pool_cases[i], fixture_types[t]);
            arrays_free(state);
        }
}

static void test_gaps(void **state) {
    for (size_t i = 0; i < sizeof gap_cases / sizeof gap_cases[0]; i++)
        for (int t = 0; t < 4; t++) {
            check_pool(&gap_cases[i], fixture_types[t]);
            arrays_free(state);
        }
}

static void test_upsample(void **state) {
    const sr_pool_params p = {2, 3, 4, 5, 6, 12, 2, 3, 2, 3, 0, 0, 0, 0, 0, 0};
    const int64_t nx = p.n * p.h * p.w * p.c, ny = p.n * p.p * p.q * p.c;
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        test_array *x = array_random(dtype, nx, 1, -1, 1), *y = array_new(dtype, ny);
        test_array *dy = array_random(dtype, ny, 2, -1, 1), *dx = array_new(dtype, nx);
        double *want = zeros(nx);
        KERNEL_RUN(upsample2d, p, x, y);
        KERNEL_RUN(upsample2d_grad, p, dy, dx);
        for (int64_t i = 0; i < ny; i++) {
            const int64_t c = i % p.c, w = i / p.c % p.q, h = i / p.c / p.q % p.p,
                          n = i / p.c / p.q / p.p;
            const int64_t from = ((n * p.h + h / 2) * p.w + w / 3) * p.c + c;
            assert_true(array_get(y, i) == array_get(x, from));
            want[from] += array_get(dy, i);
        }
        for (int64_t i = 0; i < nx; i++)
            assert_near("upsample2d_grad", i, dtype, array_get(dx, i), want[i], 8, 6);
        test_free(want);
        arrays_free(state);
    }
}

static void test_digest(void **state) {
    (void)state;
    assert_digest(7, UINT64_C(0x7c803f6ab0c964f7));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_convolution, arrays_free),
        cmocka_unit_test_teardown(test_linear, arrays_free),
        cmocka_unit_test_teardown(test_pooling, arrays_free),
        cmocka_unit_test_teardown(test_upsample, arrays_free),
        cmocka_unit_test(test_digest),
        cmocka_unit_test_teardown(test_gaps, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
