// SPDX-License-Identifier: Apache-2.0
// Reference kernels on rows and along dimensions, compared with loops in double, with infinities
// and NaN where they mean something; the hash of all results is a golden value.
#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

// ---- softmax ----

typedef struct softmax_arrays {
    sr_rows_params p;
    test_array *x, *y, *log_y, *lse, *dy, *dx, *log_dx;
} softmax_arrays;

static softmax_arrays softmax_of(int64_t rows, int64_t channels, sr_dtype dtype) {
    const int64_t n = rows * channels;
    softmax_arrays a = {.p = {rows, channels}};
    a.x = array_random(dtype, n, 1, -20, 20);
    a.dy = array_random(dtype, n, 2, -1, 1);
    a.y = array_new(dtype, n);
    a.log_y = array_new(dtype, n);
    a.lse = array_new(dtype, rows);
    a.dx = array_new(dtype, n);
    a.log_dx = array_new(dtype, n);
    KERNEL_RUN(softmax, a.p, a.x, a.y);
    KERNEL_RUN(log_softmax, a.p, a.x, a.log_y);
    KERNEL_RUN(logsumexp, a.p, a.x, a.lse);
    KERNEL_RUN(softmax_grad, a.p, a.y, a.dy, a.dx);
    KERNEL_RUN(log_softmax_grad, a.p, a.log_y, a.dy, a.log_dx);
    return a;
}

static void check_softmax_row(const softmax_arrays *a, int64_t row, sr_dtype dtype) {
    const int64_t n = a->p.channels, first = row * n;
    double max = -1e9, sum = 0, products = 0, all = 0;
    for (int64_t i = first; i < first + n; i++)
        max = fmax(max, array_get(a->x, i));
    for (int64_t i = first; i < first + n; i++) {
        sum += exp(array_get(a->x, i) - max);
        products += array_get(a->y, i) * array_get(a->dy, i); // of y as it is stored
        all += array_get(a->dy, i);
    }
    for (int64_t i = first; i < first + n; i++) {
        const double log_p = array_get(a->x, i) - max - log(sum), y = array_get(a->y, i);
        const double dy = array_get(a->dy, i), p = exp(array_get(a->log_y, i));
        assert_near("softmax", i, dtype, y, exp(log_p), 60, exp(log_p));
        assert_near("log_softmax", i, dtype, array_get(a->log_y, i), log_p, 40, 40);
        assert_near("softmax_grad", i, dtype, array_get(a->dx, i), y * (dy - products), 40, y);
        assert_near("log_softmax_grad", i, dtype, array_get(a->log_dx, i), dy - p * all, 40,
                    1 + p * (double)n);
    }
    assert_near("logsumexp", row, dtype, array_get(a->lse, row), max + log(sum), 40, 40);
}

// Rows of one element, of less than a leaf of a sum, of several chunks, and several blocks.
static void test_softmax(void **state) {
    static const int64_t shapes[][2] = {{3, 1}, {40, 10}, {700, 101}, {5, 1024}, {3, 5000}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < 4; t++) {
            const softmax_arrays a = softmax_of(shapes[k][0], shapes[k][1], fixture_types[t]);
            for (int64_t row = 0; row < a.p.rows; row++)
                check_softmax_row(&a, row, fixture_types[t]);
            arrays_free(state);
        }
    }
}

static double logsumexp_of_three(sr_dtype dtype, double a, double b, double c) {
    const sr_rows_params p = {1, 3};
    test_array *x = array_of(dtype, 3, (const double[]){a, b, c}), *y = array_new(dtype, 1);
    KERNEL_RUN(logsumexp, p, x, y);
    return array_get(y, 0);
}

static double softmax_of_three(sr_dtype dtype, double a, double b, double c) {
    const sr_rows_params p = {1, 3};
    test_array *x = array_of(dtype, 3, (const double[]){a, b, c}), *y = array_new(dtype, 3);
    KERNEL_RUN(softmax, p, x, y);
    return array_get(y, 1);
}

// As in torch: no element is like a sum of nothing, and NaN stays NaN wherever it is.
static void test_softmax_of_infinities(void **state) {
    const double inf = (double)INFINITY, nan = (double)NAN;
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        assert_true(logsumexp_of_three(dtype, -inf, -inf, -inf) == -inf);
        assert_true(logsumexp_of_three(dtype, -inf, 2, -inf) == 2);
        assert_true(logsumexp_of_three(dtype, 1, inf, -inf) == inf);
        assert_true(isnan(logsumexp_of_three(dtype, nan, 1, 2)));
        assert_true(isnan(logsumexp_of_three(dtype, 1, 2, nan)));
        assert_true(softmax_of_three(dtype, -inf, 2, -inf) == 1);
        assert_true(isnan(softmax_of_three(dtype, -inf, -inf, -inf)));
        assert_true(isnan(softmax_of_three(dtype, inf, 1, 2)));
        assert_true(isnan(softmax_of_three(dtype, 1, 2, nan)));
        assert_true(isnan(softmax_of_three(dtype, nan, 1, 2)));
        arrays_free(state);
    }
}

// ---- extreme, one_hot ----

typedef struct found {
    double value;
    int64_t index;
} found;

// The element that torch's max or min finds.
static found find(const test_array *x, const sr_axis_params *p, int64_t row, int64_t at) {
    found best = {0, -1};
    for (int64_t j = 0; j < p->n; j++) {
        const double v = array_get(x, (row * p->n + j) * p->inner + at);
        const bool beyond = p->least ? v < best.value : v > best.value;
        if (best.index < 0 || (!isnan(best.value) && (beyond || isnan(v))))
            best = (found){v, j};
    }
    return best;
}

static void check_extreme(const sr_axis_params *p, test_array *x) {
    const int64_t results = p->rows * p->inner;
    test_array *y = array_new(x->dtype, results), *index = array_new(SR_I32, results);
    KERNEL_RUN(extreme, *p, x, y, index);
    for (int64_t i = 0; i < results; i++) {
        const found want = find(x, p, i / p->inner, i % p->inner);
        const double got = array_get(y, i);
        assert_true(array_get(index, i) == (double)want.index);
        assert_true(got == want.value || (isnan(got) && isnan(want.value)));
    }
}

// Whole numbers, so that many are equal.
static void test_extreme(void **state) {
    static const int64_t shapes[][3] = {{1, 1, 1},  {9, 5, 1},  {3, 1000, 1},
                                        {2, 33, 3}, {4, 9, 70}, {1, 3, 30000}};
    const double inf = (double)INFINITY;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < 8; t++) {
            const sr_axis_params p = {shapes[k][0], shapes[k][1], shapes[k][2], t % 2, 0};
            const int64_t count = p.rows * p.n * p.inner;
            test_array *x = array_random(fixture_types[t / 2], count, 5, -9, 9);
            for (int64_t i = 0; i < count; i++)
                array_set(x, i, trunc(array_get(x, i)));
            check_extreme(&p, x);
            for (int64_t i = 0; i < count; i += 7)
                array_set(x, i, i % 5 == 0 ? (double)NAN : i % 2 == 0 ? inf : -inf);
            check_extreme(&p, x);
            for (int64_t i = 0; i < count; i++)
                array_set(x, i, p.least ? inf : -inf);
            check_extreme(&p, x);
            arrays_free(state);
        }
    }
}

static void test_one_hot(void **state) {
    const sr_axis_params p = {3, 4, 2, 0, 0};
    const double labels[6] = {0, 3, -1, 2, 4, 2147483647};
    for (int t = 0; t < 4; t++) {
        test_array *index = array_of(SR_I32, 6, labels), *y = array_new(fixture_types[t], 24);
        KERNEL_RUN(one_hot, p, index, y);
        for (int64_t i = 0; i < 24; i++)
            assert_true(array_get(y, i) ==
                        (double)(labels[i / 8 * 2 + i % 2] == (double)(i / 2 % 4)));
        arrays_free(state);
    }
}

// ---- sort_rows ----

// Whether element i of a row is before element k.
static bool is_before(const test_array *x, const sr_sort_params *p, int64_t i, int64_t k) {
    const double a = array_get(x, i), b = array_get(x, k);
    if (isnan(a) || isnan(b))
        return isnan(a) ? isnan(b) && i < k : true;
    if (a != b)
        return p->ascending ? a < b : a > b;
    return i < k;
}

// Each element is before the next one, and before all that are left out; none is there twice.
static void check_sorted_row(const sr_sort_params *p, int64_t row, const test_array *x,
                             const test_array *y, const test_array *index) {
    double *seen = zeros(p->n);
    int64_t last = -1;
    for (int64_t k = row * p->k; k < (row + 1) * p->k; k++) {
        const int64_t i = (int64_t)array_get(index, k), at = row * p->n + i;
        const double got = array_get(y, k), want = array_get(x, at);
        assert_true(i >= 0 && i < p->n && seen[i] == 0);
        assert_true(got == want || (isnan(got) && isnan(want)));
        assert_true(last < 0 || is_before(x, p, last, at));
        seen[i] = 1;
        last = at;
    }
    for (int64_t i = 0; i < p->n; i++)
        assert_true(seen[i] == 1 || is_before(x, p, last, row * p->n + i));
    test_free(seen);
}

static void check_sort(const sr_sort_params *p, const test_array *x) {
    test_array *y = array_new(x->dtype, p->rows * p->k);
    test_array *index = array_new(SR_I32, p->rows * p->k);
    KERNEL_RUN(sort_rows, *p, (test_array *)(uintptr_t)x, y, index);
    for (int64_t row = 0; row < p->rows; row++)
        check_sorted_row(p, row, x, y, index);
}

// Distinct numbers, then many equal ones with zeros of both signs, infinities and NaN.
static void test_sort(void **state) {
    static const sr_sort_params shapes[] = {{1, 1, 1, 0, 0},     {3, 10, 10, 0, 0},
                                            {900, 100, 5, 0, 0}, {2, 2048, 2048, 0, 0},
                                            {1, 5000, 70, 0, 0}, {1, 5000, 5000, 0, 0}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < 8; t++) {
            sr_sort_params p = shapes[k];
            p.ascending = t % 2;
            test_array *x = array_random(fixture_types[t / 2], p.rows * p.n, 6, -8, 8);
            check_sort(&p, x);
            for (int64_t i = 0; i < x->count; i++)
                array_set(x, i, trunc(array_get(x, i)));
            for (int64_t i = 0; i < x->count; i += 9)
                array_set(x, i, i % 5 == 0 ? (double)NAN : (i % 2 ? 1 : -1) * (double)INFINITY);
            check_sort(&p, x);
            arrays_free(state);
        }
    }
}

// Runs after all computations.
static void test_digest(void **state) {
    (void)state;
    assert_digest(7, UINT64_C(0xd0645cc4b09ed387));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_softmax, arrays_free),
        cmocka_unit_test_teardown(test_softmax_of_infinities, arrays_free),
        cmocka_unit_test_teardown(test_extreme, arrays_free),
        cmocka_unit_test_teardown(test_one_hot, arrays_free),
        cmocka_unit_test_teardown(test_sort, arrays_free),
        cmocka_unit_test_teardown(test_digest, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
