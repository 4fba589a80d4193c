// SPDX-License-Identifier: Apache-2.0
// Gradients of factors, shifts and statistics are sums of products over many elements. In narrow
// types, too, they are as exact as fp32 sums of the stored numbers: no product is rounded to bf16
// or f16 before it is added.
#include <math.h>

#include "autograd/gradients.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
static const int64_t shapes[][2] = {{117, 2}, {4099, 1}, {231, 64}};
enum { TYPES = 3, SHAPES = 3 };
#define EPS 1e-3

static sr_context *context_new(void) {
    sr_context *context;
    assert_ok(sr_context_create(&(sr_context_options){.threads = 1}, &context));
    sr_context_begin_step(context);
    return context;
}

static sr_tensor tensor_of(sr_context *context, const test_array *a, int rank, const int64_t *dim) {
    sr_info info = {.dtype = a->dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        info.dim[i] = dim[i];
    return sr_constant(context, &info, a->data);
}

static test_array *values_of(sr_tensor gradient, int rank) {
    sr_info info;
    assert_true(sr_tensor_info(gradient, &info));
    assert_int_equal(SR_F32, info.dtype);
    assert_int_equal(rank, info.rank);
    test_array *got = array_new(SR_F32, sr_info_count(&info));
    assert_ok(sr_read(gradient, got->data, (size_t)got->count * sizeof(float)));
    return got;
}

// |got - want| <= 32 2^-24 norm: chains of 32 terms and a tree (test_kernels_sums.c).
static void check(const char *what, sr_dtype type, int64_t c, const test_array *got, double want,
                  double norm) {
    const double error = fabs(array_get(got, c) - want) / norm * 0x1p24;
    if (!(error <= 32))
        fail_msg("%s in %s, channel %lld: %.9g, not %.9g: %.1f roundings", what,
                 sr_dtype_name(type), (long long)c, array_get(got, c), want, error);
}

static void check_batchnorm(sr_dtype type, int64_t rows, int64_t channels) {
    enum { X, GAMMA, BETA, MEAN, VAR, INPUTS };
    const int64_t dim[2] = {rows, channels};
    test_array *v[INPUTS] = {
        array_random(type, rows * channels, 1, -1, 3), array_random(SR_F32, channels, 2, 0.5, 1.5),
        array_random(SR_F32, channels, 3, -1, 1), array_random(SR_F32, channels, 4, 0.5, 1.5),
        array_random(SR_F32, channels, 5, 0.5, 1.5)};
    test_array *dy = array_random(type, rows * channels, 6, -0.5, 1);
    sr_context *context = context_new();
    sr_tensor in[INPUTS], grad[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        in[i] = i == X ? tensor_of(context, v[i], 2, dim) : tensor_of(context, v[i], 1, &dim[1]);
    const sr_tensor y = sr_batchnorm_infer(in[X], in[GAMMA], in[BETA], in[MEAN], in[VAR], EPS);
    sr_gradients(y, tensor_of(context, dy, 2, dim), in, INPUTS, grad);
    const test_array *dgamma = values_of(grad[GAMMA], 1), *dbeta = values_of(grad[BETA], 1),
                     *dmean = values_of(grad[MEAN], 1), *dvar = values_of(grad[VAR], 1);
    for (int64_t c = 0; c < channels; c++) {
        const double s = 1 / sqrt(array_get(v[VAR], c) + EPS), gamma = array_get(v[GAMMA], c);
        double sum = 0, size = 0, product = 0, product_size = 0;
        for (int64_t i = c; i < dy->count; i += channels) {
            const double g = array_get(dy, i), d = array_get(v[X], i) - array_get(v[MEAN], c);
            sum += g;
            size += fabs(g);
            product += g * d;
            product_size += fabs(g * d);
        }
        check("dgamma", type, c, dgamma, s * product, s * product_size);
        check("dbeta", type, c, dbeta, sum, size);
        check("dmean", type, c, dmean, -gamma * s * sum, gamma * s * size);
        check("dvar", type, c, dvar, -0.5 * gamma * s * s * s * product,
              0.5 * gamma * s * s * s * product_size);
    }
    sr_context_free(context);
}

static void check_scale_by(sr_dtype type, int64_t rows, int64_t channels, int rank) {
    const int64_t dim[2] = {rows, channels}, one = 1;
    test_array *x = array_random(type, rows * channels, 1, -1, 3);
    test_array *dy = array_random(type, rows * channels, 2, -0.5, 1);
    test_array *scalar = array_random(SR_F32, 1, 3, 0.5, 1.5);
    sr_context *context = context_new();
    sr_tensor s = tensor_of(context, scalar, rank, &one), grad;
    const sr_tensor y = sr_scale_by(tensor_of(context, x, 2, dim), s);
    sr_gradients(y, tensor_of(context, dy, 2, dim), &s, 1, &grad);
    double product = 0, size = 0;
    for (int64_t i = 0; i < x->count; i++) {
        product += array_get(x, i) * array_get(dy, i);
        size += fabs(array_get(x, i) * array_get(dy, i));
    }
    check("the scalar's gradient", type, 0, values_of(grad, rank), product, size);
    sr_context_free(context);
}

static void test_statistics_of_batchnorm(void **state) {
    for (int t = 0; t < TYPES; t++)
        for (int k = 0; k < SHAPES; k++) {
            check_batchnorm(types[t], shapes[k][0], shapes[k][1]);
            arrays_free(state);
        }
}

static void test_scalar_of_scale_by(void **state) {
    for (int t = 0; t < TYPES; t++) {
        for (int k = 0; k < SHAPES; k++)
            for (int rank = 0; rank < 2; rank++) {
                check_scale_by(types[t], shapes[k][0], shapes[k][1], rank);
                arrays_free(state);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_statistics_of_batchnorm, arrays_free),
        cmocka_unit_test_teardown(test_scalar_of_scale_by, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
