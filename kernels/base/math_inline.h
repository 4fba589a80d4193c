// SPDX-License-Identifier: Apache-2.0
// The functions of math.h that GPU kernels use, too: sr_expf_inline is sr_expf.
//
// They use only + - * / and bit operations in a fixed order, without contraction
// (-ffp-contract=off, --fmad=false), so every compiler gives the same bits. Coefficients are
// interpolants at Chebyshev nodes, computed with 300 bits (mpmath) for this file; the comment of
// each table gives the bound of the error relative to the function's value. Methods: Cody and Waite
// 1980 and Payne and Hanek 1983 for reduction. fp32 versions compute in fp64 and round once.
// Results are deliberately not correctly rounded, which would need tables, and the code is not
// vectorised: provider kernels have their own versions, those of class "reference" with the same
// operations and tables (math_tables.h).
#ifndef SR_KERNELS_BASE_MATH_INLINE_H
#define SR_KERNELS_BASE_MATH_INLINE_H

#include <math.h> // INFINITY, NAN and classification macros only
#include <stdint.h>
#include <string.h>

#include "kernels/base/device_code.h"
#include "kernels/base/math_tables.h"

#define SR_MATH_INF64 ((double)INFINITY)
#define SR_MATH_NAN64 ((double)NAN)

SR_DEVICE_INLINE double sr_math_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

SR_DEVICE_INLINE uint64_t sr_math_to_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

SR_DEVICE_INLINE double sr_math_poly(const double *c, int degree, double x) {
    double y = c[degree];
    for (int i = degree - 1; i >= 0; i--)
        y = y * x + c[i];
    return y;
}

// x * 2^k for -1100 < k < 1100, rounding once where the result is subnormal.
SR_DEVICE_INLINE double sr_math_scale(double x, int k) {
    int half = k / 2;
    x *= sr_math_from_bits((uint64_t)(1023 + half) << 52);
    return x * sr_math_from_bits((uint64_t)(1023 + k - half) << 52);
}

// (e^r - 1 - r) / r^2 on |r| <= ln2 / 2: 2^-61.
SR_DEVICE_TABLE double sr_math_exp_c[] = {0x1p-1,
                                          0x1.5555555555557p-3,
                                          0x1.5555555555556p-5,
                                          0x1.11111111100dcp-7,
                                          0x1.6c16c16c162d4p-10,
                                          0x1.a01a01abe7fe1p-13,
                                          0x1.a01a01a6d889cp-16,
                                          0x1.71de0231960ebp-19,
                                          0x1.27e4db646b17ep-22,
                                          0x1.af4de97ca4194p-26,
                                          0x1.1f730349868cep-29};

// e^(high + low) for finite sums in about [-746, 710].
SR_DEVICE_INLINE double sr_math_exp_sum(double high, double low) {
    double k = (high * SR_MATH_INV_LN2 + SR_MATH_ROUNDER) - SR_MATH_ROUNDER;
    double r = (high - k * SR_MATH_LN2_HIGH) + (low - k * SR_MATH_LN2_LOW);
    double e = 1.0 + (r + r * r * sr_math_poly(sr_math_exp_c, 10, r));
    return sr_math_scale(e, (int)k);
}

SR_DEVICE_INLINE double sr_exp_inline(double x) {
    if (isnan(x))
        return x;
    if (x > 709.782712893384)
        return SR_MATH_INF64;
    if (x < -745.1332191019412)
        return 0.0;
    return sr_math_exp_sum(x, 0.0);
}

SR_DEVICE_INLINE float sr_expf_inline(float x) {
    if (isnan(x))
        return x;
    if (x > 88.8f)
        return INFINITY;
    if (x < -104.0f)
        return 0.0f;
    double k = ((double)x * SR_MATH_INV_LN2 + SR_MATH_ROUNDER) - SR_MATH_ROUNDER;
    double r = ((double)x - k * SR_MATH_LN2_HIGH) - k * SR_MATH_LN2_LOW;
    double e = 1.0 + (r + r * r * sr_math_poly(sr_math_expf, SR_MATH_EXPF_DEGREE, r));
    return (float)(e * sr_math_from_bits((uint64_t)(1023 + (int)k) << 52));
}

// e^x - 1 without loss for small x.
SR_DEVICE_INLINE double sr_expm1_inline(double x) {
    if (isnan(x) || x == 0.0)
        return x;
    if (x > 700.0)
        return sr_exp_inline(x);
    if (x < -40.0)
        return -1.0;
    double k = (x * SR_MATH_INV_LN2 + SR_MATH_ROUNDER) - SR_MATH_ROUNDER;
    double r = (x - k * SR_MATH_LN2_HIGH) - k * SR_MATH_LN2_LOW;
    double e = r + r * r * sr_math_poly(sr_math_exp_c, 10, r), s = sr_math_scale(1.0, (int)k);
    return (s - 1.0) + s * e;
}

SR_DEVICE_INLINE float sr_expm1f_inline(float x) {
    return (float)sr_expm1_inline((double)x);
}

// x = 2^k * m for x > 0 and finite, m in [sqrt(1/2), sqrt(2)).
SR_DEVICE_INLINE double sr_math_split(double x, int *k) {
    int e = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        e = -54;
    }
    uint64_t bits = sr_math_to_bits(x);
    e += (int)(bits >> 52) - 1023;
    double m = sr_math_from_bits((bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff) << 52);
    if (m >= SR_MATH_SQRT2) {
        m *= 0.5;
        e++;
    }
    *k = e;
    return m;
}

SR_DEVICE_INLINE double sr_log_f64_inline(double x) {
    if (isnan(x) || x < 0.0)
        return SR_MATH_NAN64;
    if (x == 0.0)
        return -SR_MATH_INF64;
    if (isinf(x))
        return x;
    int e;
    double f = sr_math_split(x, &e) - 1.0, k = e;
    double s = f / (2.0 + f), z = s * s;
    double r = z * sr_math_poly(sr_math_log, SR_MATH_LOG_DEGREE, z);
    return k * SR_MATH_LN2_HIGH + (f - (s * (f - r) - k * SR_MATH_LN2_LOW)); // 2 s = f - s f
}

SR_DEVICE_INLINE float sr_logf_inline(float x) {
    return (float)sr_log_f64_inline((double)x);
}

// (tanh(x) - x) / x^3 in z = x^2 on |x| <= 0.625: 2^-56.
SR_DEVICE_TABLE double sr_math_tanh_c[] = {
    -0x1.5555555555555p-2,  0x1.111111111110dp-3,  -0x1.ba1ba1ba1afe8p-5,  0x1.664f488278efap-6,
    -0x1.226e354dd4eddp-7,  0x1.d6d3cc5378ea9p-9,  -0x1.7da2fd4310125p-10, 0x1.35520241b7981p-11,
    -0x1.f4fc9fa05eab3p-13, 0x1.92d2601c7792fp-14, -0x1.370b93bca653bp-15, 0x1.99a489c3aefb6p-17,
    -0x1.473cebe02d13ap-19};

SR_DEVICE_INLINE double sr_tanh_inline(double x) {
    double a = x < 0.0 ? -x : x;
    if (isnan(x))
        return x;
    if (a < 0.625) {
        double z = x * x;
        return z == 0.0
                   ? x
                   : x + x * (z * sr_math_poly(sr_math_tanh_c, 12, z)); // keeps the sign of zero
    }
    double y = a > 22.0 ? 1.0 : 1.0 - 2.0 / (sr_math_exp_sum(2.0 * a, 0.0) + 1.0);
    return x < 0.0 ? -y : y;
}

SR_DEVICE_INLINE float sr_tanhf_inline(float x) {
    return (float)sr_tanh_inline((double)x);
}

SR_DEVICE_INLINE double sr_math_erfc_poly(int piece, double t) {
    double y = sr_math_erfc[SR_MATH_ERFC_DEGREE][piece];
    for (int i = SR_MATH_ERFC_DEGREE - 1; i >= 0; i--)
        y = y * t + sr_math_erfc[i][piece];
    return y;
}

SR_DEVICE_INLINE double sr_erf_inline(double x) {
    double a = x < 0.0 ? -x : x;
    if (isnan(x))
        return x;
    if (a < 1.0) {
        double z = x * x;
        return x + x * (SR_MATH_ERF_SLOPE + z * sr_math_poly(sr_math_erf, SR_MATH_ERF_DEGREE, z));
    }
    double y = 1.0;
    if (a < 6.0) {
        int piece = a < 4.0 ? (int)a - 1 : 3;
        y = 1.0 - sr_math_erfc_poly(piece, a - sr_math_erfc_middle[piece]);
    }
    return x < 0.0 ? -y : y;
}

SR_DEVICE_INLINE float sr_erff_inline(float x) {
    return (float)sr_erf_inline((double)x);
}

// (sin(x) - x) / x^3 and (cos(x) - 1 + z / 2) / z^2 in z = x^2 on |x| <= pi / 4: 2^-55, 2^-59.
SR_DEVICE_TABLE double sr_math_sin_c[] = {-0x1.5555555555555p-3,  0x1.1111111110bb1p-7,
                                          -0x1.a01a019e8357dp-13, 0x1.71de37961e4c6p-19,
                                          -0x1.ae600a926c89ap-26, 0x1.5e0af186af739p-33};
SR_DEVICE_TABLE double sr_math_cos_c[] = {0x1.5555555555555p-5,  -0x1.6c16c16c16966p-10,
                                          0x1.a01a019f4e867p-16, -0x1.27e4fa17a41b4p-22,
                                          0x1.1eeb68b109173p-29, -0x1.907d7aebd5e3dp-37};

// 2 / pi, 64 bits a word after a word for its zero integer part.
SR_DEVICE_TABLE uint64_t sr_math_two_over_pi[] = {0,
                                                  UINT64_C(0xa2f9836e4e441529),
                                                  UINT64_C(0xfc2757d1f534ddc0),
                                                  UINT64_C(0xdb6295993c439041),
                                                  UINT64_C(0xfe5163abdebbc561),
                                                  UINT64_C(0xb7246e3a424dd2e0),
                                                  UINT64_C(0x06492eea09d1921c),
                                                  UINT64_C(0xfe1deb1cb129a73e),
                                                  UINT64_C(0xe88235f52ebb4484),
                                                  UINT64_C(0xe99c7026b45f7e41),
                                                  UINT64_C(0x3991d639835339f4),
                                                  UINT64_C(0x9c845f8bbdf9283b),
                                                  UINT64_C(0x1ff897ffde05980f),
                                                  UINT64_C(0xef2f118b5a0a6d1f),
                                                  UINT64_C(0x6d367ecf27cb09b7),
                                                  UINT64_C(0x4f463f669e5fea2d),
                                                  UINT64_C(0x7527bac7ebe5f17b),
                                                  UINT64_C(0x3d0739f78a5292ea),
                                                  UINT64_C(0x6bfb5fb11f8d5d08),
                                                  UINT64_C(0x56033046fc7b6bab),
                                                  UINT64_C(0xf0cfbc209af4361d)};

__extension__ typedef unsigned __int128 sr_math_wide;

// Payne and Hanek: |x| - q pi / 2 for 2^18 <= |x| < infinity; returns q mod 4. Of the product of
// the 53-bit mantissa and 2 / pi, 192 bits from the weight 2 downwards are computed.
SR_DEVICE_INLINE int sr_math_reduce_large(double x, double *r) {
    uint64_t bits = sr_math_to_bits(x);
    uint64_t m = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1) << 52;
    unsigned start = (unsigned)((bits >> 52) & 0x7ff) - 1075 - 2 + 64; // |x| = m * 2^(start - 62)
    uint64_t word[3];
    sr_math_wide carry = 0;
    for (int i = 2; i >= 0; i--) {
        const uint64_t *w = sr_math_two_over_pi + start / 64 + i;
        unsigned shift = start % 64;
        uint64_t part = shift ? w[0] << shift | w[1] >> (64 - shift) : w[0];
        carry += (sr_math_wide)m * part;
        word[i] = (uint64_t)carry;
        carry >>= 64;
    }
    int q = (int)(word[0] >> 62);
    uint64_t f0 = word[0] << 2 | word[1] >> 62, f1 = word[1] << 2 | word[2] >> 62;
    uint64_t f2 = word[2] << 2;
    int negative = f0 >> 63 != 0; // a fraction of 1/2 or more: add one to q and negate
    if (negative) {
        q++;
        f2 = ~f2 + 1;
        f1 = ~f1 + (f2 == 0);
        f0 = ~f0 + (f2 == 0 && f1 == 0);
    }
    // The fraction in pieces of 53 bits; the leading ones may be zero.
    double a = (double)(f0 >> 11) * 0x1p-53;
    double b = (double)((f0 & 0x7ff) << 42 | f1 >> 22) * 0x1p-106;
    double c = (double)((f1 & 0x3fffff) << 31 | f2 >> 33) * 0x1p-159;
    double s = a + b, t = (b - (s - a)) + c;
    double high = s + t, low = t - (high - s);
    double y =
        high * 0x1.921fb54442d18p+0 + (high * 0x1.1a62633145c07p-54 + low * 0x1.921fb54442d18p+0);
    *r = negative ? -y : y;
    return q & 3;
}

// Reduces finite x to x - q pi / 2 in [-pi/4, pi/4]; returns q mod 4.
SR_DEVICE_INLINE int sr_math_reduce(double x, double *r) {
    double a = x < 0.0 ? -x : x;
    if (a >= 0x1p18) {
        int q = sr_math_reduce_large(a, r);
        if (x < 0.0) {
            *r = -*r;
            q = -q & 3;
        }
        return q;
    }
    // Cody and Waite: pi / 2 in parts of 33 bits, so that k times a part is exact.
    double k = (x * 0x1.45f306dc9c883p-1 + SR_MATH_ROUNDER) - SR_MATH_ROUNDER;
    *r = ((x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e03707p-69;
    return (int)k & 3;
}

SR_DEVICE_INLINE double sr_math_sin_core(double r) {
    double z = r * r;
    return z == 0.0 ? r : r + r * (z * sr_math_poly(sr_math_sin_c, 5, z)); // keeps the sign of zero
}

SR_DEVICE_INLINE double sr_math_cos_core(double r) {
    double z = r * r;
    return 1.0 - (0.5 * z - z * z * sr_math_poly(sr_math_cos_c, 5, z));
}

// sin(x + shift pi / 2)
SR_DEVICE_INLINE double sr_math_sin_shifted(double x, int shift) {
    if (!isfinite(x))
        return SR_MATH_NAN64;
    double r;
    int q = (sr_math_reduce(x, &r) + shift) & 3;
    double y = q & 1 ? sr_math_cos_core(r) : sr_math_sin_core(r);
    return q & 2 ? -y : y;
}

SR_DEVICE_INLINE double sr_sin_inline(double x) {
    return sr_math_sin_shifted(x, 0);
}

SR_DEVICE_INLINE double sr_cos_inline(double x) {
    return sr_math_sin_shifted(x, 1);
}

// (atan(t) - t) / t^3 in z = t^2 on |t| <= tan(pi / 8): 2^-57.
SR_DEVICE_TABLE double sr_math_atan_c[] = {
    -0x1.5555555555555p-2, 0x1.999999999934cp-3, -0x1.2492492436201p-3, 0x1.c71c71853d7fap-4,
    -0x1.745d0b28a7e37p-4, 0x1.3b1263064f6b9p-4, -0x1.10fa77b1a6d57p-4, 0x1.dfe6497e96323p-5,
    -0x1.a0999c632b6edp-5, 0x1.4162c02b1dda3p-5, -0x1.3a31b1c0fd3b7p-6};

// atan(x) = m pi / 4 + atan(t), m in 0, 1, 2, for x >= 0.
SR_DEVICE_INLINE double sr_atan_inline(double x) {
    double a = x < 0.0 ? -x : x, t = a, high = 0.0, low = 0.0;
    if (isnan(x))
        return x;
    if (a > 2.414213562373095) {
        t = -1.0 / a;
        high = 0x1.921fb54442d18p+0;
        low = 0x1.1a62633145c07p-54;
    } else if (a > 0.41421356237309503) {
        t = (a - 1.0) / (a + 1.0);
        high = 0x1.921fb54442d18p-1;
        low = 0x1.1a62633145c07p-55;
    }
    double z = t * t;
    double y = high + (t + (t * (z * sr_math_poly(sr_math_atan_c, 10, z)) + low));
    return signbit(x) ? -y : y;
}

SR_DEVICE_INLINE float sr_atanf_inline(float x) {
    return (float)sr_atan_inline((double)x);
}

// ---- Powers, with double-double products (Dekker 1971) ----

// An unevaluated sum with |low| <= ulp(high) / 2.
typedef struct sr_math_pair {
    double high, low;
} sr_math_pair;

SR_DEVICE_INLINE sr_math_pair sr_math_sum_ordered(double a, double b) { // |a| >= |b|
    double s = a + b;
    const sr_math_pair sum = {s, b - (s - a)};
    return sum;
}

SR_DEVICE_INLINE sr_math_pair sr_math_product(double a, double b) { // exact, for moderate exponents
    double ca = a * 0x1.0000002p27, cb = b * 0x1.0000002p27;
    double ah = ca - (ca - a), bh = cb - (cb - b);
    double al = a - ah, bl = b - bh;
    double p = a * b;
    const sr_math_pair exact = {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
    return exact;
}

// (atanh(s) / s - 1 - z / 3) / z^2 in z = s^2: 2^-66 of atanh.
SR_DEVICE_TABLE double sr_math_atanh_c[] = {
    0x1.999999999999ap-3, 0x1.2492492492523p-3, 0x1.c71c71c6ea0c3p-4, 0x1.745d177b19a81p-4,
    0x1.3b13959b359a4p-4, 0x1.1118d38b0f57bp-4, 0x1.df7a598f77bc4p-5, 0x1.e047e001993cbp-5};

// log(x) to about 2^-64 for finite x > 0: 2 atanh(s) + k ln 2 in pairs.
SR_DEVICE_INLINE sr_math_pair sr_math_log_pair(double x) {
    int e;
    double f = sr_math_split(x, &e) - 1.0, k = e;
    double d = 2.0 + f, d_low = f - (d - 2.0);
    double s = f / d;
    sr_math_pair sd = sr_math_product(s, d);
    double s_low = ((f - sd.high) - sd.low - s * d_low) / d;
    sr_math_pair z = sr_math_product(s, s);
    z.low += 2.0 * s * s_low;
    sr_math_pair u = sr_math_product(z.high, 0x1.5555555555555p-2);
    u.low += z.high * 0x1.5555555555555p-56 + z.low * 0x1.5555555555555p-2;
    u = sr_math_sum_ordered(u.high,
                            u.low + z.high * z.high * sr_math_poly(sr_math_atanh_c, 7, z.high));
    sr_math_pair p = sr_math_product(s, u.high);
    p.low += s * u.low + s_low * u.high;
    sr_math_pair q = sr_math_sum_ordered(s, p.high);
    q.low += s_low + p.low;
    if (e == 0)
        return sr_math_sum_ordered(2.0 * q.high, 2.0 * q.low);
    sr_math_pair sum = sr_math_sum_ordered(k * SR_MATH_LN2_HIGH, 2.0 * q.high);
    return sr_math_sum_ordered(sum.high, sum.low + (2.0 * q.low + k * SR_MATH_LN2_LOW));
}

// 0: not an integer, 1: odd, 2: even.
SR_DEVICE_INLINE int sr_math_parity(double y) {
    double a = y < 0.0 ? -y : y;
    if (a >= 0x1p53)
        return 2;
    double whole = (double)(int64_t)a;
    if (whole != a)
        return 0;
    return (int64_t)a % 2 != 0 ? 1 : 2;
}

// x^y for finite x > 0, x != 1.
SR_DEVICE_INLINE double sr_math_pow_positive(double x, double y) {
    sr_math_pair l = sr_math_log_pair(x);
    double estimate = y * l.high;
    if (estimate > 709.8)
        return SR_MATH_INF64;
    if (estimate < -745.2)
        return 0.0;
    sr_math_pair p = sr_math_product(y, l.high); // |y| < 2^63: |log x| >= 2^-53
    return sr_math_exp_sum(p.high, p.low + y * l.low);
}

SR_DEVICE_INLINE double sr_pow_inline(double x, double y) {
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
    int kind = sr_math_parity(y);
    double result;
    if (a == 0.0 || isinf(a))
        result = (a == 0.0) == (y > 0.0) ? 0.0 : SR_MATH_INF64;
    else if (x < 0.0 && kind == 0)
        return SR_MATH_NAN64;
    else
        result = a == 1.0 ? 1.0 : sr_math_pow_positive(a, y);
    return signbit(x) && kind == 1 ? -result : result;
}

SR_DEVICE_INLINE float sr_sinf_inline(float x) {
    return (float)sr_sin_inline((double)x);
}

SR_DEVICE_INLINE float sr_cosf_inline(float x) {
    return (float)sr_cos_inline((double)x);
}

SR_DEVICE_INLINE float sr_powf_inline(float x, float y) {
    return (float)sr_pow_inline((double)x, (double)y);
}

#endif
