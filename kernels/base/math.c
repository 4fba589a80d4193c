// SPDX-License-Identifier: Apache-2.0
// Elementary functions (see math.h): those of math_inline.h, and powers.
//
// Powers are in the same style, with double-double products (Dekker 1971).
#include "kernels/base/math.h"

#include "kernels/base/math_inline.h"

float sr_expf(float x) {
    return sr_expf_inline(x);
}

float sr_logf(float x) {
    return sr_logf_inline(x);
}

float sr_tanhf(float x) {
    return sr_tanhf_inline(x);
}

float sr_erff(float x) {
    return sr_erff_inline(x);
}

double sr_exp(double x) {
    return sr_exp_inline(x);
}

double sr_log_f64(double x) {
    return sr_log_f64_inline(x);
}

double sr_tanh(double x) {
    return sr_tanh_inline(x);
}

double sr_erf(double x) {
    return sr_erf_inline(x);
}

double sr_sin(double x) {
    return sr_sin_inline(x);
}

double sr_cos(double x) {
    return sr_cos_inline(x);
}

// An unevaluated sum with |low| <= ulp(high) / 2.
typedef struct pair {
    double high, low;
} pair;

static pair sum_ordered(double a, double b) { // |a| >= |b|
    double s = a + b;
    return (pair){s, b - (s - a)};
}

static pair product(double a, double b) { // exact, for moderate exponents
    double ca = a * 0x1.0000002p27, cb = b * 0x1.0000002p27;
    double ah = ca - (ca - a), bh = cb - (cb - b);
    double al = a - ah, bl = b - bh;
    double p = a * b;
    return (pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

// (atanh(s) / s - 1 - z / 3) / z^2 in z = s^2: 2^-66 of atanh.
static const double atanh_c[] = {0x1.999999999999ap-3, 0x1.2492492492523p-3, 0x1.c71c71c6ea0c3p-4,
                                 0x1.745d177b19a81p-4, 0x1.3b13959b359a4p-4, 0x1.1118d38b0f57bp-4,
                                 0x1.df7a598f77bc4p-5, 0x1.e047e001993cbp-5};

// log(x) to about 2^-64 for finite x > 0: 2 atanh(s) + k ln 2 in pairs.
static pair log_pair(double x) {
    int e;
    double f = sr_math_split(x, &e) - 1.0, k = e;
    double d = 2.0 + f, d_low = f - (d - 2.0);
    double s = f / d;
    pair sd = product(s, d);
    double s_low = ((f - sd.high) - sd.low - s * d_low) / d;
    pair z = product(s, s);
    z.low += 2.0 * s * s_low;
    pair u = product(z.high, 0x1.5555555555555p-2);
    u.low += z.high * 0x1.5555555555555p-56 + z.low * 0x1.5555555555555p-2;
    u = sum_ordered(u.high, u.low + z.high * z.high * sr_math_poly(atanh_c, 7, z.high));
    pair p = product(s, u.high);
    p.low += s * u.low + s_low * u.high;
    pair q = sum_ordered(s, p.high);
    q.low += s_low + p.low;
    if (e == 0)
        return sum_ordered(2.0 * q.high, 2.0 * q.low);
    pair sum = sum_ordered(k * SR_MATH_LN2_HIGH, 2.0 * q.high);
    return sum_ordered(sum.high, sum.low + (2.0 * q.low + k * SR_MATH_LN2_LOW));
}

// 0: not an integer, 1: odd, 2: even.
static int parity(double y) {
    double a = y < 0.0 ? -y : y;
    if (a >= 0x1p53)
        return 2;
    double whole = (double)(int64_t)a;
    if (whole != a)
        return 0;
    return (int64_t)a % 2 != 0 ? 1 : 2;
}

// x^y for finite x > 0, x != 1.
static double pow_positive(double x, double y) {
    pair l = log_pair(x);
    double estimate = y * l.high;
    if (estimate > 709.8)
        return SR_MATH_INF64;
    if (estimate < -745.2)
        return 0.0;
    pair p = product(y, l.high); // |y| < 2^63: |log x| >= 2^-53
    return sr_math_exp_sum(p.high, p.low + y * l.low);
}

double sr_pow(double x, double y) {
    if (y == 0.0 || x == 1.0)
        return 1.0;
    if (isnan(x) || isnan(y))
        return SR_MATH_NAN64;
    double a = x < 0.0 ? -x : x;
    if (isinf(y)) {
        if (a == 1.0)
            return 1.0;
        return (a > 1.0) == (y > 0.0) ? SR_MATH_INF64 : 0.0;
    }
    int kind = parity(y);
    double result;
    if (a == 0.0 || isinf(a))
        result = (a == 0.0) == (y > 0.0) ? 0.0 : SR_MATH_INF64;
    else if (x < 0.0 && kind == 0)
        return SR_MATH_NAN64;
    else
        result = a == 1.0 ? 1.0 : pow_positive(a, y);
    return signbit(x) && kind == 1 ? -result : result;
}
