// SPDX-License-Identifier: Apache-2.0
// Attention by tensor cores (numerics class "mma") on the test's device, beside sums in f64 of the
// same inputs: tokens and depths with every remainder of 8, 16 and 64, with and without a bias.
// Repeated runs with other contents of the workspace have the same bits, and so has each of several
// lanes side by side as alone.
//
// The bounds, with u = 2^-24, v = 2^-23 for each addition of tensor cores, which round toward zero,
// and r the roundoff of the activations, to which weights are rounded, too (f16 also by 2^-25):
//   score: the sum of D products is wrong by (D + 2) v of their absolute values, the factors by 4 u
//     of them; a bias, and what is subtracted (lse, or the largest score), by 4 u of their sizes.
//   weight: relatively, by the score's error, and 2^-22 of the exponential; in the forward pass by
//     another 2^-22 + 3 u for each tile of 64 keys, which changes what weights are relative to.
//   sums of n weights by n u, of n weighted rows by (n + 2) v of their absolute values.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"

#define MMA "mma"
#define U 0x1p-24
#define V 0x1p-23
static const sr_dtype types[] = {SR_BF16, SR_F16};
enum { TYPES = 2, TILE = 64 };

static bool is_skipped(void) {
    if (provider_of_test(MMA))
        return false;
    test_skip("this device has no kernels of class " MMA);
    return true;
}

// ---- The problems of kernel_cases.c: nothing is written beyond the results ----

static int checked;

void check_problem(const problem *c) {
    sr_kernel_request request = c->request;
    sr_prepared prepared;
    request.device = sr_device_get_properties(device_of_test())->kind;
    const sr_kernel_entry *entry = sr_kernel_find_in(&request, MMA);
    if (!entry)
        return;
    assert_ok(sr_kernel_prepare_as(&request, entry, 0, &prepared));
    arrays inputs = make_inputs(c), first = copy_arrays(c, &inputs),
           again = copy_arrays(c, &inputs);
    device_run(device_of_test(), &prepared, &request, first.p, 0);
    device_run(device_of_test(), &prepared, &request, again.p, 0xff);
    check_guards(c, &first, entry->name);
    assert_same_bits(c, &again, &first, entry->name, "another run");
    sr_prepared_release(&prepared);
    free_arrays(&inputs);
    free_arrays(&first);
    free_arrays(&again);
    checked++;
}

static void test_problems(void **state) {
    (void)state;
    if (is_skipped())
        return;
    for (size_t i = 0; i < provider_of_test(MMA)->count; i++) {
        const sr_kernel_id kernel = provider_of_test(MMA)->entries[i].kernel;
        const int before = checked;
        kernel_cases[kernel](kernel);
        if (checked == before)
            fail_msg("%s has no case", provider_of_test(MMA)->entries[i].name);
    }
}

// ---- Attention in f64 ----

typedef struct attention_case {
    sr_attention_params p;
    sr_dtype type;
    test_array *q, *k, *v, *bias, *y, *lse, *dy, *dq, *dk, *dv, *dbias; // bias: NULL without
} attention_case;

// Element (token, channel) of a head.
static double get(const attention_case *c, const test_array *rows, int64_t head, int64_t token,
                  int64_t channel) {
    const int64_t tokens = rows->count / (c->p.batches * c->p.heads * c->p.depth);
    const int64_t batch = head / c->p.heads;
    return array_get(
        rows, ((batch * tokens + token) * c->p.heads + head % c->p.heads) * c->p.depth + channel);
}

typedef struct number {
    double value, magnitude; // magnitude: the sum of the absolute values of the terms
} number;

static number product(const attention_case *c, const test_array *a, int64_t i, const test_array *b,
                      int64_t j, int64_t head) {
    number sum = {0, 0};
    for (int64_t d = 0; d < c->p.depth; d++) {
        const double term = get(c, a, head, i, d) * get(c, b, head, j, d);
        sum.value += term;
        sum.magnitude += fabs(term);
    }
    return sum;
}

static double bias_of(const attention_case *c, int64_t head, int64_t query, int64_t key) {
    const int64_t batch = head / c->p.heads;
    if (!c->bias)
        return 0;
    return array_get(
        c->bias, ((batch % c->p.biases * c->p.heads + head % c->p.heads) * c->p.queries + query) *
                         c->p.keys +
                     key);
}

typedef struct weight {
    double score, p, error; // p: exp(score - lse); error: of p, relatively
} weight;

static weight weight_of(const attention_case *c, int64_t head, int64_t query, int64_t key,
                        double lse) {
    const number dot = product(c, c->q, query, c->k, key, head);
    const double bias = bias_of(c, head, query, key);
    const double score = c->p.scale * dot.value + bias;
    const double wrong = c->p.scale * dot.magnitude * ((double)(c->p.depth + 2) * V + 4 * U) +
                         4 * U * (fabs(bias) + fabs(lse));
    return (weight){score, exp(score - lse), isfinite(bias) ? expm1(wrong) + 0x1p-22 : 0};
}

// f16 rounds small numbers by this at most.
static double least(const attention_case *c) {
    return c->type == SR_F16 ? 0x1p-25 : 0;
}

static void check(const attention_case *c, const char *what, int64_t i, double got, double want,
                  double bound) {
    const double rounded =
        bound * (1 + unit_roundoff(c->type)) + unit_roundoff(c->type) * fabs(want) + least(c);
    if (!(fabs(got - want) <= rounded))
        fail_msg("%s, %s, %lld queries, %lld keys, %lld channels, element %lld: %.9g, not %.9g "
                 "within %.3g",
                 what, sr_dtype_name(c->type), (long long)c->p.queries, (long long)c->p.keys,
                 (long long)c->p.depth, (long long)i, got, want, rounded);
}

static void check_query(const attention_case *c, int64_t head, int64_t query, weight *weights) {
    const int64_t keys = c->p.keys;
    const double tiles = (double)((keys + TILE - 1) / TILE), r = unit_roundoff(c->type);
    double largest = -(double)INFINITY, sum = 0, error = 0;
    for (int64_t m = 0; m < keys; m++)
        largest = fmax(largest, weight_of(c, head, query, m, 0).score);
    for (int64_t m = 0; m < keys; m++) {
        weights[m] = weight_of(c, head, query, m, largest);
        weights[m].error += tiles * (0x1p-22 + 3 * U);
        sum += weights[m].p;
        error = fmax(error, weights[m].error);
    }
    const double lse = largest + log(sum), of_sum = error + (double)(keys + 4) * U;
    const double got = array_get(c->lse, head * c->p.queries + query);
    if (!(fabs(got - lse) <= of_sum + 4 * U * (fabs(lse) + fabs(largest) + 1)))
        fail_msg("lse of head %lld, query %lld: %.9g, not %.9g", (long long)head, (long long)query,
                 got, lse);
    for (int64_t d = 0; d < c->p.depth; d++) {
        double want = 0, bound = 0;
        for (int64_t m = 0; m < keys; m++) {
            const double v = get(c, c->v, head, m, d), p = weights[m].p / sum;
            want += p * v;
            bound += fabs(v) * (p * (weights[m].error + r + (double)(keys + 2) * V) + least(c));
        }
        check(c, "y", query, get(c, c->y, head, query, d), want, bound + of_sum * fabs(want));
    }
}

typedef struct gradient {
    double p, p_error, d, d_error; // absolute errors, with that of rounding
    double unrounded;              // that of d without it
} gradient;

// From y and lse as they are given.
static gradient gradient_of(const attention_case *c, int64_t head, int64_t query, int64_t key) {
    const double r = unit_roundoff(c->type), terms = (double)c->p.depth;
    const double lse = array_get(c->lse, head * c->p.queries + query);
    const weight w = weight_of(c, head, query, key, lse);
    const number dp = product(c, c->dy, query, c->v, key, head);
    const number mean = product(c, c->dy, query, c->y, query, head);
    const double difference = dp.value - mean.value;
    const double wrong =
        (terms + 2) * V * dp.magnitude + (terms + 4) * U * mean.magnitude + U * fabs(difference);
    gradient g = {w.p, w.p * w.error, w.p * difference, 0, 0};
    g.unrounded = fabs(g.d) * (w.error + U) + w.p * (1 + w.error) * wrong;
    g.d_error = g.unrounded;
    g.d_error += r * (fabs(g.d) + g.d_error) + least(c);
    g.p_error += r * (g.p + g.p_error) + least(c);
    return g;
}

// A result of a token from the gradients of its pairs with 'others'.
static void check_gradient(const attention_case *c, const char *what, int64_t head, int64_t token,
                           const test_array *got, const gradient *all, int64_t step, int64_t others,
                           const test_array *rows) {
    const bool of_p = rows == c->dy;
    const double scale = of_p ? 1 : c->p.scale;
    for (int64_t d = 0; d < c->p.depth; d++) {
        double want = 0, bound = 0;
        for (int64_t i = 0; i < others; i++) {
            const gradient *g = &all[i * step];
            const double x = get(c, rows, head, i, d), w = of_p ? g->p : g->d;
            want += scale * w * x;
            bound += scale * fabs(x) *
                     ((of_p ? g->p_error : g->d_error) + (double)(others + 3) * V * fabs(w));
        }
        check(c, what, token, get(c, got, head, token, d), want, bound);
    }
}

// The sum over all batches that have a bias.
static void check_bias(const attention_case *c) {
    const int64_t keys = c->p.keys, heads = c->p.heads, batches = c->p.batches / c->p.biases;
    for (int64_t i = 0; i < c->dbias->count; i++) {
        const int64_t query = i / keys % c->p.queries, head = i / keys / c->p.queries;
        double want = 0, bound = 0;
        for (int64_t batch = head / heads; batch < c->p.batches; batch += c->p.biases) {
            const gradient g = gradient_of(c, batch * heads + head % heads, query, i % keys);
            want += g.d;
            bound += g.unrounded + (double)batches * U * fabs(g.d);
        }
        const double got = array_get(c->dbias, i);
        if (!(fabs(got - want) <= bound))
            fail_msg("dbias, element %lld: %.9g, not %.9g within %.3g", (long long)i, got, want,
                     bound);
    }
}

static void check_gradients(const attention_case *c, int64_t head) {
    const int64_t queries = c->p.queries, keys = c->p.keys;
    gradient *all = sr_alloc((size_t)(queries * keys) * sizeof *all, "a test's gradients");
    assert_non_null(all);
    for (int64_t i = 0; i < queries * keys; i++)
        all[i] = gradient_of(c, head, i / keys, i % keys);
    for (int64_t n = 0; n < queries; n++)
        check_gradient(c, "dq", head, n, c->dq, all + n * keys, 1, keys, c->k);
    for (int64_t m = 0; m < keys; m++) {
        check_gradient(c, "dk", head, m, c->dk, all + m, keys, queries, c->q);
        check_gradient(c, "dv", head, m, c->dv, all + m, keys, queries, c->dy);
    }
    sr_free(all);
}

#define RUN(kernel, params, ...)                                                                   \
    kernel_run(MMA, SR_KERNEL_##kernel, &(params), sizeof(params),                                 \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

static attention_case make_case(const sr_attention_params *p, sr_dtype type) {
    const int64_t width = p->batches * p->heads * p->depth;
    attention_case c = {.p = *p, .type = type};
    c.p.scale = 1 / sqrt((double)p->depth);
    c.q = array_random(type, width * p->queries, 1, -2, 2);
    c.k = array_random(type, width * p->keys, 2, -2, 2);
    c.v = array_random(type, width * p->keys, 3, -2, 2);
    c.dy = array_random(type, width * p->queries, 4, -1, 1);
    c.y = array_new(type, width * p->queries);
    c.dq = array_new(type, width * p->queries);
    c.dk = array_new(type, width * p->keys);
    c.dv = array_new(type, width * p->keys);
    c.lse = array_new(SR_F32, p->batches * p->heads * p->queries);
    if (p->biases > 0) {
        c.bias = array_random(SR_F32, p->biases * p->heads * p->queries * p->keys, 5, -3, 3);
        c.dbias = array_new(SR_F32, c.bias->count);
    }
    return c;
}

static void run_case(attention_case *c) {
    RUN(attention, c->p, c->q, c->k, c->v, c->bias, c->y, c->lse);
    RUN(attention_grad, c->p, c->q, c->k, c->v, c->y, c->lse, c->dy, c->bias, c->dq, c->dk, c->dv);
    if (c->bias)
        RUN(attention_bias_grad, c->p, c->q, c->k, c->v, c->y, c->lse, c->dy, c->bias, c->dbias);
}

static void check_case(attention_case *c) {
    weight *weights = sr_alloc((size_t)c->p.keys * sizeof *weights, "a test's weights");
    assert_non_null(weights);
    run_case(c);
    for (int64_t head = 0; head < c->p.batches * c->p.heads; head++) {
        for (int64_t query = 0; query < c->p.queries; query++)
            check_query(c, head, query, weights);
        check_gradients(c, head);
    }
    if (c->bias)
        check_bias(c);
    sr_free(weights);
    (void)arrays_free(NULL);
}

// ---- Tests ----

static const sr_attention_params shapes[] = {
    {.batches = 1, .queries = 1, .keys = 1, .heads = 1, .depth = 8},
    {.batches = 2, .queries = 5, .keys = 7, .heads = 2, .depth = 16, .biases = 1},
    {.batches = 6, .queries = 17, .keys = 33, .heads = 1, .depth = 24, .biases = 3},
    {.batches = 1, .queries = 64, .keys = 64, .heads = 2, .depth = 32},
    {.batches = 1, .queries = 65, .keys = 63, .heads = 1, .depth = 64, .biases = 1},
    {.batches = 2, .queries = 16, .keys = 130, .heads = 1, .depth = 64},
    {.batches = 1, .queries = 130, .keys = 16, .heads = 3, .depth = 40, .biases = 1},
    {.batches = 4, .queries = 49, .keys = 49, .heads = 3, .depth = 32, .biases = 2},
    {.batches = 1, .queries = 33, .keys = 70, .heads = 2, .depth = 72},
    {.batches = 1, .queries = 70, .keys = 80, .heads = 1, .depth = 128, .biases = 1},
    {.batches = 5, .queries = 9, .keys = 70, .heads = 2, .depth = 8, .biases = 2},
    {.batches = 67, .queries = 3, .keys = 5, .heads = 2, .depth = 8, .biases = 2}, // slices
    {.batches = 1, .queries = 3, .keys = 300, .heads = 1, .depth = 48},
    {.batches = 1, .queries = 197, .keys = 197, .heads = 1, .depth = 64},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void test_shapes(void **state) {
    (void)state;
    if (is_skipped())
        return;
    for (int i = 0; i < SHAPES; i++) {
        for (int t = 0; t < TYPES; t++) {
            attention_case c = make_case(&shapes[i], types[t]);
            check_case(&c);
        }
    }
}

// A bias of -infinity removes keys: a whole tile, the first one, some of another one.
static void test_masks(void **state) {
    (void)state;
    if (is_skipped())
        return;
    const sr_attention_params p = {
        .batches = 1, .queries = 20, .keys = 150, .heads = 2, .depth = 32, .biases = 1};
    for (int t = 0; t < TYPES; t++) {
        attention_case c = make_case(&p, types[t]);
        for (int64_t i = 0; i < c.bias->count; i++) {
            const int64_t key = i % p.keys, query = i / p.keys % p.queries;
            if (key < TILE || key == TILE + query)
                array_set(c.bias, i, -(double)INFINITY);
        }
        check_case(&c);
    }
}

// A query without keys, or with a NaN, has results that are NaN; others are as they were.
static void test_not_numbers(void **state) {
    (void)state;
    if (is_skipped())
        return;
    const sr_attention_params p = {
        .batches = 1, .queries = 40, .keys = 70, .heads = 1, .depth = 16, .biases = 1};
    enum { WITHOUT = 3, NOT_A_NUMBER = 21 };
    for (int t = 0; t < TYPES; t++) {
        attention_case good = make_case(&p, types[t]), bad = make_case(&p, types[t]);
        for (int64_t key = 0; key < p.keys; key++)
            array_set(bad.bias, WITHOUT * p.keys + key, -(double)INFINITY);
        array_set(bad.q, NOT_A_NUMBER * p.depth + 5, (double)NAN);
        run_case(&good);
        run_case(&bad);
        for (int64_t i = 0; i < good.y->count; i++) {
            const int64_t query = i / p.depth;
            const double y = array_get(bad.y, i), dq = array_get(bad.dq, i);
            if (query == WITHOUT || query == NOT_A_NUMBER)
                assert_true(isnan(y) && isnan(dq));
            else
                assert_true(y == array_get(good.y, i) && dq == array_get(good.dq, i));
        }
        (void)arrays_free(NULL);
    }
}

static void test_lanes(void **state) {
    (void)state;
    if (is_skipped())
        return;
    const sr_attention_params p = {.batches = 2,
                                   .queries = 20,
                                   .keys = 70,
                                   .heads = 2,
                                   .depth = 40,
                                   .biases = 2,
                                   .scale = 0.2};
    for (int t = 0; t < TYPES; t++) {
        for (int lanes = 2; lanes <= 3; lanes++) {
            const sr_kernel_request forward = library_request(SR_KERNEL_attention, types[t], &p,
                                                              sizeof p, true),
                                    backward = library_request(SR_KERNEL_attention_grad, types[t],
                                                               &p, sizeof p, true),
                                    bias = library_request(SR_KERNEL_attention_bias_grad, types[t],
                                                           &p, sizeof p, true);
            // All but the bias.
            const sr_kernel_entry *y = check_lanes(&forward, lanes, 0x37),
                                  *dx = check_lanes(&backward, lanes, 0x3bf),
                                  *db = check_lanes(&bias, lanes, 0xbf);
            assert_true(y && dx && db);
            assert_string_equal(db->numerics_class, MMA);
            assert_string_equal(y->numerics_class, MMA);
            assert_string_equal(dx->numerics_class, MMA);
            (void)arrays_free(NULL);
        }
    }
}

static void test_refused(void **state) {
    (void)state;
    if (is_skipped())
        return;
    const struct {
        sr_dtype type;
        int64_t depth;
        bool serves;
    } cases[] = {
        {SR_F32, 64, false}, {SR_BF16, 12, false}, {SR_F16, 136, false}, {SR_F16, 128, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const sr_attention_params p = {
            .batches = 1, .queries = 5, .keys = 5, .heads = 1, .depth = cases[i].depth, .scale = 1};
        const sr_kernel_request r =
            library_request(SR_KERNEL_attention, cases[i].type, &p, sizeof p, false);
        assert_int_equal(sr_kernel_find_in(&r, MMA) != NULL, cases[i].serves);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problems), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_masks),    cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_lanes),    cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
