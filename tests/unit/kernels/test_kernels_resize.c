// SPDX-License-Identifier: Apache-2.0
// resize2d and its gradient compared with products of matrices of weights, which are made one
// weight at a time from the formulas of PyTorch, in f64.
#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

enum {
    MOST = 400, // weights of a side
    TERMS = 64, // of a sum, and roundings of the positions from which weights follow
};

typedef struct side {
    int in, out;
    double step;
    const sr_resize_params *p;
    double weight[MOST]; // [out][in]
} side;

static double cubic(double x, double a) {
    x = fabs(x);
    if (x <= 1)
        return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

// Adds a weight to a pixel, or to the border.
static void add(side *s, int out, int in, double weight) {
    const int at = in < 0 ? 0 : in < s->in ? in : s->in - 1;
    s->weight[out * s->in + at] += weight;
}

static void add_filtered(side *s, int out) {
    const bool linear = s->p->filter == SR_FILTER_LINEAR;
    const double wide = s->step > 1 ? s->step : 1, centre = s->step * (out + 0.5);
    double total = 0, weight[MOST] = {0};
    for (int in = 0; in < s->in; in++) {
        const double x = (in + 0.5 - centre) / wide;
        weight[in] = linear ? fmax(1 - fabs(x), 0) : cubic(x, -0.5);
        total += weight[in];
    }
    for (int in = 0; in < s->in; in++)
        add(s, out, in, weight[in] / total);
}

static void add_interpolated(side *s, int out) {
    const double middle = s->step * (out + 0.5) - 0.5, at = s->p->corners ? s->step * out : middle;
    const bool linear = s->p->filter == SR_FILTER_LINEAR;
    for (int in = (int)floor(at) - 2; in <= (int)floor(at) + 3; in++)
        add(s, out, in, linear ? fmax(1 - fabs(in - at), 0) : cubic(in - at, -0.75));
}

static void add_weights(side *s, int out) {
    const int begin = out * s->in / s->out, end = ((out + 1) * s->in + s->out - 1) / s->out;
    if (s->p->filter == SR_FILTER_NEAREST)
        add(s, out, (int)floorf((float)out * (float)s->step), 1);
    else if (s->p->filter == SR_FILTER_NEAREST_EXACT)
        add(s, out, (int)floorf(((float)out + 0.5f) * (float)s->step), 1);
    else if (s->p->filter == SR_FILTER_AREA)
        for (int in = begin; in < end; in++)
            add(s, out, in, 1.0 / (end - begin));
    else if (s->p->antialias)
        add_filtered(s, out);
    else
        add_interpolated(s, out);
}

static side side_of(const sr_resize_params *p, bool wide) {
    side s = {
        (int)(wide ? p->w : p->h), (int)(wide ? p->q : p->p), wide ? p->step_w : p->step_h, p, {0}};
    assert_true(s.in * s.out <= MOST);
    for (int out = 0; out < s.out; out++)
        add_weights(&s, out);
    return s;
}

// The sum of all terms of y, or dx, and that of their absolute values.
static void check(const sr_resize_params *p, const test_array *x, const test_array *y,
                  const test_array *dy, const test_array *dx) {
    const side high = side_of(p, false), wide = side_of(p, true);
    double *sums[4];
    for (int i = 0; i < 4; i++)
        sums[i] = zeros(i < 2 ? y->count : x->count);
    for (int64_t at = 0; at < y->count * p->h * p->w; at++) {
        const int64_t w = at % p->w, h = at / p->w % p->h, to = at / p->w / p->h;
        const int64_t c = to % p->c, q = to / p->c % p->q, row = to / p->c / p->q % p->p;
        const int64_t from = ((to / p->c / p->q / p->p * p->h + h) * p->w + w) * p->c + c;
        const double weight = high.weight[row * p->h + h] * wide.weight[q * p->w + w];
        sums[0][to] += weight * array_get(x, from);
        sums[1][to] += fabs(weight * array_get(x, from));
        sums[2][from] += weight * array_get(dy, to);
        sums[3][from] += fabs(weight * array_get(dy, to));
    }
    for (int64_t i = 0; i < y->count; i++)
        assert_near("resize2d", i, y->dtype, array_get(y, i), sums[0][i], TERMS, sums[1][i] + 1);
    for (int64_t i = 0; i < x->count; i++)
        assert_near("resize2d_grad", i, x->dtype, array_get(dx, i), sums[2][i], TERMS,
                    sums[3][i] + 1);
    for (int i = 0; i < 4; i++)
        test_free(sums[i]);
}

static void run(const sr_resize_params *p, sr_dtype t) {
    test_array *x = array_random(t, p->n * p->h * p->w * p->c, 1, -2, 2), *y, *dy, *dx;
    dy = array_random(t, p->n * p->p * p->q * p->c, 2, -2, 2);
    y = array_new(t, dy->count);
    dx = array_new(t, x->count);
    KERNEL_RUN(resize2d, *p, x, y);
    KERNEL_RUN(resize2d_grad, *p, dy, dx);
    check(p, x, y, dy, dx);
    (void)arrays_free(NULL);
}

// h w c p q
static const int sizes[][5] = {{1, 1, 3, 1, 1},  {5, 4, 3, 10, 8}, {7, 3, 1, 3, 7},
                               {6, 6, 16, 6, 6}, {1, 9, 3, 4, 2},  {12, 2, 40, 2, 5},
                               {3, 4, 21, 7, 9}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void run_sizes(int32_t filter, bool corners, bool antialias) {
    for (int k = 0; k < SIZES; k++) {
        sr_resize_params p = {2,
                              sizes[k][0],
                              sizes[k][1],
                              sizes[k][2],
                              sizes[k][3],
                              sizes[k][4],
                              0,
                              0,
                              .filter = filter,
                              .corners = corners,
                              .antialias = antialias};
        p.step_h = (double)p.h / (double)p.p;
        p.step_w = (double)p.w / (double)p.q;
        if (corners) {
            p.step_h = p.p > 1 ? (double)(p.h - 1) / (double)(p.p - 1) : 0;
            p.step_w = p.q > 1 ? (double)(p.w - 1) / (double)(p.q - 1) : 0;
        }
        for (int t = 0; t < 4; t++)
            run(&p, fixture_types[t]);
    }
}

static void test_filters(void **state) {
    (void)state;
    for (int32_t filter = SR_FILTER_NEAREST; filter <= SR_FILTER_AREA; filter++)
        run_sizes(filter, false, false);
}

static void test_corners(void **state) {
    (void)state;
    run_sizes(SR_FILTER_LINEAR, true, false);
    run_sizes(SR_FILTER_CUBIC, true, false);
}

static void test_antialiasing(void **state) {
    (void)state;
    run_sizes(SR_FILTER_LINEAR, false, true);
    run_sizes(SR_FILTER_CUBIC, false, true);
}

// A picture of the same size is copied.
static void test_the_same_size(void **state) {
    (void)state;
    sr_resize_params p = {1, 3, 3, 1, 3, 3, 1, 1, SR_FILTER_NEAREST, 0, 0, 0};
    test_array *x = array_random(SR_F32, 9, 1, -2, 2), *y = array_new(SR_F32, 9);
    for (p.filter = SR_FILTER_NEAREST; p.filter <= SR_FILTER_AREA; p.filter++) {
        KERNEL_RUN(resize2d, p, x, y);
        for (int64_t i = 0; i < 9; i++)
            assert_true(array_get(x, i) == array_get(y, i));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_filters, arrays_free),
        cmocka_unit_test_teardown(test_corners, arrays_free),
        cmocka_unit_test_teardown(test_antialiasing, arrays_free),
        cmocka_unit_test_teardown(test_the_same_size, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
