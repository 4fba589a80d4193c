// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of provider x86, or of class "tensor" on a device that has it, of listed
// and drawn shapes. Results and input gradients have the bits of one chain of fused multiply-adds
// over the taps inside of the picture, by row and column (in reverse order for the gradient), with
// the bias added and the result rounded once, whatever the tiles, the division into blocks and
// their order; the chains here are scalar (fmaf). Weight gradients are compared with sums in f64.
// Infinities and NaN stay where they belong; in weight gradients of class "tensor" they may spoil
// all taps of their channel. Lanes side by side have the bits of each alone.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/rng.h"
#include "tests/unit/kernels/library_kernels.h"

typedef struct depthwise_shape {
    int n, h, w, c, r, s, stride_h, stride_w, top, left, dilation_h, dilation_w;
} depthwise_shape;

// One pixel; each window of its own with stride 1 and 2, and numbers of columns around the sizes of
// tiles; fewer channels than a vector, whole vectors, and some more; padding wider than the window
// and none; other windows, strides and dilations. Many images and channels: on a GPU, rows are not
// cut there, and a thread has some strips in turn.
static const depthwise_shape shapes[] = {
    {1, 1, 1, 2, 1, 1, 1, 1, 0, 0, 1, 1},     {1, 1, 1, 16, 3, 3, 1, 1, 1, 1, 1, 1},
    {2, 5, 14, 16, 3, 3, 1, 1, 1, 1, 1, 1},   {1, 9, 15, 33, 3, 3, 1, 1, 1, 1, 1, 1},
    {2, 7, 7, 40, 5, 5, 1, 1, 2, 2, 1, 1},    {1, 8, 29, 24, 7, 7, 1, 1, 3, 3, 1, 1},
    {3, 7, 8, 32, 3, 3, 2, 2, 1, 1, 1, 1},    {1, 11, 16, 20, 3, 3, 2, 2, 0, 0, 1, 1},
    {2, 14, 13, 17, 5, 5, 2, 2, 2, 2, 1, 1},  {1, 9, 31, 48, 7, 7, 2, 2, 3, 3, 1, 1},
    {1, 3, 3, 16, 7, 7, 1, 1, 3, 3, 1, 1},    {1, 2, 3, 16, 5, 5, 2, 2, 4, 4, 1, 1},
    {1, 6, 6, 31, 3, 3, 1, 1, 4, 5, 1, 1},    {1, 6, 7, 31, 3, 3, 2, 2, 5, 4, 1, 1},
    {2, 9, 10, 16, 3, 5, 2, 1, 1, 2, 1, 1},   {1, 9, 10, 16, 5, 3, 1, 2, 2, 1, 2, 1},
    {1, 12, 11, 16, 3, 3, 1, 1, 2, 2, 2, 2},  {1, 13, 12, 18, 4, 2, 3, 3, 1, 1, 1, 2},
    {2, 8, 9, 5, 3, 3, 2, 2, 1, 1, 1, 1},     {1, 5, 40, 16, 1, 7, 1, 1, 0, 3, 1, 1},
    {1, 30, 4, 16, 11, 1, 1, 1, 5, 0, 1, 1},  {40, 2, 2, 16, 3, 3, 1, 1, 1, 1, 1, 1},
    {70, 2, 2, 1024, 3, 3, 1, 1, 1, 1, 1, 1}, {2, 5, 22, 72, 7, 7, 1, 1, 1, 9, 1, 1},
    {1, 33, 8, 130, 5, 5, 2, 2, 1, 1, 1, 1},  {2, 1, 2, 9, 7, 7, 2, 2, 3, 3, 1, 1},
    {1, 2, 2, 6, 7, 7, 2, 2, 8, 7, 1, 1},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], DRAWN = 60 };

static sr_conv_params params_of(const depthwise_shape *s) {
    sr_conv_params p = {.n = s->n, .h = s->h, .w = s->w, .c = s->c, .k = s->c};
    p.r = s->r;
    p.s = s->s;
    p.stride_h = s->stride_h;
    p.stride_w = s->stride_w;
    p.pad_top = p.pad_bottom = s->top;
    p.pad_left = p.pad_right = s->left;
    p.dilation_h = s->dilation_h;
    p.dilation_w = s->dilation_w;
    p.groups = s->c;
    p.p = (s->h + 2 * s->top - s->dilation_h * (s->r - 1) - 1) / s->stride_h + 1;
    p.q = (s->w + 2 * s->left - s->dilation_w * (s->s - 1) - 1) / s->stride_w + 1;
    return p;
}

// "tensor" on a device that has it, else "x86".
static const char *provider(void) {
    size_t count;
    if (!device_of_test())
        return "x86";
    const sr_provider *const *providers = sr_providers(&count); // the open device's, too
    for (size_t i = 0; i < count; i++)
        if (strcmp(providers[i]->name, "tensor") == 0)
            return "tensor";
    return "x86";
}

static bool is_of_device(void) {
    return strcmp(provider(), "tensor") == 0;
}

static sr_kernel_request request_of(sr_kernel_id kernel, const sr_conv_params *p, sr_dtype t) {
    const sr_device_kind kind =
        is_of_device() ? sr_device_get_properties(device_of_test())->kind : SR_DEVICE_CPU;
    sr_kernel_request request;
    sr_kernel_request_init(&request, kind, kernel, t, p, sizeof *p);
    return request;
}

// Class "tensor" has square windows of 3, 5 and 7 taps with one stride, 1 or 2, without dilation;
// provider x86 has all.
static bool is_served(const depthwise_shape *s) {
    const bool window = s->r == s->s && (s->r == 3 || s->r == 5 || s->r == 7);
    return !is_of_device() || (window && s->stride_h == s->stride_w && s->stride_h <= 2 &&
                               s->dilation_h == 1 && s->dilation_w == 1);
}

static int draw(sr_rng *rng, int most) {
    return (int)(sr_rng_u32(rng) % (uint32_t)most);
}

// Sizes are large enough for one output.
static depthwise_shape drawn(uint64_t number) {
    static const int windows[] = {3, 3, 5, 7, 1, 2, 4, 6};
    sr_rng rng;
    sr_rng_init(&rng, number, 0, 0, 0);
    depthwise_shape s = {.n = 1 + draw(&rng, 3), .c = 2 + draw(&rng, 40)};
    s.r = windows[draw(&rng, 8)];
    s.s = windows[draw(&rng, 8)];
    s.stride_h = 1 + draw(&rng, 2);
    s.stride_w = 1 + draw(&rng, 2) + (draw(&rng, 8) == 0);
    s.dilation_h = 1 + (draw(&rng, 4) == 0);
    s.dilation_w = 1 + (draw(&rng, 6) == 0);
    if (is_of_device()) {
        s.r = s.s = 3 + 2 * draw(&rng, 3);
        s.stride_w = s.stride_h;
        s.dilation_h = s.dilation_w = 1;
    }
    s.top = draw(&rng, s.r + 1);
    s.left = draw(&rng, s.s + 1);
    s.h = s.dilation_h * (s.r - 1) + 1 + draw(&rng, 9);
    s.w = s.dilation_w * (s.s - 1) + 1 + draw(&rng, 36);
    return s;
}

// The place that output (row, column) of image n sees by a tap, or -1.
static int64_t place_of(const sr_conv_params *p, int64_t n, int64_t row, int64_t column, int64_t r,
                        int64_t s) {
    const int64_t h = row * p->stride_h + r * p->dilation_h - p->pad_top;
    const int64_t w = column * p->stride_w + s * p->dilation_w - p->pad_left;
    return h < 0 || h >= p->h || w < 0 || w >= p->w ? -1 : (n * p->h + h) * p->w + w;
}

static void assert_bits(const char *what, const test_array *got, int64_t i, float want) {
    const double rounded = round_to(got->dtype, (double)want), is = array_get(got, i);
    if (is != rounded && !(isnan(is) && isnan(rounded)))
        fail_msg("%s [%lld] is %.9g, not %.9g", what, (long long)i, is, rounded);
}

static void check_forward(const sr_conv_params *p, test_array *x, test_array *w, bool bias) {
    test_array *b = bias ? array_random(SR_F32, p->c, 3, -2, 2) : NULL;
    test_array *y = array_new(x->dtype, p->n * p->p * p->q * p->c);
    kernel_run(provider(), SR_KERNEL_conv2d, p, sizeof *p, 4, (test_array *[]){x, w, b, y});
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t c = i % p->c, column = i / p->c % p->q, row = i / p->c / p->q % p->p;
        float sum = 0;
        for (int64_t tap = 0; tap < p->r * p->s; tap++) {
            const int64_t place =
                place_of(p, i / p->c / p->q / p->p, row, column, tap / p->s, tap % p->s);
            const double weight = array_get(w, c * p->r * p->s + tap);
            if (place >= 0)
                sum = fmaf((float)array_get(x, place * p->c + c), (float)round_to(x->dtype, weight),
                           sum);
        }
        assert_bits("y", y, i, bias ? sum + (float)array_get(b, c) : sum);
    }
}

// Scatters the outputs in the order of the last tap first, which is that of each chain.
static void check_dx(const sr_conv_params *p, test_array *dy, test_array *w) {
    test_array *dx = array_new(dy->dtype, p->n * p->h * p->w * p->c);
    test_array *want = array_new(SR_F32, dx->count);
    float *sum = want->data;
    for (int64_t tap = p->r * p->s; tap-- > 0;) {
        for (int64_t i = 0; i < dy->count; i++) {
            const int64_t c = i % p->c, column = i / p->c % p->q, row = i / p->c / p->q % p->p;
            const int64_t place =
                place_of(p, i / p->c / p->q / p->p, row, column, tap / p->s, tap % p->s);
            const double weight = array_get(w, c * p->r * p->s + tap);
            if (place >= 0)
                sum[place * p->c + c] =
                    fmaf((float)array_get(dy, i), (float)round_to(dy->dtype, weight),
                         sum[place * p->c + c]);
        }
    }
    kernel_run(provider(), SR_KERNEL_conv2d_dx, p, sizeof *p, 3, (test_array *[]){dy, w, dx});
    for (int64_t i = 0; i < dx->count; i++)
        assert_bits("dx", dx, i, sum[i]);
}

static bool is_finite_in(const test_array *a, int64_t channel, int64_t channels) {
    for (int64_t i = channel; i < a->count; i += channels)
        if (!isfinite(array_get(a, i)))
            return false;
    return true;
}

static void check_dw(const sr_conv_params *p, test_array *x, test_array *dy) {
    const int64_t taps = p->r * p->s;
    test_array *dw = array_new(SR_F32, p->c * taps);
    kernel_run(provider(), SR_KERNEL_conv2d_dw, p, sizeof *p, 3, (test_array *[]){x, dy, dw});
    for (int64_t i = 0; i < dw->count; i++) {
        const int64_t c = i / taps, tap = i % taps;
        double sum = 0, magnitude = 0;
        for (int64_t m = 0; m < p->n * p->p * p->q; m++) {
            const int64_t place =
                place_of(p, m / p->q / p->p, m / p->q % p->p, m % p->q, tap / p->s, tap % p->s);
            if (place < 0)
                continue;
            const double product = array_get(x, place * p->c + c) * array_get(dy, m * p->c + c);
            sum += product;
            magnitude += fabs(product);
        }
        if (is_of_device() && !(is_finite_in(x, c, p->c) && is_finite_in(dy, c, p->c)))
            assert_true(isfinite(sum) || !isfinite(array_get(dw, i)));
        else if (isfinite(sum))
            assert_near("dw", i, SR_F32, array_get(dw, i), sum,
                        8 + 2 * sqrt((double)(p->n * p->p * p->q)), magnitude);
        else if (isfinite(array_get(dw, i)))
            fail_msg("dw [%lld] is finite", (long long)i);
    }
}

static void poke(test_array *a, uint32_t seed) {
    static const double specials[] = {HUGE_VAL, -HUGE_VAL, (double)NAN};
    for (uint32_t i = 0; i < 3; i++)
        array_set(a, (int64_t)(seed * 7 + i * 1001) % a->count, specials[i]);
}

static void check_shape(const depthwise_shape *s, sr_dtype t, uint32_t seed, bool special) {
    const sr_conv_params p = params_of(s);
    test_array *x = array_random(t, p.n * p.h * p.w * p.c, seed, -2, 2);
    test_array *w = array_random(SR_F32, p.c * p.r * p.s, seed + 1, -2, 2);
    test_array *dy = array_random(t, p.n * p.p * p.q * p.c, seed + 2, -2, 2);
    if (special) {
        poke(x, seed);
        poke(w, seed);
        poke(dy, seed + 3);
    }
    check_forward(&p, x, w, seed % 2 == 0);
    check_dx(&p, dy, w);
    check_dw(&p, x, dy);
}

static bool is_depthwise(const sr_kernel_entry *entry) {
    return is_of_device() ? strcmp(entry->provider, "tensor") == 0
                          : strstr(entry->name, "depthwise") != NULL;
}

static bool has_kernels(void) {
    const sr_conv_params p = params_of(&shapes[1]);
    const sr_kernel_request request = request_of(SR_KERNEL_conv2d, &p, SR_F32);
    const sr_kernel_entry *entry = sr_kernel_find_in(&request, provider());
    return entry != NULL && is_depthwise(entry);
}

static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};

static void test_chains(void **state) {
    if (!has_kernels())
        test_skip("this build or processor has no x86 kernels");
    for (uint32_t i = 0; i < SHAPES; i++) {
        for (int t = 0; t < 3 && is_served(&shapes[i]); t++) {
            check_shape(&shapes[i], types[t], 10 * i + (uint32_t)t, false);
            (void)arrays_free(state);
        }
    }
}

static void test_drawn_shapes(void **state) {
    if (!has_kernels())
        test_skip("this build or processor has no x86 kernels");
    for (uint32_t i = 0; i < DRAWN; i++) {
        const depthwise_shape s = drawn(i);
        check_shape(&s, types[i % 3], i, i % 5 == 4);
        (void)arrays_free(state);
    }
}

// Lanes side by side, which have their own weight gradients.
static void test_lanes(void **state) {
    static const struct {
        sr_kernel_id kernel;
        uint32_t varies; // all but weights and bias
    } kernels[] = {{SR_KERNEL_conv2d, 0x9}, {SR_KERNEL_conv2d_dx, 0x5}, {SR_KERNEL_conv2d_dw, 0x7}};
    if (!has_kernels() || !is_of_device())
        test_skip("this device has no kernels of class tensor");
    for (uint32_t i = 0; i < SHAPES; i++) {
        const sr_conv_params p = params_of(&shapes[i]);
        for (int k = 0; k < 3 && is_served(&shapes[i]); k++) {
            const sr_kernel_request lane = request_of(kernels[k].kernel, &p, types[i % 3]);
            for (int lanes = 2; lanes <= 3; lanes++) {
                const sr_kernel_entry *entry = check_lanes(&lane, lanes, kernels[k].varies);
                if (!entry || !is_depthwise(entry))
                    fail_msg("%d lanes of %s, shape %u, are served by %s", lanes,
                             sr_kernel_name(lane.kernel), i, entry ? entry->name : "no kernel");
                (void)arrays_free(state);
            }
        }
    }
}

// Convolutions of other kinds, and without images, are for other kernels.
static void test_what_is_left_to_others(void **state) {
    (void)state;
    if (!has_kernels())
        test_skip("this build or processor has no x86 kernels");
    static const sr_kernel_id kernels[] = {SR_KERNEL_conv2d, SR_KERNEL_conv2d_dx,
                                           SR_KERNEL_conv2d_dw};
    enum { OTHERS = 6 }; // the last ones are served on CPUs
    const sr_conv_params whole = params_of(&shapes[2]);
    sr_conv_params others[OTHERS] = {whole, whole, whole, whole, whole, whole};
    others[0].n = 0;
    others[1].k = 2 * whole.k;
    others[2].groups = 4;
    others[3].dilation_w = 2;
    others[4].stride_h = 2;
    others[5].r = 1;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < (is_of_device() ? OTHERS : 3); i++) {
            const sr_kernel_request request = request_of(kernels[k], &others[i], SR_F32);
            const sr_kernel_entry *entry = sr_kernel_find(&request);
            assert_non_null(entry);
            assert_false(is_depthwise(entry));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_chains, arrays_free),
        cmocka_unit_test_teardown(test_drawn_shapes, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
        cmocka_unit_test(test_what_is_left_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
