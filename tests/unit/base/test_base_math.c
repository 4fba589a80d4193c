// SPDX-License-Identifier: Apache-2.0
// Elementary functions against long double libm: bounds in ulp, and edge cases.
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/base/hash.h"
#include "kernels/base/math.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"

enum { DRAWS = 30000 };

// |got - exact| in units in the last place of 'bits'-bit numbers; subnormals have one fixed ulp.
static double ulps(double got, long double exact, int bits) {
    if ((double)exact == got || (isnan(got) && isnan(exact)))
        return 0.0;
    int exponent, least = bits == 53 ? DBL_MIN_EXP : FLT_MIN_EXP;
    (void)frexpl(exact, &exponent);
    long double ulp = ldexpl(1.0L, (exponent < least ? least : exponent) - bits);
    return (double)(fabsl((long double)got - exact) / ulp);
}

typedef struct function_case {
    const char *name;
    double (*ours)(double);
    long double (*exact)(long double);
    double low, high; // of the argument, or of its logarithm
    int logarithmic;
    double bound;
} function_case;

static void f64_functions(void **state) {
    (void)state;
    static const function_case cases[] = {
        {"exp", sr_exp, expl, -745.0, 709.7, 0, 1.0},
        {"exp", sr_exp, expl, -1.0, 1.0, 0, 1.0},
        {"expm1", sr_expm1, expm1l, -45.0, 709.7, 0, 2.0},
        {"expm1", sr_expm1, expm1l, -2.0, 2.0, 0, 2.0},
        {"expm1", sr_expm1, expm1l, -700.0, 0.0, 1, 1.5},
        {"log", sr_log_f64, logl, -740.0, 709.0, 1, 1.0},
        {"log", sr_log_f64, logl, 0.5, 2.0, 0, 1.0},
        {"log", sr_log_f64, logl, 0.999, 1.001, 0, 1.0},
        {"tanh", sr_tanh, tanhl, -25.0, 25.0, 0, 1.5},
        {"tanh", sr_tanh, tanhl, -0.7, 0.7, 0, 1.5},
        {"tanh", sr_tanh, tanhl, -700.0, 0.0, 1, 1.5},
        {"erf", sr_erf, erfl, -6.5, 6.5, 0, 1.5},
        {"erf", sr_erf, erfl, -1.1, 1.1, 0, 1.5},
        {"sin", sr_sin, sinl, -10.0, 10.0, 0, 2.0},
        {"atan", sr_atan, atanl, -3.0, 3.0, 0, 2.0},
        {"atan", sr_atan, atanl, -0.5, 0.5, 0, 2.0},
        {"atan", sr_atan, atanl, -700.0, 700.0, 1, 2.0},
        {"cos", sr_cos, cosl, -10.0, 10.0, 0, 2.0},
        {"sin", sr_sin, sinl, -262144.0, 262144.0, 0, 4.0},
        {"sin", sr_sin, sinl, 12.0, 43.0, 1, 4.0},
        {"cos", sr_cos, cosl, 12.0, 43.0, 1, 4.0},
    };
    sr_rng rng;
    sr_rng_init(&rng, 5, 0, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int n = 0; n < DRAWS; n++) {
            double x = sr_rng_uniform(&rng, cases[i].low, cases[i].high);
            if (cases[i].logarithmic)
                x = exp(x);
            double error = ulps(cases[i].ours(x), cases[i].exact((long double)x), 53);
            if (!(error <= cases[i].bound))
                fail_msg("%s(%.17g): %.2f ulp", cases[i].name, x, error);
        }
    }
}

static void f32_functions(void **state) {
    (void)state;
    static const struct {
        const char *name;
        float (*ours)(float);
        long double (*exact)(long double);
        double low, high;
    } cases[] = {
        {"expf", sr_expf, expl, -103.9, 88.7},    {"expf", sr_expf, expl, -1.0, 1.0},
        {"logf", sr_logf, logl, 1e-38, 2.0},      {"tanhf", sr_tanhf, tanhl, -10.0, 10.0},
        {"erff", sr_erff, erfl, -4.0, 4.0},       {"expm1f", sr_expm1f, expm1l, -20.0, 88.7},
        {"expm1f", sr_expm1f, expm1l, -0.5, 0.5}, {"sinf", sr_sinf, sinl, -100.0, 100.0},
        {"cosf", sr_cosf, cosl, -100.0, 100.0},   {"atanf", sr_atanf, atanl, -10.0, 10.0},
    };
    sr_rng rng;
    sr_rng_init(&rng, 6, 0, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int n = 0; n < DRAWS; n++) {
            float x = (float)sr_rng_uniform(&rng, cases[i].low, cases[i].high);
            double error = ulps((double)cases[i].ours(x), cases[i].exact((long double)x), 24);
            if (!(error <= 0.51))
                fail_msg("%s(%.9g): %.3f ulp", cases[i].name, (double)x, error);
        }
    }
}

static void powers(void **state) {
    (void)state;
    sr_rng rng;
    sr_rng_init(&rng, 8, 0, 0, 0);
    for (int n = 0; n < DRAWS; n++) {
        double x = exp(sr_rng_uniform(&rng, -20.0, 20.0));
        double y = sr_rng_uniform(&rng, -700.0, 700.0) / fabs(log(x) + 1e-9);
        double error = ulps(sr_pow(x, y), powl((long double)x, (long double)y), 53);
        if (!(error <= 1.5))
            fail_msg("pow(%.17g, %.17g): %.2f ulp", x, y, error);
        const float a = (float)x, b = (float)(y / 9);
        error = ulps((double)sr_powf(a, b), powl((long double)a, (long double)b), 24);
        if (!(error <= 0.51))
            fail_msg("powf(%.9g, %.9g): %.3f ulp", (double)a, (double)b, error);
    }
    for (int n = 0; n < 2000; n++) { // as bias correction uses it
        double error = ulps(sr_pow(0.999, n), powl((long double)0.999, n), 53);
        assert_true(error <= 1.0);
        assert_true(sr_pow(-2.0, n % 1000) == ldexp(n % 2 ? -1.0 : 1.0, n % 1000));
    }
}

// Large arguments against libm's double functions, which reduce exactly (within 1 ulp).
static void huge_angles(void **state) {
    (void)state;
    sr_rng rng;
    sr_rng_init(&rng, 9, 0, 0, 0);
    for (int n = 0; n < DRAWS; n++) {
        double x = exp(sr_rng_uniform(&rng, 12.0, 709.0));
        assert_true(fabs(sr_sin(x) - sin(x)) <= 1e-15 * fabs(sin(x)));
        assert_true(fabs(sr_cos(-x) - cos(x)) <= 1e-15 * fabs(cos(x)));
    }
    // The double nearest to a multiple of pi / 2 (Kahan): 61 leading bits of the fraction cancel.
    // glibc 2.36's own cos is 8 ulp off here; its cosl is right.
    double x = ldexp(6381956970095103.0, 797);
    assert_true(ulps(sr_cos(x), cosl((long double)x), 53) <= 2.0);
}

static void edges(void **state) {
    (void)state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    assert_true(sr_exp(-inf) == 0.0 && sr_exp(inf) == inf && sr_exp(0.0) == 1.0);
    assert_true(sr_exp(710.0) == inf && sr_exp(-746.0) == 0.0 && isnan(sr_exp(nan)));
    assert_true(sr_exp(-745.1) == 0x1p-1074);
    assert_true(sr_expf(INFINITY) == INFINITY && sr_expf(-INFINITY) == 0.0f);
    assert_true(sr_expf(88.75f) == INFINITY && isnan(sr_expf(NAN)) && sr_expf(0.0f) == 1.0f);
    assert_true(sr_log_f64(0.0) == -inf && sr_log_f64(-0.0) == -inf && sr_log_f64(inf) == inf);
    assert_true(isnan(sr_log_f64(-1.0)) && isnan(sr_log_f64(nan)) && sr_log_f64(1.0) == 0.0);
    assert_true(sr_expm1(inf) == inf && sr_expm1(-inf) == -1.0 && isnan(sr_expm1(nan)));
    assert_true(sr_expm1(710.0) == inf && signbit(sr_expm1(-0.0)) && sr_expm1(1e-300) == 1e-300);
    assert_true(sr_logf(0.0f) == -INFINITY && isnan(sr_logf(-1.0f)));
    assert_true(sr_tanh(inf) == 1.0 && sr_tanh(-inf) == -1.0 && isnan(sr_tanh(nan)));
    assert_true(sr_tanh(0.0) == 0.0 && signbit(sr_tanh(-0.0)));
    assert_true(sr_erf(inf) == 1.0 && sr_erf(-inf) == -1.0 && isnan(sr_erf(nan)));
    assert_true(signbit(sr_erf(-0.0)) && isnan(sr_sin(inf)) && isnan(sr_cos(-inf)));
    assert_true(sr_atan(inf) == atan(inf) && sr_atan(-inf) == atan(-inf) && isnan(sr_atan(nan)));
    assert_true(signbit(sr_atan(-0.0)) && !signbit(sr_atan(0.0)) && sr_atan(1.0) == atan(1.0));
    assert_true(isnan(sr_sin(nan)) && signbit(sr_sin(-0.0)) && sr_cos(0.0) == 1.0);
}

// Annex F of C: pow's special cases, the same as libm's.
static void power_edges(void **state) {
    (void)state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double values[] = {0.0,  -0.0, 1.0,   -1.0,   0.5,       -0.5, 2.0, -2.0, 3.0,
                             -3.0, 2.5,  1e300, -1e300, 0x1p-1074, 1e18, inf, -inf, nan};
    const size_t count = sizeof values / sizeof *values;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            double x = values[i], y = values[j], got = sr_pow(x, y), wanted = pow(x, y);
            bool same = isnan(wanted) ? isnan(got) : !signbit(got) == !signbit(wanted);
            if (isfinite(wanted) && fabs(got - wanted) > 4e-16 * fabs(wanted))
                same = false;
            if (isinf(wanted) && got != wanted)
                same = false;
            if (!same)
                fail_msg("pow(%g, %g): %.17g, wanted %.17g", x, y, got, wanted);
        }
    }
}

// The digest of the results: it must be the same for every compiler, level and machine.
static void bits(void **state) {
    (void)state;
    sr_rng rng;
    sr_rng_init(&rng, 10, 0, 0, 0);
    static double out[4096 * 11];
    for (size_t i = 0; i < 4096; i++) {
        double x = sr_rng_uniform(&rng, -8.0, 8.0), a = fabs(x);
        double *o = out + 11 * i;
        o[0] = sr_exp(x);
        o[1] = sr_log_f64(a);
        o[2] = sr_tanh(x);
        o[3] = sr_erf(x);
        o[4] = sr_sin(x * 1e6);
        o[5] = sr_cos(x);
        o[6] = sr_pow(a, x);
        o[7] = (double)(sr_expf((float)x) + sr_logf((float)a) + sr_tanhf((float)x) +
                        sr_erff((float)x));
        o[8] = sr_expm1(x);
        o[9] = (double)(sr_expm1f((float)x) + sr_sinf((float)x) + sr_cosf((float)x) +
                        sr_powf((float)a, (float)x));
        o[10] = sr_atan(x) + (double)sr_atanf((float)x);
    }
    uint64_t digest = sr_hash64(out, sizeof out);
    if (digest != UINT64_C(0x40a6180b0a9b7c89))
        fail_msg("digest %016llx", (unsigned long long)digest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_functions), cmocka_unit_test(f32_functions),
        cmocka_unit_test(powers),        cmocka_unit_test(huge_angles),
        cmocka_unit_test(edges),         cmocka_unit_test(power_edges),
        cmocka_unit_test(bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
