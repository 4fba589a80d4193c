// SPDX-License-Identifier: Apache-2.0
// 1x1 convolutions of provider x86 give the bits of one chain of fused multiply-adds per result,
// over the inputs in order, with the bias added and the result rounded once, whatever the division
// into blocks and their order. The chains here are scalar (fmaf).
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/base/cpuid.h"
#include "tests/unit/kernels/kernel_fixture.h"

typedef struct pointwise_shape {
    int n, h, w, c, k, stride_h, stride_w;
} pointwise_shape;

// One pixel; odd sizes everywhere; numbers of channels that are read in place and their neighbours;
// one, two and three sections of inputs; panels of one, two and three vectors, full and not;
// strides that leave out pixels; several blocks with a short last one.
static const pointwise_shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},    {3, 5, 7, 3, 5, 1, 1},      {2, 9, 8, 64, 64, 1, 1},
    {1, 3, 3, 64, 8, 1, 1},   {1, 11, 13, 128, 48, 1, 1}, {5, 6, 6, 256, 80, 1, 1},
    {1, 6, 3, 512, 97, 1, 1}, {2, 7, 7, 530, 33, 1, 1},   {1, 4, 3, 1040, 16, 1, 1},
    {2, 9, 8, 33, 17, 2, 2},  {3, 7, 6, 64, 112, 2, 1},   {1, 8, 9, 600, 20, 3, 2},
    {1, 9, 5, 20, 600, 1, 4}, {70, 4, 4, 20, 144, 1, 1},  {37, 6, 6, 128, 64, 1, 1},
};

static sr_conv_params params_of(const pointwise_shape *s) {
    sr_conv_params p = {.n = s->n, .h = s->h, .w = s->w, .c = s->c, .k = s->k, .r = 1, .s = 1};
    p.p = (s->h - 1) / s->stride_h + 1;
    p.q = (s->w - 1) / s->stride_w + 1;
    p.stride_h = s->stride_h;
    p.stride_w = s->stride_w;
    p.dilation_h = p.dilation_w = p.groups = 1;
    return p;
}

// The pixel of the large picture that pixel m of the small one reads.
static int64_t pixel_of(const sr_conv_params *p, int64_t m) {
    const int64_t row = m / p->q % p->p * p->stride_h, column = m % p->q * p->stride_w;
    return (m / (p->p * p->q) * p->h + row) * p->w + column;
}

// The sum over 'count' products; w advances by 'step'.
static float chain(const test_array *x, int64_t i, const test_array *w, int64_t j, int64_t step,
                   int64_t count) {
    float sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum = fmaf((float)array_get(x, i + c),
                   (float)round_to(x->dtype, array_get(w, j + c * step)), sum);
    return sum;
}

static void assert_bits(const char *what, const test_array *got, int64_t i, float want) {
    const double rounded = round_to(got->dtype, (double)want);
    if (array_get(got, i) != rounded)
        fail_msg("%s [%lld] is %.9g, not %.9g", what, (long long)i, array_get(got, i), rounded);
}

static void check_forward(const sr_conv_params *p, sr_dtype t, bool bias) {
    const int64_t rows = p->n * p->p * p->q;
    test_array *x = array_random(t, p->n * p->h * p->w * p->c, 1, -2, 2);
    test_array *w = array_random(SR_F32, p->k * p->c, 2, -2, 2);
    test_array *b = bias ? array_random(SR_F32, p->k, 3, -2, 2) : NULL;
    test_array *y = array_new(t, rows * p->k);
    kernel_run("x86", SR_KERNEL_conv2d, p, sizeof *p, 4, (test_array *[]){x, w, b, y});
    for (int64_t i = 0; i < rows * p->k; i++) {
        const int64_t k = i % p->k;
        const float sum = chain(x, pixel_of(p, i / p->k) * p->c, w, k * p->c, 1, p->c);
        assert_bits("y", y, i, b != NULL ? sum + (float)array_get(b, k) : sum);
    }
}

static void check_gradient(const sr_conv_params *p, sr_dtype t) {
    const int64_t rows = p->n * p->p * p->q, pixels = p->n * p->h * p->w;
    test_array *dy = array_random(t, rows * p->k, 4, -2, 2);
    test_array *w = array_random(SR_F32, p->k * p->c, 5, -2, 2), *dx = array_new(t, pixels * p->c);
    kernel_run("x86", SR_KERNEL_conv2d_dx, p, sizeof *p, 3, (test_array *[]){dy, w, dx});
    int64_t m = 0;
    for (int64_t pixel = 0; pixel < pixels; pixel++) {
        const bool used = m < rows && pixel_of(p, m) == pixel;
        for (int64_t c = 0; c < p->c; c++)
            assert_bits("dx", dx, pixel * p->c + c,
                        used ? chain(dy, m * p->k, w, c, p->c, p->k) : 0);
        m += used;
    }
}

static void check_all(void **state) {
    static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const sr_conv_params p = params_of(&shapes[i]);
        for (int t = 0; t < 3; t++) {
            check_forward(&p, types[t], (i + (size_t)t) % 2 == 0);
            check_gradient(&p, types[t]);
            (void)arrays_free(state);
        }
    }
}

static bool built_in(const char *name) {
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    for (size_t i = 0; i < providers; i++)
        if (strcmp(provider[i]->name, name) == 0)
            return true;
    return false;
}

static void test_chains(void **state) {
    if (!built_in("x86") || (sr_cpu_features() & SR_CPU_AVX512) == 0)
        test_skip("this build or processor has no kernels with AVX-512");
    sr_cpu_restrict(~(uint32_t)SR_CPU_BF16_DOT); // whose products of bf16 have another order
    check_all(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_chains, arrays_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
