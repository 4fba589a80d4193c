// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/test_support.h"

#include "tests/unit/kernels/norm_sum.h"

#include <string.h>

#define RUN(provider, kernel, params, ...)                                                         \
    kernel_run((provider), SR_KERNEL_##kernel, &(params), sizeof(params),                          \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

static const double probability = 0.4;
static const uint32_t scope = 5;

typedef struct sum_problem {
    const char *provider;
    const sum_arguments *n;
    sr_dtype type, wide;
    int64_t rows;
} sum_problem;

static test_array *like(const test_array *a) {
    return array_new(a->dtype, a->count);
}

static test_array *copy_of(const test_array *a) {
    test_array *copy = like(a);
    memcpy(copy->data, a->data, (size_t)a->count * sr_dtype_size(a->dtype));
    return copy;
}

// As f32 or f64 add, before the sum is rounded to the type.
static test_array *sum_of(const test_array *a, const test_array *b) {
    test_array *sum = like(a);
    for (int64_t i = 0; i < a->count; i++) {
        const double x = array_get(a, i), y = array_get(b, i);
        array_set(sum, i, a->dtype == SR_F64 ? x + y : (double)((float)x + (float)y));
    }
    return sum;
}

static void assert_bits(const sum_problem *p, const char *what, const test_array *want,
                        const test_array *got) {
    if (memcmp(want->data, got->data, (size_t)want->count * sr_dtype_size(want->dtype)) != 0)
        fail_msg("%s: %s has other bits, %s [%lld, %lld]", p->provider, what,
                 sr_dtype_name(p->type), (long long)p->rows, (long long)p->n->params.channels);
}

// Results of groupnorm.
typedef struct normalised {
    test_array *s, *y, *mean, *rstd;
} normalised;

static normalised normalised_new(const sum_problem *p) {
    const int64_t groups = p->n->params.samples * p->n->params.groups;
    return (normalised){like(p->n->x), like(p->n->x), array_new(p->wide, groups),
                        array_new(p->wide, groups)};
}

static void check_sum(const sum_problem *p, test_array *b, test_array *key) {
    const sum_arguments *n = p->n;
    const sr_drop_path_params drop = {.samples = p->rows / n->drop_rows,
                                      .size = n->drop_rows * n->params.channels,
                                      .probability = probability,
                                      .scope = scope};
    const sr_add_groupnorm_params params = {.norm = n->params,
                                            .drop_rows = key ? n->drop_rows : 0,
                                            .probability = key ? probability : 0,
                                            .scope = key ? scope : 0};
    normalised want = normalised_new(p), got = normalised_new(p);
    test_array *branch = key ? like(b) : b;
    if (key)
        RUN("reference", drop_path, drop, b, key, branch);
    want.s = sum_of(n->x, branch);
    RUN(p->provider, groupnorm, n->params, want.s, n->gamma, n->beta, want.y, want.mean, want.rstd);
    for (int place = 0; place < 3; place++) { // the sum is written to a, b, or neither
        test_array *first = copy_of(n->x), *second = copy_of(b);
        got.s = place == 0 ? got.s : place == 1 ? first : second;
        RUN(p->provider, add_groupnorm, params, first, second, key, n->gamma, n->beta, got.s, got.y,
            got.mean, got.rstd);
        assert_bits(p, "s of add_groupnorm", want.s, got.s);
        assert_bits(p, "y of add_groupnorm", want.y, got.y);
        assert_bits(p, "mean of add_groupnorm", want.mean, got.mean);
        assert_bits(p, "rstd of add_groupnorm", want.rstd, got.rstd);
    }
}

static void check_gradient(const sum_problem *p, test_array *z) {
    const sum_arguments *n = p->n;
    normalised norm = normalised_new(p);
    test_array *dx = like(n->x), *dgamma[2], *dbeta[2];
    for (int i = 0; i < 2; i++) {
        dgamma[i] = array_new(p->wide, n->params.channels);
        dbeta[i] = array_new(p->wide, n->params.channels);
    }
    RUN(p->provider, groupnorm, n->params, n->x, n->gamma, n->beta, norm.y, norm.mean, norm.rstd);
    RUN(p->provider, groupnorm_grad, n->params, n->x, n->dy, n->gamma, norm.mean, norm.rstd, dx,
        dgamma[0], dbeta[0]);
    const test_array *want = sum_of(z, dx);
    for (int place = 0; place < 3; place++) { // dx is written to dy, z, or neither
        test_array *dy = copy_of(n->dy), *other = copy_of(z);
        test_array *got = place == 0 ? like(z) : place == 1 ? dy : other;
        RUN(p->provider, groupnorm_add_grad, n->params, n->x, dy, other, n->gamma, norm.mean,
            norm.rstd, got, dgamma[1], dbeta[1]);
        assert_bits(p, "dx of groupnorm_add_grad", want, got);
        assert_bits(p, "dgamma of groupnorm_add_grad", dgamma[0], dgamma[1]);
        assert_bits(p, "dbeta of groupnorm_add_grad", dbeta[0], dbeta[1]);
    }
}

void check_norm_sum(const char *provider, const sum_arguments *n) {
    const sum_problem p = {.provider = provider,
                           .n = n,
                           .type = n->x->dtype,
                           .wide = parameter_type(n->x->dtype),
                           .rows = n->params.samples * n->params.pixels};
    test_array *other = array_random(p.type, n->x->count, 91, -2, 2);
    test_array *key = array_of(SR_I32, 4, (const double[]){12345, -7, 3, 1});
    check_sum(&p, other, NULL);
    check_sum(&p, other, key);
    check_gradient(&p, other);
}
