// SPDX-License-Identifier: Apache-2.0
// Elementwise functions in numerics class "tensor" on the test's device (SERRIED_TEST_DEVICE)
// beside double arithmetic, within the bounds of kernels/cuda/tensor_functions.cu: of all bf16 and
// f16, and of fp32 of all magnitudes. Lanes side by side have the bits of each alone.
//
// The bounds of what depends on e = exp(-|w|) = 2^k (1 + q), with u = 2^-24: q = exp(r) - 1 for
// |r| <= 0.35, so that |q| <= 0.42.
//   e: a rounding of r; q has two and the fit's 0.2 u; the sum one: 0.35 + 0.9 + 0.2 + 1 = 2.5 u.
//   1 / (1 + e): a rounding of the sum, and 1.2 u (all numbers of [1, 2]); a wrong e counts by
//     e / (1 + e).
//   sigmoid: for w < 0, e times that: 2.5 + 1 + 1.2 and a rounding, 5.7 u; silu one more.
//   tanh: 1 - e = 1 - 2^k - 2^k q has the errors of q, 2.5 u, which count by 2 / (1 + e) at most:
//     where k = 0, the rest is exact; with the quotient 5 + 1 + 1.2 and a rounding, 8.2 u.
//   gelu_tanh: w has four roundings, by |w| sigmoid'(w) < 0.225; sigmoid's are at most 3.2 u where
//     w > 0, as e counts by half; with the product 0.9 + 3.2 + 1 = 5.1 u of |x|.
//   slopes: sigmoid, and factor sigmoid'(w), at most 0.225 and with gelu_tanh's 0.7, of which e,
//   two
//     quotients, and three or five products are 8 u or 12 u; their sum has one rounding.
// Not all of these meet in one number: tensor_functions.cu has the largest errors of all fp32
// numbers, which are those that are allowed.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"

#define TENSOR "tensor"
static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
enum { TYPES = 3 };

static bool is_skipped(void) {
    if (provider_of_test(TENSOR))
        return false;
    test_skip("this device has no kernels of class " TENSOR);
    return true;
}

// ---- In double arithmetic ----

#define SQRT_8_PI 1.59576912160573071176

static double normal(double x) {
    return erfc(-x * 0.70710678118654752440) / 2;
}
static double sigmoid(double w) {
    return 1 / (1 + exp(-w));
}
static double silu(double x) {
    return x * sigmoid(x);
}
static double gelu(double x) {
    return x * normal(x);
}
static double cubic(double x) {
    return SQRT_8_PI * (x + 0.044715 * x * x * x);
}
static double gelu_tanh(double x) {
    return x * sigmoid(cubic(x));
}

// A number beyond which slopes are 0 or 1; NaN for NaN.
static double near_zero(double x) {
    return isnan(x) ? x : fmax(fmin(x, 700), -700);
}
static double gelu_slope(double at) {
    const double x = near_zero(at);
    return normal(x) + x * exp(-x * x / 2) * 0.39894228040143267794;
}
static double silu_slope(double at) {
    const double x = near_zero(at);
    return sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}
static double gelu_tanh_slope(double at) {
    const double x = near_zero(at), w = cubic(x);
    return sigmoid(w) + SQRT_8_PI * x * (1 + 0.134145 * x * x) * sigmoid(w) * sigmoid(-w);
}

// ---- Cases ----

// What a function's errors are relative to.
typedef enum relation { TO_VALUE, TO_X, TO_DY } relation;

typedef struct function_case {
    sr_kernel_id kernel;
    double (*value)(double x); // or the factor of dy
    relation relation;
    double roundings; // of fp32
} function_case;

static const function_case cases[] = {
    {SR_KERNEL_gelu, gelu, TO_X, 2.7},
    {SR_KERNEL_sigmoid, sigmoid, TO_VALUE, 3.7},
    {SR_KERNEL_silu, silu, TO_VALUE, 4.4},
    {SR_KERNEL_tanh, tanh, TO_VALUE, 4.4},
    {SR_KERNEL_gelu_tanh, gelu_tanh, TO_X, 2.6},
    {SR_KERNEL_gelu_grad, gelu_slope, TO_DY, 4.3},
    {SR_KERNEL_silu_grad, silu_slope, TO_DY, 3.3},
    {SR_KERNEL_gelu_tanh_grad, gelu_tanh_slope, TO_DY, 4.3},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void run(const function_case *c, test_array *x, test_array *dy, test_array *y) {
    const sr_expression_params params = {.count = x->count};
    if (c->relation == TO_DY)
        kernel_run(TENSOR, c->kernel, &params, sizeof params, 3, (test_array *[]){x, dy, y});
    else
        kernel_run(TENSOR, c->kernel, &params, sizeof params, 2, (test_array *[]){x, y});
}

// Of infinity and NaN the values, too; x times the function that is 0 at -infinity is NaN.
static void check_element(const function_case *c, sr_dtype type, int64_t i, double x, double dy,
                          double got) {
    const char *const name = sr_kernel_name(c->kernel);
    const double want = c->value(x);
    if (isnan(want) || (isinf(want) && c->relation != TO_DY)) {
        if (isnan(want) ? !isnan(got) : got != want)
            fail_msg("%s %s of %g: %g", name, sr_dtype_name(type), x, got);
    } else if (c->relation == TO_DY) { // the product makes one rounding more, and so may the limit
        assert_near(name, i, type, got, dy * want, c->roundings + 2, fabs(dy));
    } else {
        // Below, e counts as 0; x times that is 87 times as much.
        const double vanishing = fabs(want) < 0x1p-119 ? 0x1p-119 / 0x1p-24 : 0;
        assert_near(name, i, type, got, want, c->roundings,
                    (c->relation == TO_X ? fabs(x) : fabs(want)) + vanishing);
    }
}

static void check(const function_case *c, sr_dtype type, const test_array *x) {
    test_array *dy = array_random(type, x->count, 5, -2, 2);
    test_array *y = array_new(type, x->count), own = *x;
    run(c, &own, dy, y);
    for (int64_t i = 0; i < x->count; i++)
        check_element(c, type, i, array_get(x, i), array_get(dy, i), array_get(y, i));
}

// ---- Tests ----

// All patterns of 16 bits; of fp32 the same ones with other bits after them.
static test_array *all_numbers(sr_dtype type) {
    enum { PATTERNS = 65536 };
    test_array *x = array_new(type, PATTERNS);
    for (uint32_t i = 0; i < PATTERNS; i++) {
        const uint16_t half = (uint16_t)i;
        const uint32_t word = i << 16 | (i * 40503u & 0xffffu);
        if (type == SR_F32)
            memcpy((char *)x->data + 4 * (size_t)i, &word, sizeof word);
        else
            memcpy((char *)x->data + 2 * (size_t)i, &half, sizeof half);
    }
    return x;
}

static void test_all_numbers(void **state) {
    if (is_skipped())
        return;
    for (int t = 0; t < TYPES; t++) {
        for (int i = 0; i < CASES; i++) {
            check(&cases[i], types[t], all_numbers(types[t]));
            arrays_free(state);
        }
    }
}

// Numbers around which a function is computed in another way.
static void test_near_the_limits(void **state) {
    static const double limits[] = {0, 1, 5.3125, 6, 16, 43.5, 87, 128};
    enum { SIDE = 500 };
    if (is_skipped())
        return;
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        test_array *x = array_new(SR_F32, 4 * SIDE);
        for (int i = 0; i < 4 * SIDE; i++) {
            const double step = fmax(0x1p-21, limits[k] * 0x1p-23);
            const double value = limits[k] + (i % (2 * SIDE) - SIDE) * step;
            array_set(x, i, i < 2 * SIDE ? value : -value);
        }
        for (int i = 0; i < CASES; i++)
            check(&cases[i], SR_F32, x);
        arrays_free(state);
    }
}

// Numbers of elements around those of a vector, each with the bits that it has among many; in
// place, too.
static void test_counts(void **state) {
    enum { MOST = 20 };
    if (is_skipped())
        return;
    for (int t = 0; t < TYPES; t++) {
        for (int i = 0; i < CASES; i++) {
            test_array *x = array_random(types[t], MOST, 3, -4, 4);
            test_array *dy = array_random(types[t], MOST, 4, -2, 2);
            test_array *all = array_new(types[t], MOST);
            run(&cases[i], x, dy, all);
            for (int64_t count = 1; count < MOST; count++) {
                test_array part = *x, part_dy = *dy, *y = array_new(types[t], count);
                part.count = part_dy.count = count;
                run(&cases[i], &part, &part_dy, y);
                assert_memory_equal(y->data, all->data, (size_t)count * sr_dtype_size(types[t]));
            }
            run(&cases[i], x, dy, cases[i].relation == TO_DY ? dy : x);
            assert_memory_equal(cases[i].relation == TO_DY ? dy->data : x->data, all->data,
                                MOST * sr_dtype_size(types[t]));
            arrays_free(state);
        }
    }
}

static void test_lanes(void **state) {
    (void)state;
    if (is_skipped())
        return;
    for (int i = 0; i < CASES; i++) {
        const bool gradient = cases[i].relation == TO_DY;
        const sr_expression_params p = {.count = i % 2 ? 37 : 2048};
        sr_kernel_request lane;
        sr_kernel_request_init(&lane, sr_device_get_properties(device_of_test())->kind,
                               cases[i].kernel, types[1 + i % 2], &p, sizeof p);
        const sr_kernel_entry *entry = check_lanes(&lane, 3, gradient ? 7 : 3);
        (void)arrays_free(NULL);
        if (!entry || !entry->lanes || strcmp(entry->provider, TENSOR) != 0)
            fail_msg("lanes of %s are not served by class " TENSOR,
                     sr_kernel_name(cases[i].kernel));
    }
}

// Inputs that are repeated are left to the reference.
static void test_repeated_inputs(void **state) {
    sr_expression_params p = {.count = 12, .dim = {3, 4}, .dims = 2};
    (void)state;
    if (is_skipped())
        return;
    for (int repeated = 0; repeated < 2; repeated++) {
        sr_kernel_request request;
        p.repeated[1] = (uint8_t)repeated;
        sr_kernel_request_init(&request, sr_device_get_properties(device_of_test())->kind,
                               SR_KERNEL_silu_grad, SR_F32, &p, sizeof p);
        assert_true((sr_kernel_find_in(&request, TENSOR) == NULL) == (repeated == 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_all_numbers, arrays_free),
        cmocka_unit_test_teardown(test_near_the_limits, arrays_free),
        cmocka_unit_test_teardown(test_counts, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
        cmocka_unit_test(test_repeated_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
