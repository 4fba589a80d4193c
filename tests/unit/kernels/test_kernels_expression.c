// SPDX-License-Identifier: Apache-2.0
// Every row of kernels/expression_list.def: its program is sound, the reference's result is within
// rounding errors of a double formula in all activation types, in place and with inputs that are
// broadcast. A row without a formula here fails. And sum_to against loops in double.
#include <math.h>

#include "kernels/expression.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

#define COUNT 70001 // two blocks, the second one not full
#define ALPHA 0.3   // constants of rows that have attributes
#define BETA 1.25

// ---- Formulas in double, of the inputs x ----

static double cdf(double x) {
    return 0.5 * erfc(-x / sqrt(2.0));
}
static double pdf(double x) {
    return exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
}
static double logistic(double x) {
    return 1 / (1 + exp(-x));
}
static double bent(double x) {
    return tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
}

#define FORMULA(name, value)                                                                       \
    static double of_##name(const double *x) {                                                     \
        return value;                                                                              \
    }
FORMULA(relu, x[0] > 0 ? x[0] : 0)
FORMULA(relu_grad, x[0] > 0 ? x[1] : 0)
FORMULA(gelu, x[0] * cdf(x[0]))
FORMULA(gelu_grad, x[1] * (cdf(x[0]) + x[0] * pdf(x[0])))
FORMULA(leaky_relu, x[0] > 0 ? x[0] : ALPHA * x[0])
FORMULA(add_relu, fmax(x[0] + x[1], 0))
FORMULA(add_relu_grad, x[0] > 0 ? x[1] + x[2] : 0)
FORMULA(leaky_relu_grad, x[0] > 0 ? x[1] : ALPHA * x[1])
FORMULA(tanh, tanh(x[0]))
FORMULA(tanh_grad, x[1] * (1 - x[0] * x[0]))
FORMULA(sigmoid, logistic(x[0]))
FORMULA(sigmoid_grad, x[1] * x[0] * (1 - x[0]))
FORMULA(softplus, x[0] > 30 ? x[0] + exp(-x[0]) : log1p(exp(x[0])))
FORMULA(softplus_grad, x[1] * logistic(x[0]))
FORMULA(silu, x[0] * logistic(x[0]))
FORMULA(silu_grad, x[1] * logistic(x[0]) * (1 + x[0] * (1 - logistic(x[0]))))
FORMULA(gelu_tanh, 0.5 * x[0] * (1 + bent(x[0])))
FORMULA(gelu_tanh_grad, x[1] * (0.5 * (1 + bent(x[0])) +
                                0.5 * x[0] * (1 - bent(x[0]) * bent(x[0])) *
                                    0.79788456080286535588 * (1 + 3 * 0.044715 * x[0] * x[0])))
FORMULA(mish, x[0] * tanh(log1p(exp(x[0]))))
FORMULA(mish_grad,
        x[1] * (tanh(log1p(exp(x[0]))) + x[0] * logistic(x[0]) / pow(cosh(log1p(exp(x[0]))), 2)))
FORMULA(hard_sigmoid, fmin(fmax(x[0] + 3, 0), 6) / 6)
FORMULA(hard_sigmoid_grad, fabs(x[0]) < 3 ? x[1] / 6 : 0)
FORMULA(hard_swish, x[0] * fmin(fmax(x[0] + 3, 0), 6) / 6)
FORMULA(hard_swish_grad, x[0] <= -3 ? 0 : x[0] >= 3 ? x[1] : x[1] * (x[0] / 3 + 0.5))
FORMULA(elu, x[0] > 0 ? x[0] : ALPHA * expm1(x[0]))
FORMULA(elu_grad, x[0] > 0 ? x[1] : x[1] * ALPHA * exp(x[0]))
FORMULA(prelu, x[0] > 0 ? x[0] : x[1] * x[0])
FORMULA(prelu_grad, x[0] > 0 ? x[2] : x[1] * x[2])
FORMULA(log, log(x[0]))
FORMULA(sqrt, sqrt(x[0]))
FORMULA(rsqrt, 1 / sqrt(x[0]))
FORMULA(rsqrt_grad, -0.5 * x[1] * x[0] * x[0] * x[0])
FORMULA(reciprocal, 1 / x[0])
FORMULA(reciprocal_grad, -x[1] * x[0] * x[0])
FORMULA(sin, sin(x[0]))
FORMULA(cos, cos(x[0]))
FORMULA(atan, atan(x[0]))
FORMULA(atan_grad, x[1] / (1 + x[0] * x[0]))
FORMULA(erf, erf(x[0]))
FORMULA(erf_grad, x[1] * 2 / sqrt(acos(-1.0)) * exp(-x[0] * x[0]))
FORMULA(power, pow(x[0], ALPHA))
FORMULA(power_grad, x[1] * ALPHA * pow(x[0], BETA))
FORMULA(pow, pow(x[0], x[1]))
FORMULA(pow_grad, x[1] == 0 ? 0 : x[2] * x[1] * pow(x[0], x[1] - 1))
FORMULA(pow_exponent_grad, x[0] == 0 ? 0 : x[2] * x[1] * log(x[0]))
FORMULA(abs, fabs(x[0]))
FORMULA(abs_grad, x[0] > 0 ? x[1] : x[0] < 0 ? -x[1] : 0)
FORMULA(clip, fmin(fmax(x[0], ALPHA), BETA))
FORMULA(clip_grad, x[0]<ALPHA || x[0]> BETA ? 0 : x[1])
FORMULA(maximum, fmax(x[0], x[1]))
FORMULA(minimum, fmin(x[0], x[1]))
FORMULA(maximum_grad, x[0] > x[1] ? x[2] : x[0] < x[1] ? 0 : x[2] / 2)
FORMULA(greater, x[0] > x[1])
FORMULA(equal, x[0] == x[1])
FORMULA(where, x[0] != 0 ? x[1] : x[2])
FORMULA(mask, x[0] != 0 ? x[1] : 0)
FORMULA(mask_not, x[0] == 0 ? x[1] : 0)
FORMULA(add, x[0] + x[1])
FORMULA(sub, x[0] - x[1])
FORMULA(mul, x[0] * x[1])
FORMULA(div, x[0] / x[1])
FORMULA(div_grad, -x[2] * x[0] / (x[1] * x[1]))
FORMULA(square, x[0] * x[0])
FORMULA(exp, exp(x[0]))
FORMULA(scale, ALPHA *x[0] + BETA)
FORMULA(scale_by, x[1] * x[0])
FORMULA(expand, x[0])

// What is rounded beside the result: inputs, and a number of about 1.
enum { FIRST = 1, SECOND = 2, NUMBER = 4 };

typedef struct formula {
    double (*value)(const double *x);
    double low, high, low_1, high_1; // of the first input, and of the second
    int roundings;
    unsigned beside;
} formula;

#define ROW(name, low, high, roundings, beside)                                                    \
    [SR_KERNEL_##name] = {of_##name, low, high, -2, 2, roundings, beside}
static const formula formulas[SR_KERNEL_COUNT] = {
    ROW(relu, -2, 2, 0, 0),
    ROW(relu_grad, -1, 1, 0, 0),
    ROW(gelu, -6, 6, 8, FIRST),
    ROW(gelu_grad, -6, 6, 8, SECOND),
    ROW(leaky_relu, -2, 2, 2, 0),
    ROW(add_relu, -2, 2, 1, 0),
    ROW(add_relu_grad, -2, 2, 1, 0),
    ROW(leaky_relu_grad, -2, 2, 2, 0),
    ROW(tanh, -10, 10, 8, 0),
    ROW(tanh_grad, -1, 1, 8, SECOND),
    ROW(sigmoid, -80, 80, 8, 0),
    ROW(sigmoid_grad, 0, 1, 8, SECOND),
    ROW(softplus, -60, 60, 8, 0),
    ROW(softplus_grad, -80, 80, 8, 0),
    ROW(silu, -30, 30, 8, 0),
    ROW(silu_grad, -10, 10, 16, SECOND),
    ROW(gelu_tanh, -4, 4, 16, FIRST),
    ROW(gelu_tanh_grad, -4, 4, 24, SECOND),
    ROW(mish, -20, 20, 16, 0),
    ROW(mish_grad, -8, 8, 24, SECOND),
    ROW(hard_sigmoid, -5, 5, 3, NUMBER),
    ROW(hard_sigmoid_grad, -5, 5, 1, 0),
    ROW(hard_swish, -5, 5, 6, FIRST),
    ROW(hard_swish_grad, -5, 5, 4, SECOND),
    ROW(elu, -10, 10, 3, 0),
    ROW(elu_grad, -10, 10, 8, 0),
    ROW(prelu, -2, 2, 1, 0),
    ROW(prelu_grad, -2, 2, 1, 0),
    ROW(log, 1e-3, 9, 2, 0),
    ROW(sqrt, 0, 9, 1, 0),
    ROW(rsqrt, 0.1, 9, 3, 0),
    ROW(rsqrt_grad, 0.1, 3, 4, 0),
    ROW(reciprocal, 0.1, 9, 1, 0),
    ROW(reciprocal_grad, 0.1, 9, 4, 0),
    ROW(sin, -100, 100, 4, NUMBER),
    ROW(cos, -100, 100, 4, NUMBER),
    ROW(atan, -10, 10, 4, 0),
    ROW(atan_grad, -10, 10, 4, 0),
    ROW(erf, -4, 4, 4, 0),
    ROW(erf_grad, -3, 3, 16, 0),
    ROW(power, 0.01, 9, 2, NUMBER),
    ROW(power_grad, 0.01, 9, 4, 0),
    ROW(pow, 0.1, 5, 2, 0),
    ROW(pow_grad, 0.1, 5, 16, 0),
    ROW(pow_exponent_grad, 0.1, 5, 4, SECOND),
    ROW(abs, -2, 2, 0, 0),
    ROW(abs_grad, -2, 2, 0, 0),
    ROW(clip, -2, 2, 1, 0),
    ROW(clip_grad, -2, 2, 0, 0),
    ROW(maximum, -2, 2, 0, 0),
    ROW(minimum, -2, 2, 0, 0),
    ROW(maximum_grad, -2, 2, 1, 0),
    ROW(greater, -2, 2, 0, 0),
    ROW(equal, -2, 2, 0, 0),
    ROW(where, -2, 2, 0, 0),
    ROW(mask, -2, 2, 0, 0),
    ROW(mask_not, -2, 2, 0, 0),
    ROW(add, -3, 3, 1, FIRST | SECOND),
    ROW(sub, -3, 3, 1, FIRST | SECOND),
    ROW(mul, -3, 3, 1, 0),
    [SR_KERNEL_div] = {of_div, -3, 3, 0.5, 2, 1, 0},
    [SR_KERNEL_div_grad] = {of_div_grad, -3, 3, 0.5, 2, 4, 0},
    ROW(square, -3, 3, 1, 0),
    ROW(exp, -9, 9, 8, 0),
    ROW(scale, -2, 2, 3, FIRST | NUMBER),
    [SR_KERNEL_scale_by] = {of_scale_by, -2, 2, -0.7, -0.7, 2, 0},
    ROW(expand, -2, 2, 0, 0),
};

static const sr_kernel_id rows[] = {
#define SR_EXPRESSION(name, ...) SR_KERNEL_##name,
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void test_programs_are_sound(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        const sr_expression *e = sr_expression_of(rows[i]);
        int count;
        const sr_kernel_argument *arguments = sr_kernel_arguments(rows[i], &count);
        assert_non_null(e);
        if (!sr_expression_is_sound(e))
            fail_msg("the program of %s misuses its stack, or is too long",
                     sr_kernel_name(rows[i]));
        assert_int_equal(count - 1, e->inputs);
        assert_in_range(e->inputs, 1, SR_EXPRESSION_INPUTS);
        assert_int_equal(SR_ARG_OUT, arguments[e->inputs].role);
        for (const uint8_t *code = e->code; *code != SR_CODE_END; code++) {
            const bool t = *code >= SR_CODE_X0 && *code <= SR_CODE_X2;
            const bool p = *code >= SR_CODE_P0 && *code <= SR_CODE_P2;
            const int input = t ? *code - SR_CODE_X0 : p ? *code - SR_CODE_P0 : 0;
            assert_true(input < e->inputs);
            if (t || p)
                assert_int_equal(t ? SR_ARG_T : SR_ARG_P, arguments[input].type);
        }
    }
    assert_null(sr_expression_of(SR_KERNEL_conv2d));
    assert_null(sr_expression_of(SR_KERNEL_OWN));
}

static void test_unsound_programs_are_found(void **state) {
    static const sr_expression wrong[] = {
        {.code = {SR_CODE_END}},                            // leaves nothing
        {.code = {SR_CODE_X0, SR_CODE_ADD, SR_CODE_END}},   // takes too much
        {.code = {SR_CODE_X0, SR_CODE_X0, SR_CODE_END}},    // leaves too much
        {.code = {SR_CODE_X0, SR_CODE_COUNT, SR_CODE_END}}, // no opcode
        {.code = {1, 1, 1, 1, 1, 1, 1, 1, 1, SR_CODE_END}}, // too deep
    };
    sr_expression endless = {.code = {SR_CODE_X0}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(sr_expression_is_sound(&wrong[i]));
    memset(endless.code + 1, SR_CODE_NEG, sizeof endless.code - 1);
    assert_false(sr_expression_is_sound(&endless));
    endless.code[SR_EXPRESSION_CODES_MOST - 1] = SR_CODE_END;
    assert_true(sr_expression_is_sound(&endless));
}

// ---- Values ----

static test_array *make_input(sr_kernel_id kernel, int i, sr_dtype dtype, int64_t count) {
    const formula *f = &formulas[kernel];
    int args;
    const sr_dtype own = sr_kernel_argument_dtype(&sr_kernel_arguments(kernel, &args)[i], dtype);
    return array_random(own, count, (uint32_t)(1 + i), i ? f->low_1 : f->low,
                        i ? f->high_1 : f->high);
}

static void check_values(sr_kernel_id kernel, const test_array *const *in, int inputs,
                         const test_array *y) {
    const formula *f = &formulas[kernel];
    for (int64_t i = 0; i < y->count; i++) {
        double x[SR_EXPRESSION_INPUTS] = {0};
        for (int k = 0; k < inputs; k++)
            x[k] = array_get(in[k], in[k]->count == 1 ? 0 : i);
        const double want = f->value(x);
        assert_near(sr_kernel_name(kernel), i, y->dtype, array_get(y, i), want, f->roundings,
                    fabs(want) + (f->beside & FIRST ? fabs(x[0]) : 0) +
                        (f->beside & SECOND ? fabs(x[1]) : 0) + (f->beside & NUMBER ? 1.25 : 0));
    }
}

static void check_row(sr_kernel_id kernel, sr_dtype dtype) {
    const sr_expression_params p = {.count = COUNT, .constant = {ALPHA, BETA}};
    const int inputs = sr_expression_of(kernel)->inputs;
    sr_kernel_request request = {.kernel = kernel, .args = inputs + 1};
    test_array *args[SR_EXPRESSION_INPUTS + 1], *y = array_new(dtype, COUNT);
    memcpy(request.params, &p, sizeof p);
    for (int i = 0; i < inputs; i++)
        args[i] = make_input(kernel, i, dtype, sr_kernel_argument_count(&request, i));
    args[inputs] = y;
    kernel_run("reference", kernel, &p, sizeof p, inputs + 1, args);
    check_values(kernel, (const test_array *const *)args, inputs, y);
    for (int i = 0; i < inputs; i++) { // in place of each input
        if (args[i]->dtype != dtype || args[i]->count != COUNT)
            continue;
        test_array *again[SR_EXPRESSION_INPUTS + 1];
        for (int k = 0; k < inputs; k++)
            again[k] = make_input(kernel, k, dtype, sr_kernel_argument_count(&request, k));
        again[inputs] = again[i];
        kernel_run("reference", kernel, &p, sizeof p, inputs + 1, again);
        assert_memory_equal(again[i]->data, y->data, (size_t)COUNT * sr_dtype_size(dtype));
    }
}

static void test_rows(void **state) {
    for (int i = 0; i < ROWS; i++) {
        if (formulas[rows[i]].value == NULL)
            fail_msg("%s has no formula in %s", sr_kernel_name(rows[i]), __FILE__);
        for (int t = 0; t < 4; t++) {
            check_row(rows[i], fixture_types[t]);
            arrays_free(state);
        }
    }
}

// ---- Broadcasting ----

typedef struct repeats_case {
    int dims;
    int64_t dim[SR_EXPRESSION_DIMS];
    uint8_t repeated[2]; // bit d: the input has extent 1 there
} repeats_case;

static const repeats_case repeats_cases[] = {
    {2, {37, 5}, {0, 1}},
    {2, {37, 5}, {0, 2}},
    {2, {37, 5}, {1, 2}},
    {1, {1000}, {0, 1}},
    {1, {1000}, {1, 0}},
    {3, {7, 11, 13}, {0, 2}},
    {3, {7, 11, 13}, {5, 2}},
    {4, {3, 5, 2, 300}, {2, 13}},
    {5, {2, 3, 5, 7, 11}, {10, 5}},
    {2, {300, 259}, {1, 0}},
    {2, {1, 9}, {1, 0}},
    {2, {259, 300}, {2, 1}},
    // the last dimension is whole vectors of a device
    {3, {6, 5, 16}, {0, 3}},
    {2, {37, 24}, {0, 2}},
    {4, {2, 3, 4, 8}, {5, 2}},
    {2, {9, 16}, {1, 0}},
};

static int64_t count_of(const repeats_case *c, uint8_t repeated) {
    int64_t n = 1;
    for (int d = 0; d < c->dims; d++)
        n *= repeated >> d & 1 ? 1 : c->dim[d];
    return n;
}

// The element of an input beside element i of the output.
static int64_t place_of(const repeats_case *c, uint8_t repeated, int64_t i) {
    int64_t place = 0, stride = 1;
    for (int d = c->dims - 1; d >= 0; d--) {
        if (!(repeated >> d & 1)) {
            place += i % c->dim[d] * stride;
            stride *= c->dim[d];
        }
        i /= c->dim[d];
    }
    return place;
}

static test_array *expanded(const repeats_case *c, uint8_t repeated, const test_array *x) {
    test_array *out = array_new(x->dtype, count_of(c, 0));
    for (int64_t i = 0; i < out->count; i++)
        array_set(out, i, array_get(x, place_of(c, repeated, i)));
    return out;
}

// Inputs that are repeated give the bits of inputs that were expanded before. A third input is
// repeated as the first one is.
static void check_repeats(sr_kernel_id kernel, const repeats_case *c, sr_dtype dtype) {
    sr_expression_params p = {.count = count_of(c, 0), .constant = {ALPHA, BETA}};
    const sr_expression_params whole = p;
    p.dims = (uint8_t)c->dims;
    memcpy(p.dim, c->dim, sizeof p.dim);
    const int inputs = sr_expression_of(kernel)->inputs;
    test_array *in[SR_EXPRESSION_INPUTS + 1], *all[SR_EXPRESSION_INPUTS + 1];
    for (int i = 0; i < inputs; i++) {
        p.repeated[i] = c->repeated[i % 2];
        in[i] = make_input(kernel, i, dtype, count_of(c, p.repeated[i]));
        all[i] = expanded(c, p.repeated[i], in[i]);
    }
    in[inputs] = array_new(dtype, p.count);
    all[inputs] = array_new(dtype, p.count);
    kernel_run("reference", kernel, &p, sizeof p, inputs + 1, in);
    kernel_run("reference", kernel, &whole, sizeof whole, inputs + 1, all);
    assert_memory_equal(all[inputs]->data, in[inputs]->data,
                        (size_t)p.count * sr_dtype_size(dtype));
}

static void test_inputs_are_repeated(void **state) {
    for (int i = 0; i < ROWS; i++) {
        int count;
        const sr_kernel_argument *arguments = sr_kernel_arguments(rows[i], &count);
        if (count < 3 || arguments[1].type != SR_ARG_T)
            continue;
        for (size_t k = 0; k < sizeof repeats_cases / sizeof repeats_cases[0]; k++) {
            check_repeats(rows[i], &repeats_cases[k], fixture_types[k % 4]);
            arrays_free(state);
        }
    }
}

// ---- sum_to ----

// Of x, and of the products x w, which are not rounded to the type of x and w.
static void check_sum(const repeats_case *c, uint8_t repeated, sr_dtype dtype, bool products) {
    sr_expression_params p = {.count = count_of(c, 0), .dims = (uint8_t)c->dims};
    memcpy(p.dim, c->dim, sizeof p.dim);
    p.repeated[0] = repeated;
    const int64_t sums = count_of(c, repeated);
    test_array *x = array_random(dtype, p.count, 1, -1, 1), *y = array_new(dtype, sums);
    test_array *w = products ? array_random(dtype, p.count, 2, -1, 1) : NULL;
    double *want = zeros(sums);
    KERNEL_RUN(sum_to, p, x, w, y);
    for (int64_t i = 0; i < p.count; i++)
        want[place_of(c, repeated, i)] += array_get(x, i) * (w ? array_get(w, i) : 1);
    for (int64_t i = 0; i < sums; i++)
        assert_near("sum_to", i, dtype, array_get(y, i), want[i], 48,
                    (double)p.count / (double)sums);
    test_free(want);
}

static void test_sums_of_repeats(void **state) {
    for (size_t k = 0; k < sizeof repeats_cases / sizeof repeats_cases[0]; k++) {
        for (int t = 0; t < 4; t++) {
            for (int i = 0; i < 4; i++)
                check_sum(&repeats_cases[k], repeats_cases[k].repeated[i % 2], fixture_types[t],
                          i >= 2);
            arrays_free(state);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs_are_sound),
        cmocka_unit_test(test_unsound_programs_are_found),
        cmocka_unit_test_teardown(test_rows, arrays_free),
        cmocka_unit_test_teardown(test_inputs_are_repeated, arrays_free),
        cmocka_unit_test_teardown(test_sums_of_repeats, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
