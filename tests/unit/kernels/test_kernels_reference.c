// SPDX-License-Identifier: Apache-2.0
// Every reference kernel but formulas (test_kernels_expression.c), those with windows
// (test_kernels_windows.c) and those on rows (test_kernels_reductions.c), compared with an
// independent double loop in all activation types, with bounds from the types' rounding errors.
// Blocks in any order give the same bits (kernel_fixture.h), and the hash of all results is a
// golden value: the same one for every compiler and instruction set.
#include <math.h>

#include "kernels/base/rng.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

// ---- Elementwise ----

#define COUNT 70001 // two blocks, the second one not full

static void test_fill(void **state) {
    const sr_count_params count = {COUNT};
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t], param = parameter_type(dtype);
        test_array *s = array_of(param, 1, (const double[]){-0.7}), *fill = array_new(dtype, COUNT);
        KERNEL_RUN(fill_by, count, s, fill);
        for (int64_t i = 0; i < COUNT; i++)
            assert_true(array_get(fill, i) == round_to(dtype, array_get(s, 0)));
        arrays_free(state);
    }
}

static void test_nan_stays_nan(void **state) {
    const sr_count_params one = {1};
    const sr_pool_params pool = {1, 1, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0, 0, 0, 0, 0};
    (void)state;
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        test_array *x = array_of(dtype, 3, (const double[]){1, (double)NAN, 2});
        test_array *v = array_of(dtype, 1, (const double[]){(double)NAN});
        test_array *y = array_new(dtype, 1), *index = array_new(SR_U8, 1);
        KERNEL_RUN(relu, one, v, y);
        assert_true(isnan(array_get(y, 0)));
        KERNEL_RUN(maxpool2d, pool, x, y, index);
        assert_true(isnan(array_get(y, 0)));
        assert_int_equal(1, (int)array_get(index, 0));
    }
}

static void test_dropout(void **state) {
    const sr_dropout_params p = {.count = COUNT, .probability = 0.3, .scope = 77};
    const double key_values[] = {-5, 12, 1000, 3};
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        test_array *x = array_random(dtype, COUNT, 1, 1, 2), *y = array_new(dtype, COUNT);
        test_array *key = array_of(SR_I32, 4, key_values);
        int64_t dropped = 0;
        KERNEL_RUN(dropout, p, x, key, y);
        for (int64_t i = 0; i < COUNT; i++) {
            const uint64_t seed = (uint64_t)12 << 32 | (uint32_t)-5;
            const sr_rng4 draw = sr_philox(seed, (uint32_t)(i / 4), 77, 1000, 3);
            const bool keep = (double)sr_rng_unit(draw.v[i % 4]) >= 0.3;
            assert_near("dropout", i, dtype, array_get(y, i), keep ? array_get(x, i) / 0.7 : 0, 2,
                        3);
            dropped += !keep;
        }
        assert_true(fabs((double)dropped / COUNT - 0.3) < 0.01);
        arrays_free(state);
    }
}

// The draws of samples are those of dropout's elements.
static void test_drop_path(void **state) {
    const sr_drop_path_params p = {.samples = 999, .size = 3, .probability = 0.3, .scope = 77};
    const sr_dropout_params one = {.count = 999, .probability = 0.3, .scope = 77};
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        test_array *key = array_of(SR_I32, 4, (const double[]){-5, 12, 1000, 3});
        test_array *x = array_random(dtype, 999, 1, 1, 2), *y = array_new(dtype, 999);
        test_array *wide = array_new(dtype, 2997), *got = array_new(dtype, 2997);
        for (int64_t i = 0; i < wide->count; i++)
            array_set(wide, i, array_get(x, i / 3));
        KERNEL_RUN(dropout, one, x, key, y);
        KERNEL_RUN(drop_path, p, wide, key, got);
        for (int64_t i = 0; i < wide->count; i++)
            assert_true(array_get(got, i) == array_get(y, i / 3));
        arrays_free(state);
    }
}

static void test_random_normal(void **state) {
    const sr_dropout_params p = {.count = COUNT, .scope = 9};
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        test_array *key = array_of(SR_I32, 4, (const double[]){7, 0, 5, 2});
        test_array *y = array_new(dtype, COUNT);
        double sum = 0, squares = 0;
        KERNEL_RUN(random_normal, p, key, y);
        for (int64_t i = 0; i < COUNT; i++) {
            const sr_rng4 draw = sr_philox(7, (uint32_t)(i / 2), 9, 5, 2);
            const double u = (draw.v[0] + 0.5) * 0x1p-32, angle = draw.v[1] * 0x1p-31 * acos(-1.0);
            const double want = sqrt(-2 * log(u)) * (i % 2 ? sin(angle) : cos(angle));
            assert_near("random_normal", i, dtype, array_get(y, i), want, 32, 1);
            sum += want;
            squares += want * want;
        }
        assert_true(fabs(sum / COUNT) < 0.02 && fabs(squares / COUNT - 1) < 0.02);
        arrays_free(state);
    }
}

static void test_normalize(void **state) {
    sr_normalize_params p = {.rows = 23000, .channels = 3};
    const int64_t n = p.rows * p.channels;
    for (int c = 0; c < 3; c++) {
        p.mean[c] = 120 + c;
        p.inverse_std[c] = (double)(1.0f / (55.0f + (float)c));
    }
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        test_array *x = array_random(SR_U8, n, 1, 0, 256), *y = array_new(dtype, n);
        KERNEL_RUN(normalize, p, x, y);
        for (int64_t i = 0; i < n; i++)
            assert_near("normalize", i, dtype, array_get(y, i),
                        (array_get(x, i) - p.mean[i % 3]) * p.inverse_std[i % 3], 2, 3);
        arrays_free(state);
    }
}

static void test_cast(void **state) {
    const double values[] = {0, 1, -1, 2.5, 100, 77.7, 3.0, 1.00390625, 1.0009765625 + 1e-9, 5e-8};
    const int64_t n = sizeof values / sizeof values[0];
    const sr_count_params p = {n};
    for (int from = 0; from < SR_DTYPE_COUNT; from++) {
        test_array *x = array_of((sr_dtype)from, n, values);
        for (int t = 0; t < 4; t++) {
            test_array *y = array_new(fixture_types[t], n);
            KERNEL_RUN(cast, p, x, y);
            for (int64_t i = 0; i < n; i++)
                assert_near("cast", i, fixture_types[t], array_get(y, i), array_get(x, i), 0, 0);
        }
        test_array *same = array_new((sr_dtype)from, n);
        KERNEL_RUN(cast, p, x, same);
        assert_memory_equal(x->data, same->data, (size_t)n * sr_dtype_size((sr_dtype)from));
        arrays_free(state);
    }
}

// 1 + 2^-8 + 2^-40 is above the midpoint of two bf16: rounding to f32 first would lose that.
static void test_cast_rounds_once(void **state) {
    const double values[] = {1 + 0x1p-8 + 0x1p-40, -(1 + 0x1p-8 + 0x1p-40), 1e300, (double)NAN};
    const sr_count_params p = {4};
    (void)state;
    test_array *x = array_of(SR_F64, 4, values), *y = array_new(SR_BF16, 4);
    KERNEL_RUN(cast, p, x, y);
    assert_true(array_get(y, 0) == 1 + 0x1p-7);
    assert_true(array_get(y, 1) == -(1 + 0x1p-7));
    assert_true(isinf(array_get(y, 2)));
    assert_true(isnan(array_get(y, 3)));
}

// Towards 0, and to the nearest number that exists.
static void test_cast_to_integers(void **state) {
    const double values[] = {0, 2.9, -2.9, 254.999, 255, 256, -1, 3e9, -3e9, (double)NAN, 1e300};
    const double i32[] = {0, 2, -2, 254, 255, 256, -1, 2147483647, -2147483648, 0, 2147483647};
    const double u8[] = {0, 2, 0, 254, 255, 255, 0, 255, 0, 0, 255};
    const int64_t n = sizeof values / sizeof values[0];
    const sr_count_params p = {n};
    for (int t = 0; t < 2; t++) {
        const sr_dtype from = t == 0 ? SR_F64 : SR_F32;
        test_array *x = array_of(from, n, values), *y = array_new(SR_I32, n);
        test_array *z = array_new(SR_U8, n);
        if (from == SR_F32)
            ((float *)x->data)[3] = 254.5F; // 254.999 may be rounded
        KERNEL_RUN(cast, p, x, y);
        KERNEL_RUN(cast, p, x, z);
        for (int64_t i = 0; i < n; i++) {
            assert_true(array_get(y, i) == i32[i]);
            assert_true(array_get(z, i) == u8[i]);
        }
        arrays_free(state);
    }
}

// ---- Rows ----

static void check_rows(int64_t rows, int64_t channels, sr_dtype dtype) {
    const sr_rows_params p = {rows, channels};
    const sr_count_params all = {rows * channels};
    const sr_dtype param = parameter_type(dtype);
    test_array *x = array_random(dtype, rows * channels, 1, -1, 2);
    test_array *b = array_random(param, channels, 2, -1, 1), *y = array_new(dtype, rows * channels);
    test_array *sum = array_new(param, channels), *total = array_new(param, 1);
    double whole = 0;
    KERNEL_RUN(bias_add, p, x, b, y);
    KERNEL_RUN(channel_sum, p, x, sum);
    KERNEL_RUN(reduce_sum, all, x, total);
    for (int64_t c = 0; c < channels; c++) {
        double want = 0;
        for (int64_t m = 0; m < rows; m++) {
            const int64_t i = m * channels + c;
            want += array_get(x, i);
            assert_near("bias_add", i, dtype, array_get(y, i), array_get(x, i) + array_get(b, c), 1,
                        3);
        }
        whole += want;
        // Chains of at most 32 rows, then a tree.
        assert_near("channel_sum", c, param, array_get(sum, c), want, 32 + 20, (double)rows);
    }
    assert_near("reduce_sum", 0, param, array_get(total, 0), whole, 100, (double)(rows * channels));
}

static void test_rows(void **state) {
    for (int t = 0; t < 4; t++) {
        check_rows(1, 1, fixture_types[t]);
        check_rows(2500, 3, fixture_types[t]);
        check_rows(700, 130, fixture_types[t]);
        arrays_free(state);
    }
}

// ---- Batch normalisation ----

typedef struct norm_arrays {
    test_array *x, *dy, *gamma, *beta, *y, *mean, *var, *dx, *dgamma, *dbeta;
} norm_arrays;

static norm_arrays norm_new(const sr_batchnorm_params *p, sr_dtype dtype, double offset,
                            bool affine) {
    const sr_dtype param = parameter_type(dtype);
    const int64_t n = p->rows * p->channels, c = p->channels;
    return (norm_arrays){.x = array_random(dtype, n, 1, offset - 1, offset + 1),
                         .dy = array_random(dtype, n, 2, -1, 1),
                         .gamma = affine ? array_random(param, c, 3, 0.5, 1.5) : NULL,
                         .beta = affine ? array_random(param, c, 4, -1, 1) : NULL,
                         .y = array_new(dtype, n),
                         .mean = array_new(param, c),
                         .var = array_new(param, c),
                         .dx = array_new(dtype, n),
                         .dgamma = array_new(param, c),
                         .dbeta = array_new(param, c)};
}

// Compares one channel with the formulas in double, computed from the kernel's own statistics where
// it reads them. offset / scale of x amplifies the rounding of x - mean.
static void check_channel(const sr_batchnorm_params *p, sr_dtype dtype, const norm_arrays *a,
                          int64_t c, double offset) {
    const sr_dtype param = parameter_type(dtype);
    const double rows = (double)p->rows, slack = 64 * (1 + fabs(offset));
    const double g = a->gamma ? array_get(a->gamma, c) : 1, b = a->beta ? array_get(a->beta, c) : 0;
    double mean = 0, var = 0, dbeta = 0, dgamma = 0;
    for (int64_t m = 0; m < p->rows; m++)
        mean += array_get(a->x, m * p->channels + c) / rows;
    for (int64_t m = 0; m < p->rows; m++) {
        const double d = array_get(a->x, m * p->channels + c) - mean;
        var += d * d / rows;
    }
    assert_near("mean", c, param, array_get(a->mean, c), mean, slack, 1);
    assert_near("var", c, param, array_get(a->var, c), var, slack, 1);
    const double s = 1 / sqrt(var + p->eps);
    for (int64_t m = 0; m < p->rows; m++) {
        const int64_t i = m * p->channels + c;
        const double d = array_get(a->x, i) - mean, dy = array_get(a->dy, i);
        assert_near("batchnorm y", i, dtype, array_get(a->y, i), d * s * g + b, slack, s);
        dbeta += dy;
        dgamma += dy * d * s;
    }
    assert_near("dbeta", c, param, array_get(a->dbeta, c), dbeta, 52, rows);
    assert_near("dgamma", c, param, array_get(a->dgamma, c), dgamma, slack, rows * s);
    for (int64_t m = 0; m < p->rows; m++) {
        const int64_t i = m * p->channels + c;
        const double xhat = (array_get(a->x, i) - mean) * s;
        const double want = g * s * (array_get(a->dy, i) - dbeta / rows - xhat * dgamma / rows);
        assert_near("batchnorm dx", i, dtype, array_get(a->dx, i), want, slack, s * s + s);
    }
}

static void check_batchnorm(int64_t rows, int64_t channels, sr_dtype dtype, double offset,
                            bool affine) {
    const sr_batchnorm_params p = {rows, channels, 1e-5};
    norm_arrays a = norm_new(&p, dtype, offset, affine);
    KERNEL_RUN(batchnorm_train, p, a.x, a.gamma, a.beta, a.y, a.mean, a.var);
    KERNEL_RUN(batchnorm_grad, p, a.x, a.dy, a.gamma, a.mean, a.var, a.dx, a.dgamma, a.dbeta);
    for (int64_t c = 0; c < channels; c++)
        check_channel(&p, dtype, &a, c, offset);
    // The same numbers with given statistics, and in place.
    test_array *given = array_new(dtype, rows * channels);
    KERNEL_RUN(batchnorm_infer, p, a.x, a.gamma, a.beta, a.mean, a.var, given);
    assert_memory_equal(a.y->data, given->data, (size_t)(rows * channels) * sr_dtype_size(dtype));
    KERNEL_RUN(batchnorm_grad, p, a.x, a.dy, a.gamma, a.mean, a.var, a.dy, a.dgamma, a.dbeta);
    assert_memory_equal(a.dx->data, a.dy->data, (size_t)(rows * channels) * sr_dtype_size(dtype));
    KERNEL_RUN(batchnorm_train, p, a.x, a.gamma, a.beta, a.x, a.mean, a.var);
    assert_memory_equal(a.y->data, a.x->data, (size_t)(rows * channels) * sr_dtype_size(dtype));
}

static void test_batchnorm(void **state) {
    for (int t = 0; t < 4; t++) {
        const sr_dtype dtype = fixture_types[t];
        check_batchnorm(3000, 5, dtype, 0, true); // three leaves, the last one short
        check_batchnorm(6, 70, dtype, 0.5, false);
        check_batchnorm(5200, 3, dtype, 0, false);
        arrays_free(state);
    }
    check_batchnorm(4000, 2, SR_F32, 300, true); // the variance suffers no cancellation
    check_batchnorm(4000, 2, SR_F64, 3e4, true);
}

// ---- Losses and metrics ----

static void check_xent(const sr_xent_params *p, sr_dtype dtype) {
    const sr_dtype param = parameter_type(dtype);
    test_array *x = array_random(dtype, p->n * p->k, 1, -20, 20), *labels = array_new(SR_I32, p->n);
    test_array *loss = array_new(param, p->n), *prob = array_new(param, p->n * p->k);
    test_array *dloss = array_random(param, p->n, 2, 0, 2), *dx = array_new(dtype, p->n * p->k);
    for (int64_t n = 0; n < p->n; n++)
        array_set(labels, n, n % 5 == 4 ? -1 : (double)(n * 7 % p->k));
    KERNEL_RUN(softmax_xent, *p, x, labels, loss, prob);
    KERNEL_RUN(softmax_xent_grad, *p, prob, labels, dloss, dx);
    for (int64_t n = 0; n < p->n; n++) {
        const int label = (int)array_get(labels, n);
        double max = -1e9, sum = 0, want = 0;
        for (int64_t k = 0; k < p->k; k++)
            max = fmax(max, array_get(x, n * p->k + k));
        for (int64_t k = 0; k < p->k; k++)
            sum += exp(array_get(x, n * p->k + k) - max);
        for (int64_t k = 0; k < p->k; k++) {
            const int64_t i = n * p->k + k;
            const double log_p = array_get(x, i) - max - log(sum),
                         target = p->smoothing / (double)p->k + (k == label ? 1 - p->smoothing : 0);
            want -= target * log_p;
            assert_near("prob", i, param, array_get(prob, i), exp(log_p), 40, 1);
            assert_near("dlogits", i, dtype, array_get(dx, i),
                        label < 0 ? 0 : array_get(dloss, n) * (exp(log_p) - target), (double)p->k,
                        2);
        }
        assert_near("loss", n, param, array_get(loss, n), label < 0 ? 0 : want, (double)p->k, 60);
    }
}

static void test_xent(void **state) {
    const sr_xent_params cases[] = {{40, 10, 0.0}, {7, 33, 0.1}, {3, 1, 0.5}};
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 4; t++) {
            check_xent(&cases[i], fixture_types[t]);
            arrays_free(state);
        }
}

// Nothing is read or written elsewhere, and nobody takes the result for one.
static void test_wrong_label(void **state) {
    const sr_xent_params p = {3, 4, 0.0};
    (void)state;
    test_array *x = array_random(SR_F32, 12, 1, -1, 1);
    test_array *labels = array_of(SR_I32, 3, (const double[]){0, 3, 4});
    test_array *loss = array_new(SR_F32, 3), *prob = array_new(SR_F32, 12);
    test_array *hits = array_new(SR_F32, 2);
    test_array *xent[] = {x, labels, loss, prob}, *topk[] = {x, labels, hits};
    assert_ok(kernel_try("reference", SR_KERNEL_softmax_xent, &p, sizeof p, 4, xent));
    assert_true(array_get(loss, 0) > 0 && array_get(loss, 1) > 0 && isnan(array_get(loss, 2)));
    assert_ok(kernel_try("reference", SR_KERNEL_topk_hits, &p, sizeof p, 3, topk));
    assert_true(isnan(array_get(hits, 0)) && isnan(array_get(hits, 1)));
}

static void test_topk(void **state) {
    const sr_xent_params p = {6, 7, 0.0};
    const double rows[6][7] = {
        {9, 1, 2, 3, 4, 5, 6}, // label 0: best
        {6, 6, 0, 0, 0, 0, 0}, // label 1: tie, the lower class wins; within the top five
        {7, 6, 5, 4, 3, 2, 1}, // label 5: sixth
        {7, 6, 5, 4, 3, 2, 1}, // label 4: fifth
        {1, 1, 1, 1, 1, 1, 1}, // ignored
        {0, 0, 0, 0, 0, 0, 0}, // label 5: five equal ones before it
    };
    const double labels[6] = {0, 1, 5, 4, -1, 5};
    (void)state;
    for (int t = 0; t < 4; t++) {
        test_array *x = array_of(fixture_types[t], 42, &rows[0][0]);
        test_array *l = array_of(SR_I32, 6, labels), *hits = array_new(SR_F32, 2);
        KERNEL_RUN(topk_hits, p, x, l, hits);
        assert_true(array_get(hits, 0) == 1);
        assert_true(array_get(hits, 1) == 3);
    }
}

// ---- Updates ----

// Three steps of the formulas in torch.optim.SGD's documentation.
static void check_sgd(double momentum, double decay, bool nesterov, double dampening) {
    const int64_t n = 66000;
    const sr_count_params p = {n};
    test_array *w = array_random(SR_F32, n, 1, -1, 1), *m = array_new(SR_F32, n);
    double *want = zeros(n), *buffer = zeros(n);
    for (int64_t i = 0; i < n; i++)
        want[i] = array_get(w, i);
    for (int step = 0; step < 3; step++) {
        const double hyper[8] = {0.1, momentum, decay, nesterov, 0.25, dampening, step == 0, 0};
        test_array *g = array_random(SR_F32, n, (uint32_t)step + 2, -4, 4);
        test_array *h = array_of(SR_F32, 8, hyper);
        KERNEL_RUN(sgd, p, w, m, g, h);
        for (int64_t i = 0; i < n; i++) {
            const double grad = array_get(g, i) * 0.25 + decay * want[i];
            buffer[i] = step == 0 ? grad : momentum * buffer[i] + (1 - dampening) * grad;
            const double move = momentum == 0 ? grad
                                : nesterov    ? grad + momentum * buffer[i]
                                              : buffer[i];
            want[i] -= 0.1 * move;
            assert_near("sgd", i, SR_F32, array_get(w, i), want[i], 20, 3);
        }
    }
    test_free(want);
    test_free(buffer);
}

static void test_sgd(void **state) {
    check_sgd(0.0, 0.0, false, 0.0);
    check_sgd(0.9, 0.0, false, 0.0);
    check_sgd(0.9, 5e-2, true, 0.0);
    arrays_free(state);
    check_sgd(0.8, 1e-2, false, 0.3);
    check_sgd(0.0, 1e-2, false, 0.0);
}

static void test_ema(void **state) {
    const sr_count_params p = {COUNT};
    (void)state;
    test_array *e = array_random(SR_F32, COUNT, 1, -1, 1),
               *w = array_random(SR_F32, COUNT, 2, -1, 1);
    test_array *hyper = array_of(SR_F32, 8, (const double[]){0.9, 0.1, 0.25, 0, 0, 0, 0, 0});
    double *want = zeros(COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        want[i] = 0.9 * array_get(e, i) + 0.1 * (0.25 * array_get(w, i));
    KERNEL_RUN(ema, p, e, w, hyper);
    for (int64_t i = 0; i < COUNT; i++)
        assert_near("ema", i, SR_F32, array_get(e, i), want[i], 4, 1);
    test_free(want);
}

static void test_limit(void **state) {
    const double values[] = {-3, -2, -0.5, 0, 0.5, 2, 3, HUGE_VAL, -HUGE_VAL, (double)NAN};
    const double want[] = {-2, -2, -0.5, 0, 0.5, 2, 2, 2, -2};
    const sr_count_params p = {10};
    (void)state;
    test_array *g = array_of(SR_F32, 10, values);
    KERNEL_RUN(limit, p, g, array_of(SR_F32, 8, (const double[]){2, 0, 0, 0, 0, 0, 0, 0}));
    for (int i = 0; i < 9; i++)
        assert_true(array_get(g, i) == want[i]);
    assert_true(isnan(array_get(g, 9)));
}

// Values whose squares are no f32, and are larger than the largest one.
static void test_add_squares(void **state) {
    const int64_t n = 2 * 65536 + 1025;
    const sr_count_params p = {n};
    (void)state;
    test_array *x = array_random(SR_F32, n, 1, -1e30, 1e30);
    test_array *s = array_of(SR_F64, 1, (const double[]){5e62});
    long double want = 5e62L;
    for (int64_t i = 0; i < n; i++)
        want += (long double)array_get(x, i) * (long double)array_get(x, i);
    KERNEL_RUN(add_squares, p, x, s, NULL);
    assert_true(fabsl((long double)array_get(s, 0) / want - 1) < 1e-14L);
}

// ---- The table ----

static void test_table(void **state) {
    (void)state;
    sr_kernel_request request = {.kernel = SR_KERNEL_relu, .args = 2, .dtype = {SR_I32, SR_I32}};
    sr_prepared prepared;
    assert_status(SR_E_UNSUPPORTED, sr_kernel_prepare(&request, &prepared));
    assert_message("relu (i32, i32)");
    assert_message("cpu");
    request.args = 3;
    assert_status(SR_E_INTERNAL, sr_kernel_prepare(&request, &prepared));
    request = (sr_kernel_request){.kernel = SR_KERNEL_relu, .args = 2, .params = {4}};
    assert_null(sr_kernel_find_in(&request, "no such provider"));
    assert_string_equal("relu/reference", sr_kernel_find_in(&request, "reference")->name);
    assert_string_equal("relu", sr_kernel_name(SR_KERNEL_relu));
    assert_string_equal("?", sr_kernel_name(SR_KERNEL_COUNT));
    assert_non_null(strstr(sr_kernel_doc(SR_KERNEL_relu), "max(x, 0)"));
    test_array *x = array_of(SR_F32, 4, (const double[]){-1, 2, -3, 4}), *y = array_new(SR_F32, 4);
    assert_ok(sr_kernel_prepare(&request, &prepared));
    assert_ok(sr_prepared_run(&prepared, &request, (void *[]){x->data, y->data}, NULL, NULL));
    sr_prepared_release(&prepared);
    assert_true(array_get(y, 0) == 0 && array_get(y, 3) == 4);
}

// Dtypes that no formula combines are refused, for every argument.
static void test_mixed_types_are_refused(void **state) {
    (void)state;
    sr_kernel_request request = {
        .kernel = SR_KERNEL_conv2d, .args = 4, .dtype = {SR_BF16, SR_F32, SR_DTYPE_COUNT, SR_BF16}};
    assert_non_null(sr_kernel_find_in(&request, "reference"));
    for (int i = 0; i < 4; i++) {
        sr_kernel_request wrong = request;
        wrong.dtype[i] = i == 0 || i == 3 ? SR_F16 : SR_F64;
        assert_null(sr_kernel_find_in(&wrong, "reference"));
    }
}

// What the list says about arguments: names, roles, numbers of elements.
static void test_arguments_of_the_list(void **state) {
    (void)state;
    const sr_conv_params p = {
        .n = 2, .h = 5, .w = 4, .c = 6, .k = 8, .r = 3, .s = 1, .p = 3, .q = 2, .groups = 2};
    const int64_t want[] = {240, 72, 0, 96};
    sr_kernel_request request = {
        .kernel = SR_KERNEL_conv2d, .args = 4, .dtype = {SR_F16, SR_F32, SR_DTYPE_COUNT, SR_F16}};
    int count;
    memcpy(request.params, &p, sizeof p);
    const sr_kernel_argument *arguments = sr_kernel_arguments(request.kernel, &count);
    assert_int_equal(4, count);
    assert_string_equal("bias", arguments[2].name);
    assert_int_equal(SR_ARG_OPT, arguments[2].role);
    assert_int_equal(SR_ARG_OUT, arguments[3].role);
    for (int i = 0; i < 4; i++)
        assert_int_equal(want[i], sr_kernel_argument_count(&request, i));
    assert_int_equal(-1, sr_kernel_argument_count(&request, 4));
    assert_int_equal(-1, sr_kernel_argument_count(&request, -1));
    assert_int_equal(SR_F16, sr_kernel_activation(&request));
    assert_true(sr_kernel_fits(&request));
    request.dtype[2] = SR_F32;
    assert_int_equal(8, sr_kernel_argument_count(&request, 2));
    assert_true(sr_kernel_fits(&request));
    request.dtype[1] = SR_DTYPE_COUNT; // not optional
    assert_false(sr_kernel_fits(&request));
    request.kernel = SR_KERNEL_OWN;
    assert_null(sr_kernel_arguments(request.kernel, &count));
    assert_int_equal(0, count);
    assert_int_equal(-1, sr_kernel_argument_count(&request, 0));
    assert_false(sr_kernel_fits(&request));
}

// Runs after all computations.
static void test_digest(void **state) {
    (void)state;
    assert_digest(7, UINT64_C(0xa19ae7da5b6b1bf6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_fill, arrays_free),
        cmocka_unit_test_teardown(test_nan_stays_nan, arrays_free),
        cmocka_unit_test_teardown(test_dropout, arrays_free),
        cmocka_unit_test_teardown(test_random_normal, arrays_free),
        cmocka_unit_test_teardown(test_normalize, arrays_free),
        cmocka_unit_test_teardown(test_cast, arrays_free),
        cmocka_unit_test_teardown(test_cast_rounds_once, arrays_free),
        cmocka_unit_test_teardown(test_cast_to_integers, arrays_free),
        cmocka_unit_test_teardown(test_rows, arrays_free),
        cmocka_unit_test_teardown(test_batchnorm, arrays_free),
        cmocka_unit_test_teardown(test_xent, arrays_free),
        cmocka_unit_test_teardown(test_wrong_label, arrays_free),
        cmocka_unit_test_teardown(test_topk, arrays_free),
        cmocka_unit_test_teardown(test_sgd, arrays_free),
        cmocka_unit_test_teardown(test_ema, arrays_free),
        cmocka_unit_test_teardown(test_limit, arrays_free),
        cmocka_unit_test_teardown(test_add_squares, arrays_free),
        cmocka_unit_test_teardown(test_digest, arrays_free),
        cmocka_unit_test_teardown(test_drop_path, arrays_free),
        cmocka_unit_test_teardown(test_table, arrays_free),
        cmocka_unit_test_teardown(test_mixed_types_are_refused, arrays_free),
        cmocka_unit_test(test_arguments_of_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
