// SPDX-License-Identifier: Apache-2.0
// Normalisation over groups of channels and its gradient, compared with the formulas in double: one
// leaf and several, columns that have unequal numbers of terms, and means that are large.
#include <math.h>

#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/norm_sum.h"
#include "tests/unit/support/test_support.h"

typedef struct group_arrays {
    test_array *x, *dy, *gamma, *beta, *y, *mean, *rstd, *dx, *dgamma, *dbeta;
} group_arrays;

static group_arrays groups_new(const sr_groupnorm_params *p, sr_dtype dtype, double offset) {
    const sr_dtype param = parameter_type(dtype);
    const int64_t n = p->samples * p->pixels * p->channels, groups = p->samples * p->groups;
    return (group_arrays){.x = array_random(dtype, n, 1, offset - 1, offset + 1),
                          .dy = array_random(dtype, n, 2, -1, 1),
                          .gamma = array_random(param, p->channels, 3, 0.5, 1.5),
                          .beta = array_random(param, p->channels, 4, -1, 1),
                          .y = array_new(dtype, n),
                          .mean = array_new(param, groups),
                          .rstd = array_new(param, groups),
                          .dx = array_new(dtype, n),
                          .dgamma = array_new(param, p->channels),
                          .dbeta = array_new(param, p->channels)};
}

// Compares group g of sample n with the formulas in double; adds to dgamma and dbeta.
static void check_group(const sr_groupnorm_params *p, sr_dtype dtype, const group_arrays *a,
                        int64_t n, int64_t g, double slack, double *dgamma, double *dbeta) {
    const int64_t width = p->channels / p->groups, count = p->pixels * width;
    double mean = 0, var = 0, plain = 0, product = 0;
#define EACH                                                                                       \
    for (int64_t k = 0, c = g * width, i = n * p->pixels * p->channels + c; k < count;             \
         k++, c = g * width + k % width, i = (n * p->pixels + k / width) * p->channels + c)
    EACH mean += p->uncentred ? 0 : array_get(a->x, i) / (double)count;
    EACH var += pow(array_get(a->x, i) - mean, 2) / (double)count;
    const double s = 1 / sqrt(var + p->eps);
    assert_near("mean", g, SR_F32, array_get(a->mean, n * p->groups + g), mean, slack, 1);
    assert_near("rstd", g, SR_F32, array_get(a->rstd, n * p->groups + g), s, slack, s);
    EACH {
        const double dy = array_get(a->dy, i), xhat = (array_get(a->x, i) - mean) * s;
        assert_near("groupnorm y", i, dtype, array_get(a->y, i),
                    xhat * array_get(a->gamma, c) + array_get(a->beta, c), slack, 4);
        plain += p->uncentred ? 0 : dy * array_get(a->gamma, c) / (double)count;
        product += dy * array_get(a->gamma, c) * xhat / (double)count;
        dgamma[c] += dy * xhat;
        dbeta[c] += dy;
    }
    EACH {
        const double dy = array_get(a->dy, i), xhat = (array_get(a->x, i) - mean) * s;
        const double want = s * (dy * array_get(a->gamma, c) - plain - xhat * product);
        assert_near("groupnorm dx", i, dtype, array_get(a->dx, i), want, slack, 8 * s);
    }
#undef EACH
}

static void check_groupnorm(const sr_groupnorm_params *p, sr_dtype dtype, double offset) {
    const sr_dtype param = parameter_type(dtype);
    const group_arrays a = groups_new(p, dtype, offset);
    const double slack = 64 * (1 + fabs(offset)), rows = (double)(p->samples * p->pixels);
    double dgamma[128] = {0}, dbeta[128] = {0};
    KERNEL_RUN(groupnorm, *p, a.x, a.gamma, a.beta, a.y, a.mean, a.rstd);
    KERNEL_RUN(groupnorm_grad, *p, a.x, a.dy, a.gamma, a.mean, a.rstd, a.dx, a.dgamma, a.dbeta);
    assert_true(p->channels <= 128);
    for (int64_t n = 0; n < p->samples; n++)
        for (int64_t g = 0; g < p->groups; g++)
            check_group(p, dtype, &a, n, g, slack, dgamma, dbeta);
    for (int64_t c = 0; c < p->channels; c++) {
        assert_near("dgamma", c, param, array_get(a.dgamma, c), dgamma[c], slack, 4 * rows);
        assert_near("dbeta", c, param, array_get(a.dbeta, c), dbeta[c], slack, rows);
    }
}

static void test_groupnorm(void **state) {
    static const sr_groupnorm_params cases[] = {
        {.samples = 300, .pixels = 1, .channels = 70, .groups = 1, .eps = 1e-5},
        {.samples = 2, .pixels = 1300, .channels = 10, .groups = 5, .eps = 1e-5},
        {.samples = 3, .pixels = 700, .channels = 4, .groups = 4, .eps = 1e-2},
        {.samples = 2, .pixels = 90, .channels = 80, .groups = 2, .eps = 1e-2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int t = 0; t < 4; t++) {
            sr_groupnorm_params p = cases[i];
            check_groupnorm(&p, fixture_types[t], 0.5);
            p.uncentred = 1;
            check_groupnorm(&p, fixture_types[t], 0);
            arrays_free(state);
        }
    }
    check_groupnorm(&cases[1], SR_F32, 300); // the variance suffers no cancellation
    check_groupnorm(&cases[3], SR_F64, 3e4);
}

// The same bits with a sum before or behind: one leaf of a group and several, with and without what
// may be absent.
static void test_sums(void **state) {
    static const struct {
        sr_groupnorm_params params;
        int64_t drop_rows;
    } cases[] = {
        {{.samples = 12, .pixels = 1, .channels = 70, .groups = 1, .eps = 1e-5}, 4},
        {{.samples = 3, .pixels = 1, .channels = 20005, .groups = 1, .eps = 1e-5}, 1},
        {{.samples = 2, .pixels = 9, .channels = 6, .groups = 3, .eps = 1e-2}, 9},
        {{.samples = 2, .pixels = 350, .channels = 96, .groups = 2, .eps = 1e-2}, 70},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int t = 0; t < 4; t++) {
            sr_groupnorm_params p = cases[i].params;
            p.uncentred = t == 1;
            const group_arrays a = groups_new(&p, fixture_types[t], 0.5);
            check_norm_sum("reference", &(sum_arguments){.params = p,
                                                         .x = a.x,
                                                         .dy = a.dy,
                                                         .gamma = t % 2 == 0 ? a.gamma : NULL,
                                                         .beta = t % 2 == 0 ? a.beta : NULL,
                                                         .drop_rows = cases[i].drop_rows});
            arrays_free(state);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_groupnorm, arrays_free),
        cmocka_unit_test_teardown(test_sums, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
