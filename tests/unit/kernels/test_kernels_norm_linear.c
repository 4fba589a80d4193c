// SPDX-License-Identifier: Apache-2.0
// Products with rows that batch norm and ReLU come before, and the gradients of their weights, by
// tensor cores (numerics class "mma") on the test's device: rows and channels with every remainder
// of 8, 16, 64 and 128, in kept and in passing chunks, several slices and many tiles. Results have
// the bits of products with what batchnorm_infer_relu of class "tensor" writes, and are compared
// with sums of these in f64. Each of several lanes side by side has the bits that it has alone.
//
// A sum of n products is wrong by (n + 2) 2^-23 of their absolute values, as tensor cores round
// toward zero; a bias is one more term.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"

#define MMA "mma"
#define TENSOR "tensor"
static const double eps = 1e-3;

// No problem is of kernel_cases.c: test_kernels_mma has them.
void check_problem(const problem *c) {
    (void)c;
}

static bool is_skipped(void) {
    if (provider_of_test(MMA))
        return false;
    test_skip("this device has no kernels of class " MMA);
    return true;
}

typedef struct norm_case {
    sr_norm_linear_params p;
    sr_dtype type;
    test_array *x, *gamma, *beta, *mean, *var, *w, *bias, *dy; // gamma, beta, bias: NULL without
    test_array *normalised;                                    // by class "tensor"
} norm_case;

#define RUN(provider, kernel, params, ...)                                                         \
    kernel_run(provider, SR_KERNEL_##kernel, params, sizeof *(params),                             \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

static norm_case make_case(sr_dtype type, const int64_t shape[3], bool affine) {
    const int64_t n = shape[0], c = shape[1], k = shape[2];
    norm_case o = {.p = {n, c, k, eps}, .type = type};
    const sr_batchnorm_params norm = {n, c, eps};
    o.x = array_random(type, n * c, 1, -2, 2);
    o.gamma = affine ? array_random(SR_F32, c, 2, -1, 1.5) : NULL;
    o.beta = affine ? array_random(SR_F32, c, 3, -0.5, 1) : NULL;
    o.mean = array_random(SR_F32, c, 4, -1, 1);
    o.var = array_random(SR_F32, c, 5, 0.2, 2);
    o.w = array_random(SR_F32, k * c, 6, -1, 1);
    o.bias = affine ? array_random(SR_F32, k, 7, -1, 1) : NULL;
    o.dy = array_random(type, n * k, 8, -1, 1);
    o.normalised = array_new(type, n * c);
    RUN(TENSOR, batchnorm_infer_relu, &norm, o.x, NULL, o.gamma, o.beta, o.mean, o.var,
        o.normalised, NULL);
    return o;
}

typedef struct sum {
    double value, magnitude;
} sum;

static void add(sum *s, double a, double b) {
    s->value += a * b;
    s->magnitude += fabs(a * b);
}

static void check_sum(const char *what, const test_array *got, int64_t i, int64_t terms,
                      const sum *s) {
    assert_near(what, i, got->dtype, array_get(got, i), s->value, 2.0 * (double)(terms + 2),
                s->magnitude);
}

static void check_forward_sums(const norm_case *c, const test_array *y) {
    const int64_t channels = c->p.c;
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t row = i / c->p.k, k = i % c->p.k;
        sum s = {0, 0};
        for (int64_t j = 0; j < channels; j++)
            add(&s, array_get(c->normalised, row * channels + j),
                round_to(c->type, array_get(c->w, k * channels + j)));
        if (c->bias)
            add(&s, array_get(c->bias, k), 1);
        check_sum("y", y, i, channels + 1, &s);
    }
}

static void check_weight_sums(const norm_case *c, const test_array *dw) {
    for (int64_t i = 0; i < dw->count; i++) {
        const int64_t k = i / c->p.c, j = i % c->p.c;
        sum s = {0, 0};
        for (int64_t row = 0; row < c->p.n; row++)
            add(&s, array_get(c->normalised, row * c->p.c + j), array_get(c->dy, row * c->p.k + k));
        check_sum("dw", dw, i, c->p.n, &s);
    }
}

static void assert_bits(const norm_case *c, const char *what, const test_array *a,
                        const test_array *b) {
    if (memcmp(a->data, b->data, (size_t)a->count * sr_dtype_size(a->dtype)) != 0)
        fail_msg("%s %s [%lld, %lld, %lld]: other bits than of a product with batch norm's result",
                 what, sr_dtype_name(c->type), (long long)c->p.n, (long long)c->p.c,
                 (long long)c->p.k);
}

// With mean 0 and variance 1 nothing changes what is not negative.
static void check(sr_dtype type, const int64_t shape[3], bool affine) {
    const norm_case c = make_case(type, shape, affine);
    const sr_norm_linear_params same = {c.p.n, c.p.c, c.p.k, 0};
    test_array *y = array_new(type, c.p.n * c.p.k), *dw = array_new(SR_F32, c.p.k * c.p.c);
    test_array *plain_y = array_new(type, y->count), *plain_dw = array_new(SR_F32, dw->count);
    test_array *zero = array_new(SR_F32, c.p.c), *one = array_random(SR_F32, c.p.c, 1, 1, 1);
    RUN(MMA, batchnorm_relu_linear, &c.p, c.x, c.gamma, c.beta, c.mean, c.var, c.w, c.bias, y);
    RUN(MMA, batchnorm_relu_linear, &same, c.normalised, NULL, NULL, zero, one, c.w, c.bias,
        plain_y);
    assert_bits(&c, "y", y, plain_y);
    check_forward_sums(&c, y);
    RUN(MMA, batchnorm_relu_linear_dw, &c.p, c.x, c.gamma, c.beta, c.mean, c.var, c.dy, dw);
    RUN(MMA, batchnorm_relu_linear_dw, &same, c.normalised, NULL, NULL, zero, one, c.dy, plain_dw);
    assert_bits(&c, "dw", dw, plain_dw);
    check_weight_sums(&c, dw);
    (void)arrays_free(NULL);
}

static void test_shapes(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {1, 8, 8},       // less than a product
        {127, 24, 64},   // one row is missing
        {128, 64, 72},   // a whole tile
        {129, 72, 40},   // one row is left
        {300, 136, 128}, // chunks that are kept
        {70, 200, 16},   // chunks that pass
        {40, 16, 264},   // several tiles of columns
        {33, 264, 136},  // several tiles of both
    };
    if (is_skipped())
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(i % 2 == 0 ? SR_BF16 : SR_F16, shapes[i], i % 3 != 0);
}

// A slice has 1,024 rows at least.
static void test_slices(void **state) {
    (void)state;
    if (is_skipped())
        return;
    check(SR_BF16, (const int64_t[3]){1024 + 1, 8, 16}, true);
    check(SR_F16, (const int64_t[3]){2 * 1024 + 90, 16, 8}, false);
}

static sr_kernel_request request_of(sr_kernel_id kernel, sr_dtype type, const int64_t shape[3],
                                    bool affine) {
    const sr_norm_linear_params p = {shape[0], shape[1], shape[2], eps};
    return library_request(kernel, type, &p, sizeof p, affine);
}

static void check_lanes_of(const sr_kernel_request *lane, int lanes, uint32_t varies) {
    const sr_kernel_entry *entry = check_lanes(lane, lanes, varies);
    (void)arrays_free(NULL);
    if (!entry || !entry->lanes || strcmp(entry->provider, MMA) != 0)
        fail_msg("lanes of %s are not served by class " MMA, sr_kernel_name(lane->kernel));
}

enum { STATISTICS = 3 << 3, FORWARD = 1 | 1 << 7, WEIGHTS = 1 | 3 << 5 }; // what each lane has

static void test_lanes(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{130, 24, 72}, {1030, 16, 8}, {9, 200, 40}};
    if (is_skipped())
        return;
    for (int i = 0; i < 3; i++) {
        const sr_dtype t = i % 2 == 0 ? SR_BF16 : SR_F16;
        const sr_kernel_request y = request_of(SR_KERNEL_batchnorm_relu_linear, t, shapes[i], i),
                                dw =
                                    request_of(SR_KERNEL_batchnorm_relu_linear_dw, t, shapes[i], i);
        check_lanes_of(&y, 2, FORWARD | STATISTICS);
        check_lanes_of(&y, 3, FORWARD);
        check_lanes_of(&dw, 2, WEIGHTS);
        check_lanes_of(&dw, 3, WEIGHTS | STATISTICS);
    }
}

// Blocks that have several tiles of rows, each of another lane: 264 have one.
static void test_many_tiles(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {129, 8, 136}, {129, 72, 136}, {129, 136, 8}, {129, 200, 8}};
    if (is_skipped())
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const sr_kernel_request y =
            request_of(SR_KERNEL_batchnorm_relu_linear, SR_BF16, shapes[i], true);
        check_lanes_of(&y, 140, FORWARD | STATISTICS);
    }
}

// What each lane has must be rows and statistics.
static void test_other_lanes(void **state) {
    (void)state;
    sr_kernel_request all;
    if (is_skipped())
        return;
    const sr_kernel_request y =
        request_of(SR_KERNEL_batchnorm_relu_linear, SR_BF16, (const int64_t[3]){9, 8, 8}, true);
    assert_true(sr_kernel_join_lanes(&y, 2, FORWARD | STATISTICS, &all));
    assert_true(sr_kernel_join_lanes(&y, 2, FORWARD, &all));
    assert_false(sr_kernel_join_lanes(&y, 2, FORWARD | 1 << 3, &all)); // the mean alone
    assert_false(sr_kernel_join_lanes(&y, 2, FORWARD | 1 << 5, &all)); // weights
}

static void expect_served(sr_dtype type, int64_t c, int64_t k, bool served) {
    for (int i = 0; i < 2; i++) {
        const sr_kernel_request r = request_of(i == 0 ? SR_KERNEL_batchnorm_relu_linear
                                                      : SR_KERNEL_batchnorm_relu_linear_dw,
                                               type, (const int64_t[3]){100352, c, k}, true);
        assert_int_equal(sr_kernel_find_in(&r, MMA) != NULL, served);
    }
}

// Channels are whole vectors, and moving rows takes longer than multiplying them: the first two
// stages of ResNet-50, not the others.
static void test_served(void **state) {
    (void)state;
    if (is_skipped())
        return;
    expect_served(SR_BF16, 64, 256, true);
    expect_served(SR_F16, 128, 512, true);
    expect_served(SR_BF16, 1024, 128, true); // of DenseNet
    expect_served(SR_BF16, 256, 256, true);
    expect_served(SR_BF16, 256, 1024, false);
    expect_served(SR_BF16, 512, 2048, false);
    expect_served(SR_F32, 64, 256, false);
    expect_served(SR_BF16, 60, 256, false);
    expect_served(SR_BF16, 64, 100, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_shapes, arrays_free),
        cmocka_unit_test_teardown(test_slices, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
        cmocka_unit_test_teardown(test_many_tiles, arrays_free),
        cmocka_unit_test_teardown(test_other_lanes, arrays_free),
        cmocka_unit_test_teardown(test_served, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
