// SPDX-License-Identifier: Apache-2.0
// gather and scatter_add compared with plain loops: indices of every kind, in and out of range, and
// sums of many terms, whose order is the documented one to the bit.
#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

// outer n inner count | per_outer per_inner zeros
static const sr_gather_params cases[] = {
    {3, 7, 5, 11, 0, 0, 0, 0}, {3, 7, 8, 11, 1, 0, 1, 0},   {2, 4, 3, 9, 0, 1, 0, 0},
    {2, 4, 3, 9, 1, 1, 1, 0},  {1, 3, 2, 3000, 0, 0, 0, 0}, {1, 2, 4, 1500, 0, 0, 0, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static const double missing[] = {-1, -2147483648.0, 2147483647};

// Every fifth number is out of range.
static test_array *numbers(const sr_gather_params *p) {
    test_array *index = array_random(SR_I32, sr_gather_lists(p) * p->count, 3, 0, (double)p->n);
    for (int64_t i = 4; i < index->count; i += 5)
        array_set(index, i, i % 4 == 3 ? (double)p->n : missing[i % 4]);
    return index;
}

static int64_t number_of(const sr_gather_params *p, const test_array *index, int64_t o, int64_t j,
                         int64_t i) {
    const int64_t wide = p->per_inner ? p->inner : 1;
    return (int64_t)array_get(index, ((p->per_outer ? o : 0) * p->count + j) * wide +
                                         (p->per_inner ? i : 0));
}

static void check_gather(const sr_gather_params *p, const test_array *x, const test_array *index,
                         const test_array *y) {
    for (int64_t at = 0; at < y->count; at++) {
        const int64_t i = at % p->inner, j = at / p->inner % p->count, o = at / p->inner / p->count;
        const int64_t number = number_of(p, index, o, j, i);
        const double got = array_get(y, at);
        if (number >= 0 && number < p->n)
            assert_true(got == array_get(x, (o * p->n + number) * p->inner + i));
        else
            assert_true(p->zeros ? got == 0 : isnan(got));
    }
}

static void test_gather(void **state) {
    for (int k = 0; k < CASES; k++) {
        for (int t = 0; t < 4; t++) {
            const sr_gather_params p = cases[k];
            test_array *x = array_random(fixture_types[t], p.outer * p.n * p.inner, 1, -2, 2);
            test_array *y = array_new(fixture_types[t], p.outer * p.count * p.inner);
            test_array *index = numbers(&p);
            KERNEL_RUN(gather, p, x, index, y);
            check_gather(&p, x, index, y);
            arrays_free(state);
        }
    }
}

// Terms in order, rounded as the type's sums are.
typedef struct chain {
    double *term;
    int64_t count;
    bool wide;
} chain;

static double add(const chain *c, double a, double b) {
    return c->wide ? a + b : (double)((float)a + (float)b);
}

// Leaves of 32 terms; of more, the first power of two of leaves and the rest.
static double sum_of(const chain *c, int64_t begin, int64_t end) {
    int64_t half = 32;
    double sum = 0;
    if (end - begin <= half) {
        for (int64_t i = begin; i < end; i++)
            sum = add(c, sum, c->term[i]);
        return sum;
    }
    while (2 * half < end - begin)
        half *= 2;
    return add(c, sum_of(c, begin, begin + half), sum_of(c, begin + half, end));
}

static void check_sums(const sr_gather_params *p, const test_array *x, const test_array *index,
                       const test_array *y) {
    chain c = {zeros(p->count), 0, x->dtype == SR_F64};
    for (int64_t at = 0; at < y->count; at++) {
        const int64_t i = at % p->inner, k = at / p->inner % p->n, o = at / p->inner / p->n;
        c.count = 0;
        for (int64_t j = 0; j < p->count; j++)
            if (number_of(p, index, o, j, i) == k)
                c.term[c.count++] = array_get(x, (o * p->count + j) * p->inner + i);
        assert_true(array_get(y, at) == round_to(x->dtype, sum_of(&c, 0, c.count)));
    }
    test_free(c.term);
}

static void test_scatter_add(void **state) {
    for (int k = 0; k < CASES; k++) {
        for (int t = 0; t < 4; t++) {
            const sr_gather_params p = cases[k];
            test_array *x = array_random(fixture_types[t], p.outer * p.count * p.inner, 1, -2, 2);
            test_array *y = array_new(fixture_types[t], p.outer * p.n * p.inner);
            test_array *index = numbers(&p);
            KERNEL_RUN(scatter_add, p, x, index, y);
            check_sums(&p, x, index, y);
            arrays_free(state);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_gather, arrays_free),
        cmocka_unit_test_teardown(test_scatter_add, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
