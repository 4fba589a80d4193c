// SPDX-License-Identifier: Apache-2.0
// Eight f64 elements: half of an sr_vf (x86_vector_internal.h), one AVX-512 register or two AVX2
// registers. They serve elementary functions with the bits of kernels/base/math.h, which compute in
// f64.
#ifndef SR_KERNELS_CPU_X86_DOUBLE_INTERNAL_H
#define SR_KERNELS_CPU_X86_DOUBLE_INTERNAL_H

#include <math.h> // INFINITY, NAN

#include "kernels/base/math_tables.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

#if defined(__AVX512F__)

typedef __m512d sr_vd;
typedef __mmask8 sr_vdmask;

SR_INLINE sr_vd sr_vd_set(double x) {
    return _mm512_set1_pd(x);
}
SR_INLINE void sr_vd_store(double *to, sr_vd x) {
    _mm512_storeu_pd(to, x);
}
// Elements 0 .. 7 or, with 'high', 8 .. 15.
SR_INLINE sr_vd sr_vd_widen(sr_vf x, bool high) {
    return _mm512_cvtps_pd(high ? _mm512_extractf32x8_ps(x, 1) : _mm512_castps512_ps256(x));
}
SR_INLINE sr_vf sr_vd_narrow(sr_vd low, sr_vd high) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high),
                              1);
}
SR_INLINE sr_vd sr_vd_add(sr_vd a, sr_vd b) {
    return _mm512_add_pd(a, b);
}
SR_INLINE sr_vd sr_vd_sub(sr_vd a, sr_vd b) {
    return _mm512_sub_pd(a, b);
}
SR_INLINE sr_vd sr_vd_mul(sr_vd a, sr_vd b) {
    return _mm512_mul_pd(a, b);
}
SR_INLINE sr_vd sr_vd_abs(sr_vd a) {
    return _mm512_abs_pd(a);
}
SR_INLINE sr_vd sr_vd_sign(sr_vd magnitude, sr_vd sign) { // magnitude >= 0
    return _mm512_or_pd(magnitude, _mm512_and_pd(sign, _mm512_set1_pd(-0.0)));
}
SR_INLINE sr_vdmask sr_vd_lt(sr_vd a, sr_vd b) { // false where either is NaN
    return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ);
}
SR_INLINE sr_vdmask sr_vd_unordered(sr_vd a, sr_vd b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q);
}
SR_INLINE sr_vd sr_vd_pick(sr_vdmask m, sr_vd yes, sr_vd no) {
    return _mm512_mask_blend_pd(m, no, yes);
}
SR_INLINE sr_vd sr_vd_div(sr_vd a, sr_vd b) {
    return _mm512_div_pd(a, b);
}
// x = 2^exponent * mantissa of positive normal numbers, 1 <= mantissa < 2.
SR_INLINE sr_vd sr_vd_exponent(sr_vd x) {
    return _mm512_getexp_pd(x);
}
SR_INLINE sr_vd sr_vd_mantissa(sr_vd x) {
    return _mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
}
// 2^k from the sum k + SR_MATH_ROUNDER, -1023 < k < 1024.
SR_INLINE sr_vd sr_vd_power(sr_vd rounded) {
    const __m512i bits = _mm512_add_epi64(_mm512_castpd_si512(rounded), _mm512_set1_epi64(1023));
    return _mm512_castsi512_pd(_mm512_slli_epi64(bits, 52));
}

// An index of one of four numbers for each element.
typedef __m512i sr_vdindex;
// 0 for a < 2, 1 for a < 3, 2 for a < 4, else 3.
SR_INLINE sr_vdindex sr_vd_piece(sr_vd a) {
    const __m512i one = _mm512_set1_epi64(1);
    __m512i i = _mm512_maskz_mov_epi64((__mmask8)~sr_vd_lt(a, sr_vd_set(2.0)), one);
    i = _mm512_mask_add_epi64(i, (__mmask8)~sr_vd_lt(a, sr_vd_set(3.0)), i, one);
    return _mm512_mask_add_epi64(i, (__mmask8)~sr_vd_lt(a, sr_vd_set(4.0)), i, one);
}
SR_INLINE sr_vd sr_vd_lookup(const double four[4], sr_vdindex i) {
    return _mm512_permutexvar_pd(i, _mm512_castpd256_pd512(_mm256_loadu_pd(four)));
}

#else

typedef struct sr_vd {
    __m256d a, b;
} sr_vd;
typedef sr_vd sr_vdmask;

SR_INLINE sr_vd sr_vd_set(double x) {
    return (sr_vd){_mm256_set1_pd(x), _mm256_set1_pd(x)};
}
SR_INLINE void sr_vd_store(double *to, sr_vd x) {
    _mm256_storeu_pd(to, x.a);
    _mm256_storeu_pd(to + 4, x.b);
}
SR_INLINE sr_vd sr_vd_widen(sr_vf x, bool high) {
    const __m256 half = high ? x.b : x.a;
    return (sr_vd){_mm256_cvtps_pd(_mm256_castps256_ps128(half)),
                   _mm256_cvtps_pd(_mm256_extractf128_ps(half, 1))};
}
SR_INLINE __m256 sr_vd_narrow8(sr_vd x) {
    return _mm256_set_m128(_mm256_cvtpd_ps(x.b), _mm256_cvtpd_ps(x.a));
}
SR_INLINE sr_vf sr_vd_narrow(sr_vd low, sr_vd high) {
    return (sr_vf){sr_vd_narrow8(low), sr_vd_narrow8(high)};
}
SR_INLINE sr_vd sr_vd_add(sr_vd x, sr_vd y) {
    return (sr_vd){_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b)};
}
SR_INLINE sr_vd sr_vd_sub(sr_vd x, sr_vd y) {
    return (sr_vd){_mm256_sub_pd(x.a, y.a), _mm256_sub_pd(x.b, y.b)};
}
SR_INLINE sr_vd sr_vd_mul(sr_vd x, sr_vd y) {
    return (sr_vd){_mm256_mul_pd(x.a, y.a), _mm256_mul_pd(x.b, y.b)};
}
SR_INLINE sr_vd sr_vd_abs(sr_vd x) {
    const __m256d sign = _mm256_set1_pd(-0.0);
    return (sr_vd){_mm256_andnot_pd(sign, x.a), _mm256_andnot_pd(sign, x.b)};
}
SR_INLINE sr_vd sr_vd_sign(sr_vd magnitude, sr_vd sign) {
    const __m256d bit = _mm256_set1_pd(-0.0);
    return (sr_vd){_mm256_or_pd(magnitude.a, _mm256_and_pd(sign.a, bit)),
                   _mm256_or_pd(magnitude.b, _mm256_and_pd(sign.b, bit))};
}
SR_INLINE sr_vdmask sr_vd_lt(sr_vd x, sr_vd y) {
    return (sr_vdmask){_mm256_cmp_pd(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_pd(x.b, y.b, _CMP_LT_OQ)};
}
SR_INLINE sr_vdmask sr_vd_unordered(sr_vd x, sr_vd y) {
    return (sr_vdmask){_mm256_cmp_pd(x.a, y.a, _CMP_UNORD_Q),
                       _mm256_cmp_pd(x.b, y.b, _CMP_UNORD_Q)};
}
SR_INLINE sr_vd sr_vd_pick(sr_vdmask m, sr_vd yes, sr_vd no) {
    return (sr_vd){_mm256_blendv_pd(no.a, yes.a, m.a), _mm256_blendv_pd(no.b, yes.b, m.b)};
}
SR_INLINE sr_vd sr_vd_div(sr_vd x, sr_vd y) {
    return (sr_vd){_mm256_div_pd(x.a, y.a), _mm256_div_pd(x.b, y.b)};
}
// The biased exponent becomes the mantissa of 2^52 + exponent.
SR_INLINE __m256d sr_vd_exponent4(__m256d x) {
    const __m256i biased = _mm256_srli_epi64(_mm256_castpd_si256(x), 52);
    const __m256i sum = _mm256_or_si256(biased, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)));
    return _mm256_sub_pd(_mm256_castsi256_pd(sum), _mm256_set1_pd(0x1p52 + 1023));
}
SR_INLINE sr_vd sr_vd_exponent(sr_vd x) {
    return (sr_vd){sr_vd_exponent4(x.a), sr_vd_exponent4(x.b)};
}
SR_INLINE __m256d sr_vd_mantissa4(__m256d x) {
    const __m256d one = _mm256_set1_pd(1), exponent = _mm256_set1_pd((double)INFINITY);
    return _mm256_or_pd(_mm256_andnot_pd(exponent, x), one);
}
SR_INLINE sr_vd sr_vd_mantissa(sr_vd x) {
    return (sr_vd){sr_vd_mantissa4(x.a), sr_vd_mantissa4(x.b)};
}
SR_INLINE __m256d sr_vd_power4(__m256d rounded) {
    const __m256i bits = _mm256_add_epi64(_mm256_castpd_si256(rounded), _mm256_set1_epi64x(1023));
    return _mm256_castsi256_pd(_mm256_slli_epi64(bits, 52));
}
SR_INLINE sr_vd sr_vd_power(sr_vd rounded) {
    return (sr_vd){sr_vd_power4(rounded.a), sr_vd_power4(rounded.b)};
}

typedef struct sr_vdindex { // of pairs of 32-bit words
    __m256i a, b;
} sr_vdindex;
SR_INLINE __m256i sr_vd_piece4(__m256d a) {
    // Each comparison is -1 in 64 bits where it holds.
    __m256i i = _mm256_set1_epi64x(3);
    i = _mm256_add_epi64(i, _mm256_castpd_si256(_mm256_cmp_pd(a, _mm256_set1_pd(2), _CMP_LT_OQ)));
    i = _mm256_add_epi64(i, _mm256_castpd_si256(_mm256_cmp_pd(a, _mm256_set1_pd(3), _CMP_LT_OQ)));
    i = _mm256_add_epi64(i, _mm256_castpd_si256(_mm256_cmp_pd(a, _mm256_set1_pd(4), _CMP_LT_OQ)));
    const __m256i low = _mm256_slli_epi64(i, 1);
    const __m256i high = _mm256_slli_epi64(_mm256_add_epi64(low, _mm256_set1_epi64x(1)), 32);
    return _mm256_or_si256(low, high);
}
SR_INLINE sr_vdindex sr_vd_piece(sr_vd a) {
    return (sr_vdindex){sr_vd_piece4(a.a), sr_vd_piece4(a.b)};
}
SR_INLINE sr_vd sr_vd_lookup(const double four[4], sr_vdindex i) {
    const __m256i table = _mm256_castpd_si256(_mm256_loadu_pd(four));
    return (sr_vd){_mm256_castsi256_pd(_mm256_permutevar8x32_epi32(table, i.a)),
                   _mm256_castsi256_pd(_mm256_permutevar8x32_epi32(table, i.b))};
}

#endif

// ---- Common to both widths: the operations of math.c, in their order ----

// c[0] + x (c[1] + x (...)), products and sums rounded separately.
SR_INLINE sr_vd sr_vd_poly(const double *c, int degree, sr_vd x) {
    sr_vd y = sr_vd_set(c[degree]);
    SR_UNROLL
    for (int i = degree - 1; i >= 0; i--)
        y = sr_vd_add(sr_vd_mul(y, x), sr_vd_set(c[i]));
    return y;
}

// e^x of f32 numbers -104 <= x <= 88.8.
SR_INLINE sr_vd sr_vd_expf(sr_vd x) {
    const sr_vd rounder = sr_vd_set(SR_MATH_ROUNDER);
    const sr_vd sum = sr_vd_add(sr_vd_mul(x, sr_vd_set(SR_MATH_INV_LN2)), rounder);
    const sr_vd k = sr_vd_sub(sum, rounder);
    const sr_vd high = sr_vd_sub(x, sr_vd_mul(k, sr_vd_set(SR_MATH_LN2_HIGH)));
    const sr_vd r = sr_vd_sub(high, sr_vd_mul(k, sr_vd_set(SR_MATH_LN2_LOW)));
    const sr_vd p = sr_vd_poly(sr_math_expf, SR_MATH_EXPF_DEGREE, r);
    const sr_vd tail = sr_vd_add(r, sr_vd_mul(sr_vd_mul(r, r), p));
    return sr_vd_mul(sr_vd_add(sr_vd_set(1.0), tail), sr_vd_power(sum));
}

// log x of positive normal numbers.
SR_INLINE sr_vd sr_vd_log(sr_vd x) {
    const sr_vd one = sr_vd_set(1.0), m = sr_vd_mantissa(x), e = sr_vd_exponent(x);
    const sr_vdmask small = sr_vd_lt(m, sr_vd_set(SR_MATH_SQRT2));
    const sr_vd k = sr_vd_pick(small, e, sr_vd_add(e, one));
    const sr_vd f = sr_vd_sub(sr_vd_pick(small, m, sr_vd_mul(m, sr_vd_set(0.5))), one);
    const sr_vd s = sr_vd_div(f, sr_vd_add(sr_vd_set(2.0), f)), z = sr_vd_mul(s, s);
    const sr_vd r = sr_vd_mul(z, sr_vd_poly(sr_math_log, SR_MATH_LOG_DEGREE, z));
    const sr_vd low = sr_vd_mul(k, sr_vd_set(SR_MATH_LN2_LOW));
    const sr_vd tail = sr_vd_sub(sr_vd_mul(s, sr_vd_sub(f, r)), low);
    return sr_vd_add(sr_vd_mul(k, sr_vd_set(SR_MATH_LN2_HIGH)), sr_vd_sub(f, tail));
}

SR_INLINE sr_vd sr_vd_erf(sr_vd x) {
    const sr_vd a = sr_vd_abs(x), one = sr_vd_set(1.0), z = sr_vd_mul(x, x);
    const sr_vd p = sr_vd_mul(z, sr_vd_poly(sr_math_erf, SR_MATH_ERF_DEGREE, z));
    const sr_vd slope = sr_vd_add(sr_vd_set(SR_MATH_ERF_SLOPE), p);
    const sr_vd near = sr_vd_add(x, sr_vd_mul(x, slope));
    const sr_vdindex piece = sr_vd_piece(a);
    const sr_vd t = sr_vd_sub(a, sr_vd_lookup(sr_math_erfc_middle, piece));
    sr_vd y = sr_vd_lookup(sr_math_erfc[SR_MATH_ERFC_DEGREE], piece);
    for (int i = SR_MATH_ERFC_DEGREE - 1; i >= 0; i--)
        y = sr_vd_add(sr_vd_mul(y, t), sr_vd_lookup(sr_math_erfc[i], piece));
    const sr_vd far = sr_vd_pick(sr_vd_lt(a, sr_vd_set(6.0)), sr_vd_sub(one, y), one);
    const sr_vd value = sr_vd_pick(sr_vd_lt(a, one), near, sr_vd_sign(far, x));
    return sr_vd_pick(sr_vd_unordered(x, x), x, value);
}

// sr_expf, sr_logf and sr_erff for sixteen numbers.
SR_INLINE sr_vf sr_v_expf(sr_vf x) {
    const sr_vf low = sr_v_set(-104.0f), high = sr_v_set(88.8f);
    const sr_vf safe = sr_v_min(sr_v_max(x, low), high); // NaN becomes a bound
    const sr_vf e =
        sr_vd_narrow(sr_vd_expf(sr_vd_widen(safe, false)), sr_vd_expf(sr_vd_widen(safe, true)));
    const sr_vf y = sr_v_pick(sr_v_gt(x, high), sr_v_set((float)INFINITY),
                              sr_v_pick(sr_v_gt(low, x), sr_v_zero(), e));
    return sr_v_pick(sr_v_unordered(x, x), x, y);
}

SR_INLINE sr_vf sr_v_logf(sr_vf x) {
    const sr_vf infinity = sr_v_set((float)INFINITY), zero = sr_v_zero();
    const sr_vf log =
        sr_vd_narrow(sr_vd_log(sr_vd_widen(x, false)), sr_vd_log(sr_vd_widen(x, true)));
    const sr_vf y = sr_v_pick(sr_v_equal(x, zero), sr_v_set(-(float)INFINITY),
                              sr_v_pick(sr_v_equal(x, infinity), infinity, log));
    return sr_v_pick(sr_v_ge(x, zero), y, sr_v_set((float)NAN));
}

SR_INLINE sr_vf sr_v_erff(sr_vf x) {
    return sr_vd_narrow(sr_vd_erf(sr_vd_widen(x, false)), sr_vd_erf(sr_vd_widen(x, true)));
}

#endif
