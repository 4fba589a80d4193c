// SPDX-License-Identifier: Apache-2.0
// Batch norm with ReLU before max pooling, and the gradient of both, in class "reference" and,
// where the test's device (SERRIED_TEST_DEVICE) has it, in class "tensor": the bits of batch norm
// with ReLU of that class and of pooling what it stores, also of equal numbers, of numbers that are
// rounded to -0, and of what is no number.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"

#define TENSOR "tensor"

#define RUN(provider, kernel, params, ...)                                                         \
    kernel_run(provider, SR_KERNEL_##kernel, params, sizeof *(params),                             \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

typedef enum data_kind { NOISE, FEW_VALUES, SPECIAL, KINDS } data_kind;

typedef struct pool_problem {
    const char *provider;
    sr_norm_pool_params params;
    sr_batchnorm_params norm;
    sr_dtype type;
    test_array *x, *dy, *gamma, *beta, *mean, *var; // gamma, beta: NULL without
} pool_problem;

static test_array *values_of(data_kind kind, sr_dtype type, int64_t count, int64_t channels) {
    test_array *x = array_random(type, count, 7, -2, 2);
    for (int64_t i = 0; i < count; i++) {
        if (kind == FEW_VALUES)
            array_set(x, i, rint(array_get(x, i)));
        if (kind == SPECIAL && i / channels % 29 == 3)
            array_set(x, i,
                      i % 3 == 0   ? (double)NAN
                      : i % 3 == 1 ? (double)INFINITY
                                   : -(double)INFINITY);
    }
    return x;
}

static pool_problem problem_of(const char *provider, const sr_pool_params *pool, sr_dtype type,
                               data_kind kind, bool affine) {
    const int64_t rows = pool->n * pool->h * pool->w, channels = pool->c;
    pool_problem p = {.provider = provider,
                      .params = {.pool = *pool, .eps = 1e-3},
                      .norm = {rows, channels, 1e-3},
                      .type = type};
    const sr_dtype wide = parameter_type(type);
    p.x = values_of(kind, type, rows * channels, channels);
    p.dy = array_random(type, sr_norm_pool_outputs(&p.params), 8, -1, 1);
    p.mean = array_random(wide, channels, 9, -1, 1);
    p.var = array_random(wide, channels, 10, 0.5, 1.5);
    if (affine) {
        p.gamma = array_random(wide, channels, 11, -2, 2);
        p.beta = array_random(wide, channels, 12, -1, 1);
        for (int i = 0; i < 2 && i < channels; i++) { // numbers that are rounded to 0 and -0
            array_set(p.gamma, i, i == 0 ? 1e-9 : 1e-42);
            array_set(p.beta, i, 0);
        }
    }
    return p;
}

// The sign of what is no number follows from how it was compiled.
static bool is_same(const test_array *a, const test_array *b, int64_t i) {
    const size_t bytes = sr_dtype_size(a->dtype);
    return memcmp((char *)a->data + (size_t)i * bytes, (char *)b->data + (size_t)i * bytes,
                  bytes) == 0 ||
           (isnan(array_get(a, i)) && isnan(array_get(b, i)));
}

static void assert_bits(const pool_problem *p, const char *what, const test_array *want,
                        const test_array *got) {
    const sr_pool_params *pool = &p->params.pool;
    for (int64_t i = 0; i < want->count; i++) {
        if (!is_same(want, got, i))
            fail_msg("%s: %s [%lld] is %.9g, not %.9g, %s x [%lld, %lld, %lld, %lld], window %d",
                     p->provider, what, (long long)i, array_get(got, i), array_get(want, i),
                     sr_dtype_name(p->type), (long long)pool->n, (long long)pool->h,
                     (long long)pool->w, (long long)pool->c, pool->window_h);
    }
}

static test_array *like(const test_array *a) {
    return array_new(a->dtype, a->count);
}

// index: of the pooled numbers.
static void check_gradient(const pool_problem *p, test_array *index) {
    test_array *dz = like(p->x), *want[] = {like(p->x), like(p->mean), like(p->mean)};
    test_array *got[] = {like(p->x), like(p->mean), like(p->mean)};
    RUN("reference", maxpool2d_grad, &p->params.pool, p->dy, index, dz);
    RUN(p->provider, batchnorm_relu_grad, &p->norm, p->x, dz, p->gamma, p->beta, p->mean, p->var,
        want[0], want[1], want[2]);
    RUN(p->provider, batchnorm_relu_maxpool_grad, &p->params, p->x, p->dy, index, p->gamma, p->beta,
        p->mean, p->var, got[0], got[1], got[2]);
    assert_bits(p, "dx", want[0], got[0]);
    assert_bits(p, "dgamma", want[1], got[1]);
    assert_bits(p, "dbeta", want[2], got[2]);
}

static void check_problem_of(const pool_problem *p) {
    test_array *y = like(p->x), *mean = like(p->mean), *var = like(p->var);
    test_array *want = like(p->dy), *index = array_new(SR_U8, p->dy->count), *got = like(p->dy);
    test_array *statistics[] = {like(p->mean), like(p->var)}, *other = like(index);
    RUN(p->provider, batchnorm_train_relu, &p->norm, p->x, NULL, p->gamma, p->beta, y, mean, var,
        NULL);
    RUN("reference", maxpool2d, &p->params.pool, y, want, index);
    RUN(p->provider, batchnorm_train_relu_maxpool, &p->params, p->x, p->gamma, p->beta, got,
        statistics[0], statistics[1], other);
    assert_bits(p, "mean", mean, statistics[0]);
    assert_bits(p, "var", var, statistics[1]);
    assert_bits(p, "y in training", want, got);
    assert_bits(p, "index in training", index, other);
    RUN(p->provider, batchnorm_infer_relu, &p->norm, p->x, NULL, p->gamma, p->beta, p->mean, p->var,
        y, NULL);
    RUN("reference", maxpool2d, &p->params.pool, y, want, index);
    RUN(p->provider, batchnorm_infer_relu_maxpool, &p->params, p->x, p->gamma, p->beta, p->mean,
        p->var, got);
    assert_bits(p, "y", want, got);
    check_gradient(p, index);
}

// n, h, w, c, p, q, windows, strides, padding (top, left, bottom, right), gaps
static const sr_pool_params pools[] = {
    {2, 12, 10, 16, 6, 5, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},    // ResNet's
    {2, 11, 9, 24, 6, 5, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},     // odd
    {1, 11, 8, 8, 5, 4, 3, 3, 2, 2, 0, 0, 0, 1, 0, 0},      // padded on one side
    {1, 12, 9, 8, 5, 4, 3, 3, 2, 2, 0, 0, 0, 0, 0, 0},      // pixels in no window
    {3, 7, 8, 32, 3, 4, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0},      // of 2 x 2
    {1, 7, 6, 8, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0},       //
    {1, 1, 1, 8, 1, 1, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},       // one pixel
    {2, 34, 30, 64, 17, 15, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},  // several units
    {1, 140, 120, 64, 70, 60, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0} // groups of units
};
enum { POOLS = sizeof pools / sizeof *pools };

static void check_provider(const char *provider, sr_dtype type, void **state) {
    for (int i = 0; i < POOLS; i++) {
        const int kinds = pools[i].h < 100 ? KINDS : type == SR_BF16 ? 1 : 0; // it is large
        for (int kind = 0; kind < kinds; kind++) {
            const pool_problem p =
                problem_of(provider, &pools[i], type, (data_kind)kind, (i + kind) % 3 != 0);
            check_problem_of(&p);
            (void)arrays_free(state);
        }
    }
}

static void test_reference(void **state) {
    for (int t = 0; t < 4; t++)
        check_provider("reference", fixture_types[t], state);
}

static void test_tensor(void **state) {
    if (!provider_of_test(TENSOR)) {
        test_skip("this device has no kernels of class " TENSOR);
        return;
    }
    for (int t = 0; t < 3; t++)
        check_provider(TENSOR, fixture_types[t], state);
}

// Other channels and windows are left to class "reference".
static void test_what_tensor_refuses(void **state) {
    (void)state;
    static const sr_pool_params others[] = {
        {2, 12, 10, 12, 6, 5, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},
        {2, 12, 10, 16, 12, 10, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0},
        {2, 12, 10, 16, 4, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0},
        {2, 12, 10, 16, 6, 5, 3, 2, 2, 2, 1, 0, 1, 0, 0, 0},
        {2, 12, 10, 16, 5, 4, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1},
    };
    static const sr_kernel_id kernels[] = {SR_KERNEL_batchnorm_train_relu_maxpool,
                                           SR_KERNEL_batchnorm_infer_relu_maxpool,
                                           SR_KERNEL_batchnorm_relu_maxpool_grad};
    if (!provider_of_test(TENSOR)) {
        test_skip("this device has no kernels of class " TENSOR);
        return;
    }
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i <= sizeof others / sizeof *others; i++) {
            const bool fits = i == sizeof others / sizeof *others;
            const sr_norm_pool_params p = {.pool = fits ? pools[0] : others[i], .eps = 1e-3};
            sr_kernel_request request;
            sr_kernel_request_init(&request, SR_DEVICE_CPU, kernels[k], SR_BF16, &p, sizeof p);
            use_device_of(TENSOR, &request);
            assert_true((sr_kernel_find_in(&request, TENSOR) != NULL) == fits);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_reference, arrays_free),
        cmocka_unit_test_teardown(test_tensor, arrays_free),
        cmocka_unit_test(test_what_tensor_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
