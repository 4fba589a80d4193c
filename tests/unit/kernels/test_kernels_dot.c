// SPDX-License-Identifier: Apache-2.0
// Convolutions of bf16 by VDPBF16PS give the bits of one chain per result over pairs of terms: of
// each pair the second product is added first, each with one rounding. The terms are those of the
// taps in the order of the pixels that they read, also where that is zeros outside of the picture.
// The chains here are scalar (fmaf).
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/base/cpuid.h"
#include "tests/unit/kernels/kernel_fixture.h"

enum { MAX_TERMS = 4096 };

// One pixel; odd numbers of channels, whose pairs have terms of two taps; one, two and three pieces
// of terms; panels of one, two and three vectors, full and not; borders wider than a window's half;
// strides and dilation, with phases that have no taps or other numbers of them; windows in one
// direction, and larger than the picture; several blocks with a short last one.
typedef struct dot_shape {
    int n, h, w, c, k, r, s, stride_h, stride_w, pad, dilation;
} dot_shape;

static const dot_shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1},     {3, 5, 7, 3, 5, 3, 3, 1, 1, 1, 1},
    {1, 9, 8, 64, 64, 1, 1, 1, 1, 0, 1},   {1, 6, 5, 17, 33, 2, 3, 1, 1, 2, 1},
    {1, 7, 7, 130, 97, 3, 3, 1, 1, 1, 1},  {2, 9, 8, 33, 17, 1, 1, 2, 2, 0, 1},
    {1, 9, 8, 16, 24, 3, 3, 2, 2, 1, 1},   {1, 11, 9, 5, 49, 3, 4, 3, 2, 1, 2},
    {1, 4, 3, 1040, 16, 1, 1, 1, 1, 0, 1}, {1, 3, 4, 6, 7, 7, 7, 2, 2, 3, 1},
    {1, 3, 3, 600, 20, 1, 1, 3, 4, 0, 1},  {1, 2, 2, 20, 2100, 1, 1, 1, 1, 0, 1},
    {2, 14, 14, 3, 32, 7, 7, 2, 2, 3, 1},  {21, 6, 6, 8, 40, 3, 1, 1, 1, 0, 1},
};

static sr_conv_params params_of(const dot_shape *s) {
    sr_conv_params p = {
        .n = s->n, .h = s->h, .w = s->w, .c = s->c, .k = s->k, .r = s->r, .s = s->s};
    p.stride_h = s->stride_h;
    p.stride_w = s->stride_w;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = s->pad;
    p.dilation_h = p.dilation_w = s->dilation;
    p.groups = 1;
    p.p = (p.h + 2 * s->pad - s->dilation * (p.r - 1) - 1) / p.stride_h + 1;
    p.q = (p.w + 2 * s->pad - s->dilation * (p.s - 1) - 1) / p.stride_w + 1;
    return p;
}

typedef struct terms {
    float a[MAX_TERMS], b[MAX_TERMS];
    int count;
} terms;

static void add(terms *t, double a, double b) {
    assert_true(t->count < MAX_TERMS - 1);
    t->a[t->count] = (float)a;
    t->b[t->count++] = (float)b;
}

static float sum_of(terms *t) {
    float sum = 0;
    if (t->count % 2 != 0)
        add(t, 0, 0);
    for (int i = 0; i < t->count; i += 2)
        sum = fmaf(t->a[i], t->b[i], fmaf(t->a[i + 1], t->b[i + 1], sum));
    t->count = 0;
    return sum;
}

static void assert_bits(const char *what, const test_array *got, int64_t i, float want) {
    const double rounded = round_to(got->dtype, (double)want);
    if (array_get(got, i) != rounded)
        fail_msg("%s [%lld] is %.9g, not %.9g", what, (long long)i, array_get(got, i), rounded);
}

// An element of pictures [n][h][w][c], 0 outside.
static double pixel(const test_array *x, int64_t n, int64_t h, int64_t w, int64_t c, int64_t height,
                    int64_t width, int64_t channels) {
    const bool inside = h >= 0 && h < height && w >= 0 && w < width;
    return inside ? array_get(x, ((n * height + h) * width + w) * channels + c) : 0;
}

static double weight(const test_array *w, int64_t i) {
    return round_to(SR_BF16, array_get(w, i));
}

static void add_pixel(terms *t, const sr_conv_params *p, const test_array *x, const test_array *w,
                      int64_t n, int64_t h, int64_t v, int64_t k, int64_t tap) {
    for (int64_t c = 0; c < p->c; c++)
        add(t, pixel(x, n, h, v, c, p->h, p->w, p->c),
            weight(w, (k * p->c + c) * p->r * p->s + tap));
}

static void check_forward(const sr_conv_params *p, terms *t, bool bias) {
    test_array *x = array_random(SR_BF16, p->n * p->h * p->w * p->c, 1, -2, 2);
    test_array *w = array_random(SR_F32, p->k * p->c * p->r * p->s, 2, -2, 2);
    test_array *b = bias ? array_random(SR_F32, p->k, 3, -2, 2) : NULL;
    test_array *y = array_new(SR_BF16, p->n * p->p * p->q * p->k);
    kernel_run("x86", SR_KERNEL_conv2d, p, sizeof *p, 4, (test_array *[]){x, w, b, y});
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t k = i % p->k, v = i / p->k % p->q, u = i / p->k / p->q % p->p;
        for (int64_t tap = 0; tap < p->r * p->s; tap++)
            add_pixel(t, p, x, w, i / p->k / p->q / p->p,
                      u * p->stride_h + tap / p->s * p->dilation_h - p->pad_top,
                      v * p->stride_w + tap % p->s * p->dilation_w - p->pad_left, k, tap);
        const float sum = sum_of(t);
        assert_bits("y", y, i, b != NULL ? sum + (float)array_get(b, k) : sum);
    }
}

// The terms of a tap for an element of dx, if its pixel is one that the tap reads.
static void add_gradient(terms *t, const sr_conv_params *p, const test_array *dy,
                         const test_array *w, int64_t i, int64_t tap) {
    const int64_t c = i % p->c, v = i / p->c % p->w, u = i / p->c / p->w % p->h;
    const int64_t h = u + p->pad_top - tap / p->s * p->dilation_h;
    const int64_t x = v + p->pad_left - tap % p->s * p->dilation_w;
    if (h % p->stride_h != 0 || x % p->stride_w != 0)
        return;
    for (int64_t k = 0; k < p->k; k++)
        add(t,
            pixel(dy, i / p->c / p->w / p->h, h / p->stride_h, x / p->stride_w, k, p->p, p->q,
                  p->k),
            weight(w, (k * p->c + c) * p->r * p->s + tap));
}

static void check_gradient(const sr_conv_params *p, terms *t) {
    test_array *dy = array_random(SR_BF16, p->n * p->p * p->q * p->k, 4, -2, 2);
    test_array *w = array_random(SR_F32, p->k * p->c * p->r * p->s, 5, -2, 2);
    test_array *dx = array_new(SR_BF16, p->n * p->h * p->w * p->c);
    kernel_run("x86", SR_KERNEL_conv2d_dx, p, sizeof *p, 3, (test_array *[]){dy, w, dx});
    for (int64_t i = 0; i < dx->count; i++) {
        for (int64_t tap = p->r * p->s - 1; tap >= 0; tap--)
            add_gradient(t, p, dy, w, i, tap);
        assert_bits("dx", dx, i, sum_of(t));
    }
}

// Of few pixels, which are one group.
static void check_weights(const sr_conv_params *p, terms *t) {
    test_array *x = array_random(SR_BF16, p->n * p->h * p->w * p->c, 6, -2, 2);
    test_array *dy = array_random(SR_BF16, p->n * p->p * p->q * p->k, 7, -2, 2);
    test_array *dw = array_new(SR_F32, p->k * p->c * p->r * p->s);
    kernel_run("x86", SR_KERNEL_conv2d_dw, p, sizeof *p, 3, (test_array *[]){x, dy, dw});
    for (int64_t i = 0; i < dw->count && p->n * p->p * p->q <= 224; i++) {
        const int64_t tap = i % (p->r * p->s), c = i / (p->r * p->s) % p->c;
        for (int64_t m = 0; m < p->n * p->p * p->q; m++) {
            add(t, array_get(dy, m * p->k + i / (p->r * p->s) / p->c),
                pixel(x, m / p->q / p->p,
                      m / p->q % p->p * p->stride_h + tap / p->s * p->dilation_h - p->pad_top,
                      m % p->q * p->stride_w + tap % p->s * p->dilation_w - p->pad_left, c, p->h,
                      p->w, p->c));
        }
        assert_bits("dw", dw, i, sum_of(t));
    }
}

static bool served(sr_kernel_id kernel, const sr_conv_params *p) {
    sr_kernel_request request;
    sr_kernel_request_init(&request, SR_DEVICE_CPU, kernel, SR_BF16, p, sizeof *p);
    const sr_kernel_entry *entry = sr_kernel_find_in(&request, "x86");
    return entry != NULL && strcmp(entry->numerics_class, "x86-dot-bf16") == 0;
}

static void test_chains(void **state) {
    static terms t;
    int checked = 0;
    if ((sr_cpu_features() & SR_CPU_BF16_DOT) == 0)
        test_skip("this processor has no fast products of bf16 in vectors");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const sr_conv_params p = params_of(&shapes[i]);
        if (served(SR_KERNEL_conv2d, &p))
            check_forward(&p, &t, i % 2 == 0);
        if (served(SR_KERNEL_conv2d_dx, &p))
            check_gradient(&p, &t);
        if (served(SR_KERNEL_conv2d_dw, &p))
            check_weights(&p, &t);
        checked += served(SR_KERNEL_conv2d, &p);
        (void)arrays_free(state);
    }
    if (checked == 0)
        test_skip("this build has no kernels of provider x86");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_chains, arrays_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
