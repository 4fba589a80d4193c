// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/test_support.h"

#include "tests/unit/kernels/norm_relu.h"

#include <string.h>

#define RUN(kernel, ...)                                                                           \
    kernel_run(p->provider, SR_KERNEL_##kernel, &p->params, sizeof p->params,                      \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

typedef struct norm_problem {
    const char *provider;
    const norm_arguments *n;
    sr_batchnorm_params params;
    sr_dtype type, wide;
    int64_t count;
    test_array *z, *y, *mean, *var; // y, mean, var: of batchnorm_train
    test_array *got, *statistics[2], *signs;
} norm_problem;

// As f32 or f64 add, before the sum is rounded to the type.
static double sum_of(const test_array *a, const test_array *b, int64_t i) {
    const double first = array_get(a, i), second = b ? array_get(b, i) : 0;
    return a->dtype == SR_F64 ? first + second : (double)((float)first + (float)second);
}

// max(y + z, 0); z may be NULL.
static test_array *with_relu(const test_array *y, const test_array *z) {
    test_array *out = array_new(y->dtype, y->count);
    for (int64_t i = 0; i < y->count; i++) {
        const double sum = z ? sum_of(y, z, i) : array_get(y, i);
        array_set(out, i, sum < 0 ? 0 : sum);
    }
    return out;
}

// a + b where y is above 0; b may be NULL.
static test_array *relu_gradient(const test_array *y, const test_array *a, const test_array *b) {
    test_array *out = array_new(y->dtype, y->count);
    for (int64_t i = 0; i < y->count; i++)
        array_set(out, i, array_get(y, i) > 0 ? b ? sum_of(a, b, i) : array_get(a, i) : 0);
    return out;
}

// Of each row, where y is above 0.
static test_array *signs_of(const norm_problem *p, const test_array *y) {
    const int64_t channels = p->n->channels, bytes = (channels + 7) / 8;
    test_array *out = array_new(SR_U8, p->n->rows * bytes);
    memset(out->data, 0, (size_t)out->count);
    for (int64_t i = 0; i < y->count; i++)
        if (array_get(y, i) > 0)
            ((uint8_t *)out->data)[i / channels * bytes + i % channels / 8] |=
                (uint8_t)(1 << i % channels % 8);
    return out;
}

static test_array *copy_of(const test_array *a) {
    test_array *copy = array_new(a->dtype, a->count);
    memcpy(copy->data, a->data, (size_t)a->count * sr_dtype_size(a->dtype));
    return copy;
}

static void assert_bits(const norm_problem *p, const char *what, const test_array *want,
                        const test_array *got) {
    if (memcmp(want->data, got->data, (size_t)want->count * sr_dtype_size(want->dtype)) != 0)
        fail_msg("%s: %s has other bits, %s [%lld, %lld]", p->provider, what,
                 sr_dtype_name(p->type), (long long)p->n->rows, (long long)p->n->channels);
}

// Whether the provider has kernels with the signs of these rows.
static bool has_signs(const norm_problem *p) {
    return strcmp(p->provider, "tensor") != 0 || p->n->channels % 8 == 0;
}

// With signs beside z where there are factors, and without z where there are none.
static void check_forward(const norm_problem *p, test_array *z) {
    const norm_arguments *n = p->n;
    const test_array *want = with_relu(p->y, z), *signs = signs_of(p, want);
    test_array *bits = has_signs(p) && (z != NULL) == (n->gamma != NULL) ? p->signs : NULL;
    RUN(batchnorm_train_relu, n->x, z, n->gamma, n->beta, p->got, p->statistics[0],
        p->statistics[1], bits);
    assert_bits(p, "y of batchnorm_train_relu", want, p->got);
    assert_bits(p, "mean of batchnorm_train_relu", p->mean, p->statistics[0]);
    assert_bits(p, "var of batchnorm_train_relu", p->var, p->statistics[1]);
    if (bits)
        assert_bits(p, "signs of batchnorm_train_relu", signs, bits);
    RUN(batchnorm_infer_relu, n->x, z, n->gamma, n->beta, p->mean, p->var, p->got, bits);
    assert_bits(p, "y of batchnorm_infer_relu", want, p->got);
    if (bits)
        assert_bits(p, "signs of batchnorm_infer_relu", signs, bits);
    test_array *at = copy_of(z ? z : n->x);
    RUN(batchnorm_train_relu, z ? n->x : at, z ? at : NULL, n->gamma, n->beta, at, p->statistics[0],
        p->statistics[1], bits);
    assert_bits(p, "y of batchnorm_train_relu in place", want, at);
    if (bits)
        assert_bits(p, "signs of batchnorm_train_relu in place", signs, bits);
}

// Of x with all factors, and z as it is or the other way about; both are centred and scaled.
static void check_pair(const norm_problem *p) {
    const norm_arguments *n = p->n;
    test_array *gamma = n->gamma ? NULL : array_random(p->wide, n->channels, 93, -0.5, 1.5);
    test_array *beta = n->gamma ? NULL : array_random(p->wide, n->channels, 94, -1, 1);
    test_array *mean = array_new(p->wide, n->channels), *var = array_new(p->wide, n->channels);
    test_array *second = array_new(p->type, p->count), *bits = has_signs(p) ? p->signs : NULL;
    RUN(batchnorm_train, p->z, gamma, beta, second, mean, var);
    const test_array *want = with_relu(p->y, second), *signs = signs_of(p, want);
    RUN(batchnorm_train_pair_relu, n->x, p->z, n->gamma, n->beta, gamma, beta, mean, var, p->got,
        p->statistics[0], p->statistics[1], bits);
    assert_bits(p, "y of batchnorm_train_pair_relu", want, p->got);
    assert_bits(p, "mean of batchnorm_train_pair_relu", p->mean, p->statistics[0]);
    assert_bits(p, "var of batchnorm_train_pair_relu", p->var, p->statistics[1]);
    if (bits)
        assert_bits(p, "signs of batchnorm_train_pair_relu", signs, bits);
    test_array *at = copy_of(p->z);
    RUN(batchnorm_train_pair_relu, n->x, at, n->gamma, n->beta, gamma, beta, mean, var, at,
        p->statistics[0], p->statistics[1], NULL);
    assert_bits(p, "y of batchnorm_train_pair_relu in place", want, at);
}

// The gradients of batchnorm_grad for dz.
typedef struct gradients {
    test_array *dx, *dgamma, *dbeta;
} gradients;

static gradients gradients_of(const norm_problem *p, test_array *dz) {
    const gradients g = {array_new(p->type, p->count), array_new(p->wide, p->n->channels),
                         array_new(p->wide, p->n->channels)};
    RUN(batchnorm_grad, p->n->x, dz, p->n->gamma, p->mean, p->var, g.dx, g.dgamma, g.dbeta);
    return g;
}

static void assert_gradients(const norm_problem *p, const gradients *want, const test_array *dx) {
    assert_bits(p, "dx", want->dx, dx);
    assert_bits(p, "dgamma", want->dgamma, p->statistics[0]);
    assert_bits(p, "dbeta", want->dbeta, p->statistics[1]);
}

static void check_plain_gradient(const norm_problem *p) {
    const norm_arguments *n = p->n;
    const gradients want = gradients_of(p, relu_gradient(with_relu(p->y, NULL), n->dy, NULL));
    RUN(batchnorm_relu_grad, n->x, n->dy, n->gamma, n->beta, p->mean, p->var, p->got,
        p->statistics[0], p->statistics[1]);
    assert_gradients(p, &want, p->got);
    test_array *at = copy_of(n->dy);
    RUN(batchnorm_relu_grad, n->x, at, n->gamma, n->beta, p->mean, p->var, at, p->statistics[0],
        p->statistics[1]);
    assert_gradients(p, &want, at);
}

static void check_shared_gradient(const norm_problem *p, test_array *more) {
    const norm_arguments *n = p->n;
    test_array *y = with_relu(p->y, p->z), *dz = relu_gradient(y, n->dy, more);
    test_array *signs = signs_of(p, y);
    const gradients want = gradients_of(p, dz);
    test_array *got = array_new(p->type, p->count), *at = copy_of(more ? more : n->dy);
    RUN(batchnorm_add_relu_grad, n->x, signs, n->dy, more, n->gamma, p->mean, p->var, got, p->got,
        p->statistics[0], p->statistics[1]);
    assert_bits(p, "dz", dz, got);
    assert_gradients(p, &want, p->got);
    RUN(batchnorm_add_relu_grad, n->x, signs, more ? n->dy : at, more ? at : NULL, n->gamma,
        p->mean, p->var, at, p->got, p->statistics[0], p->statistics[1]);
    assert_bits(p, "dz in place", dz, at);
    assert_gradients(p, &want, p->got);
}

void check_norm_relu(const char *provider, const norm_arguments *n) {
    norm_problem problem = {.provider = provider,
                            .n = n,
                            .params = {n->rows, n->channels, n->eps},
                            .type = n->x->dtype,
                            .wide = parameter_type(n->x->dtype),
                            .count = n->x->count},
                 *p = &problem;
    p->z = array_random(p->type, p->count, 91, -2, 2);
    test_array *more = array_random(p->type, p->count, 92, -1, 1);
    p->y = array_new(p->type, p->count);
    p->got = array_new(p->type, p->count);
    p->signs = signs_of(p, p->y); // of that size
    test_array **const channels[] = {&p->mean, &p->var, &p->statistics[0], &p->statistics[1]};
    for (int i = 0; i < 4; i++)
        *channels[i] = array_new(p->wide, n->channels);
    RUN(batchnorm_train, n->x, n->gamma, n->beta, p->y, p->mean, p->var);
    check_forward(p, NULL);
    check_forward(p, p->z);
    check_pair(p);
    check_plain_gradient(p);
    if (has_signs(p)) {
        check_shared_gradient(p, NULL);
        check_shared_gradient(p, more);
    }
}
