// SPDX-License-Identifier: Apache-2.0
// Sixteen fp32 elements: one AVX-512 register, or two AVX2 registers.
//
// Kernels are written once against these types and compiled for each width (CMakeLists). Both
// widths do the same operations on the same sixteen virtual elements in the same order, so they
// give the same bits and form one numerics class. Everything except the tables is static, so no
// function compiled with wide instructions can be linked into generic code.
//
// Elements beyond the end of an array are never accessed: the *_first forms read zeros there and do
// not write. Rounding to bf16 and f16 gives the bits of kernels/base/dtype.h: to bf16 in integer
// arithmetic, as the processor's own conversion flushes subnormal numbers; to f16 by VCVTPS2PH,
// which does not, with rounding to nearest even regardless of MXCSR.
//
// Source: Intel Intrinsics Guide. Deliberately not a general vector library: it has only what is
// used.
#ifndef SR_KERNELS_CPU_X86_VECTOR_INTERNAL_H
#define SR_KERNELS_CPU_X86_VECTOR_INTERNAL_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/base/dtype.h"

#define SR_ELEMENTS 16
#define SR_INLINE static inline __attribute__((always_inline, unused))

// Placed before a loop whose counter indexes an array of registers.
#if defined(__clang__)
#define SR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SR_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__)

typedef __m512 sr_vf;
typedef __m512i sr_vi;
typedef __mmask16 sr_vmask;

SR_INLINE sr_vmask sr_v_first(int n) {
    return (sr_vmask)((1u << n) - 1u);
}
SR_INLINE sr_vf sr_v_set(float x) {
    return _mm512_set1_ps(x);
}
SR_INLINE sr_vf sr_v_zero(void) {
    return _mm512_setzero_ps();
}
SR_INLINE sr_vf sr_v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
SR_INLINE sr_vf sr_v_load_first(const float *p, int n) {
    return _mm512_maskz_loadu_ps(sr_v_first(n), p);
}
SR_INLINE void sr_v_store(float *p, sr_vf x) {
    _mm512_storeu_ps(p, x);
}
SR_INLINE void sr_v_stream(float *p, sr_vf x) { // bypasses the caches; p is 64-byte aligned
    _mm512_stream_ps(p, x);
}
SR_INLINE void sr_v_store_first(float *p, sr_vf x, int n) {
    _mm512_mask_storeu_ps(p, sr_v_first(n), x);
}
SR_INLINE sr_vf sr_v_add(sr_vf a, sr_vf b) {
    return _mm512_add_ps(a, b);
}
SR_INLINE sr_vf sr_v_sub(sr_vf a, sr_vf b) {
    return _mm512_sub_ps(a, b);
}
SR_INLINE sr_vf sr_v_mul(sr_vf a, sr_vf b) {
    return _mm512_mul_ps(a, b);
}
SR_INLINE sr_vf sr_v_div(sr_vf a, sr_vf b) {
    return _mm512_div_ps(a, b);
}
SR_INLINE sr_vf sr_v_sqrt(sr_vf a) {
    return _mm512_sqrt_ps(a);
}
SR_INLINE sr_vf sr_v_fma(sr_vf a, sr_vf b, sr_vf c) { // a b + c, rounded once
    return _mm512_fmadd_ps(a, b, c);
}
SR_INLINE sr_vf sr_v_max(sr_vf a, sr_vf b) { // b where either is NaN
    return _mm512_max_ps(a, b);
}
SR_INLINE sr_vf sr_v_min(sr_vf a, sr_vf b) { // b where either is NaN
    return _mm512_min_ps(a, b);
}
SR_INLINE sr_vf sr_v_abs(sr_vf a) {
    return _mm512_abs_ps(a);
}
SR_INLINE sr_vf sr_v_round(sr_vf a) { // to the nearest integer, ties to even
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
SR_INLINE sr_vmask sr_v_gt(sr_vf a, sr_vf b) { // false where either is NaN
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
SR_INLINE sr_vmask sr_v_ge(sr_vf a, sr_vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
SR_INLINE sr_vmask sr_v_equal(sr_vf a, sr_vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
SR_INLINE sr_vmask sr_v_unordered(sr_vf a, sr_vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}
SR_INLINE sr_vf sr_v_pick(sr_vmask m, sr_vf yes, sr_vf no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
SR_INLINE sr_vf sr_v_sign(sr_vf magnitude, sr_vf sign) { // magnitude >= 0
    return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}

SR_INLINE sr_vi sr_vi_set(int32_t x) {
    return _mm512_set1_epi32(x);
}
SR_INLINE sr_vi sr_vi_load(const void *p) {
    return _mm512_loadu_si512(p);
}
SR_INLINE sr_vi sr_vi_add(sr_vi a, sr_vi b) {
    return _mm512_add_epi32(a, b);
}
SR_INLINE sr_vi sr_vi_xor(sr_vi a, sr_vi b) {
    return _mm512_xor_si512(a, b);
}
SR_INLINE sr_vi sr_vi_shift_right(sr_vi a, int bits) {
    return _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits));
}
SR_INLINE sr_vi sr_vi_shift_left(sr_vi a, int bits) {
    return _mm512_sll_epi32(a, _mm_cvtsi32_si128(bits));
}
SR_INLINE sr_vmask sr_vi_equal(sr_vi a, sr_vi b) {
    return _mm512_cmpeq_epi32_mask(a, b);
}
SR_INLINE sr_vi sr_vi_pick(sr_vmask m, sr_vi yes, sr_vi no) {
    return _mm512_mask_blend_epi32(m, no, yes);
}
// Low and high 32 bits of the unsigned products.
SR_INLINE sr_vi sr_vi_mul_wide(sr_vi a, sr_vi b, sr_vi *high) {
    __m512i even = _mm512_mul_epu32(a, b);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
SR_INLINE sr_vf sr_v_from_int(sr_vi a) {
    return _mm512_cvtepi32_ps(a);
}
SR_INLINE sr_vi sr_v_to_int(sr_vf a) { // of integral values
    return _mm512_cvtps_epi32(a);
}
SR_INLINE sr_vf sr_v_as_float(sr_vi a) {
    return _mm512_castsi512_ps(a);
}
SR_INLINE sr_vi sr_v_as_int(sr_vf a) {
    return _mm512_castps_si512(a);
}

SR_INLINE sr_vi sr_vi_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
SR_INLINE void sr_vi_store_u8(uint8_t *p, sr_vi a) { // of values 0..255
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(a));
}
SR_INLINE sr_vf sr_v_load_bf16(const uint16_t *p) {
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
SR_INLINE sr_vi sr_v_round_bf16(sr_vf x) { // in the upper halves; the lower ones are arbitrary
    __m512i u = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), r, quiet);
}
SR_INLINE void sr_v_store_bf16(uint16_t *p, sr_vf x) {
    __m512i r = sr_v_round_bf16(x);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
SR_INLINE sr_vf sr_v_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
SR_INLINE void sr_v_store_f16(uint16_t *p, sr_vf x) {
    __m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256((__m256i *)(void *)p, h);
}
// Transposes 4 x 4 inside each group of four elements. Before, w[j] has word j of sixteen counters;
// afterwards, w[j] has, for each group g, the four words of counter 4 g + j.
SR_INLINE void sr_vi_transpose4(sr_vi *w) {
    __m512i a = _mm512_unpacklo_epi32(w[0], w[1]), b = _mm512_unpackhi_epi32(w[0], w[1]);
    __m512i c = _mm512_unpacklo_epi32(w[2], w[3]), d = _mm512_unpackhi_epi32(w[2], w[3]);
    w[0] = _mm512_unpacklo_epi64(a, c);
    w[1] = _mm512_unpackhi_epi64(a, c);
    w[2] = _mm512_unpacklo_epi64(b, d);
    w[3] = _mm512_unpackhi_epi64(b, d);
}
// The groups of four elements.
SR_INLINE void sr_v_groups(sr_vf x, __m128 group[4]) {
    group[0] = _mm512_castps512_ps128(x);
    group[1] = _mm512_extractf32x4_ps(x, 1);
    group[2] = _mm512_extractf32x4_ps(x, 2);
    group[3] = _mm512_extractf32x4_ps(x, 3);
}

#else

typedef struct sr_vf {
    __m256 a, b;
} sr_vf;
typedef struct sr_vi {
    __m256i a, b;
} sr_vi;
typedef struct sr_vmask {
    __m256 a, b;
} sr_vmask;

#define SR_V2(type, name, intrinsic)                                                               \
    SR_INLINE type name(type x, type y) {                                                          \
        return (type){intrinsic(x.a, y.a), intrinsic(x.b, y.b)};                                   \
    }
#define SR_V1(to, from, name, intrinsic)                                                           \
    SR_INLINE to name(from x) {                                                                    \
        return (to){intrinsic(x.a), intrinsic(x.b)};                                               \
    }

SR_INLINE sr_vmask sr_v_first(int n) {
    __m256i element = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i high = _mm256_add_epi32(element, _mm256_set1_epi32(8)), limit = _mm256_set1_epi32(n);
    return (sr_vmask){_mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, element)),
                      _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, high))};
}
SR_INLINE sr_vf sr_v_set(float x) {
    return (sr_vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
SR_INLINE sr_vf sr_v_zero(void) {
    return (sr_vf){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
SR_INLINE sr_vf sr_v_load(const float *p) {
    return (sr_vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
SR_INLINE sr_vf sr_v_load_first(const float *p, int n) {
    sr_vmask m = sr_v_first(n);
    return (sr_vf){_mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
                   _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
SR_INLINE void sr_v_store(float *p, sr_vf x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
SR_INLINE void sr_v_stream(float *p, sr_vf x) {
    _mm256_stream_ps(p, x.a);
    _mm256_stream_ps(p + 8, x.b);
}
SR_INLINE void sr_v_store_first(float *p, sr_vf x, int n) {
    sr_vmask m = sr_v_first(n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
    _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}
SR_V2(sr_vf, sr_v_add, _mm256_add_ps)
SR_V2(sr_vf, sr_v_sub, _mm256_sub_ps)
SR_V2(sr_vf, sr_v_mul, _mm256_mul_ps)
SR_V2(sr_vf, sr_v_div, _mm256_div_ps)
SR_V2(sr_vf, sr_v_max, _mm256_max_ps)
SR_V2(sr_vf, sr_v_min, _mm256_min_ps)
SR_INLINE sr_vf sr_v_sqrt(sr_vf x) {
    return (sr_vf){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}
SR_INLINE sr_vf sr_v_fma(sr_vf a, sr_vf b, sr_vf c) {
    return (sr_vf){_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)};
}
SR_INLINE sr_vf sr_v_abs(sr_vf x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (sr_vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
SR_INLINE sr_vf sr_v_round(sr_vf x) {
    return (sr_vf){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                   _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
SR_INLINE sr_vmask sr_v_gt(sr_vf x, sr_vf y) {
    return (sr_vmask){_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)};
}
SR_INLINE sr_vmask sr_v_ge(sr_vf x, sr_vf y) {
    return (sr_vmask){_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)};
}
SR_INLINE sr_vmask sr_v_equal(sr_vf x, sr_vf y) {
    return (sr_vmask){_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
}
SR_INLINE sr_vmask sr_v_unordered(sr_vf x, sr_vf y) {
    return (sr_vmask){_mm256_cmp_ps(x.a, y.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, y.b, _CMP_UNORD_Q)};
}
SR_INLINE sr_vf sr_v_pick(sr_vmask m, sr_vf yes, sr_vf no) {
    return (sr_vf){_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
SR_INLINE sr_vf sr_v_sign(sr_vf magnitude, sr_vf sign) {
    __m256 bit = _mm256_set1_ps(-0.0f);
    return (sr_vf){_mm256_or_ps(magnitude.a, _mm256_and_ps(sign.a, bit)),
                   _mm256_or_ps(magnitude.b, _mm256_and_ps(sign.b, bit))};
}

SR_INLINE sr_vi sr_vi_set(int32_t x) {
    return (sr_vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
SR_INLINE sr_vi sr_vi_load(const void *p) {
    const __m256i *v = p;
    return (sr_vi){_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
SR_V2(sr_vi, sr_vi_add, _mm256_add_epi32)
SR_V2(sr_vi, sr_vi_xor, _mm256_xor_si256)
SR_INLINE sr_vi sr_vi_shift_right(sr_vi x, int bits) {
    __m128i n = _mm_cvtsi32_si128(bits);
    return (sr_vi){_mm256_srl_epi32(x.a, n), _mm256_srl_epi32(x.b, n)};
}
SR_INLINE sr_vi sr_vi_shift_left(sr_vi x, int bits) {
    __m128i n = _mm_cvtsi32_si128(bits);
    return (sr_vi){_mm256_sll_epi32(x.a, n), _mm256_sll_epi32(x.b, n)};
}
SR_INLINE sr_vmask sr_vi_equal(sr_vi x, sr_vi y) {
    return (sr_vmask){_mm256_castsi256_ps(_mm256_cmpeq_epi32(x.a, y.a)),
                      _mm256_castsi256_ps(_mm256_cmpeq_epi32(x.b, y.b))};
}
SR_INLINE sr_vi sr_vi_pick(sr_vmask m, sr_vi yes, sr_vi no) {
    return (sr_vi){_mm256_blendv_epi8(no.a, yes.a, _mm256_castps_si256(m.a)),
                   _mm256_blendv_epi8(no.b, yes.b, _mm256_castps_si256(m.b))};
}
SR_INLINE __m256i sr_vi_mul_wide8(__m256i a, __m256i b, __m256i *high) {
    __m256i even = _mm256_mul_epu32(a, b);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
SR_INLINE sr_vi sr_vi_mul_wide(sr_vi x, sr_vi y, sr_vi *high) {
    sr_vi low;
    low.a = sr_vi_mul_wide8(x.a, y.a, &high->a);
    low.b = sr_vi_mul_wide8(x.b, y.b, &high->b);
    return low;
}
SR_V1(sr_vf, sr_vi, sr_v_from_int, _mm256_cvtepi32_ps)
SR_V1(sr_vi, sr_vf, sr_v_to_int, _mm256_cvtps_epi32)
SR_V1(sr_vf, sr_vi, sr_v_as_float, _mm256_castsi256_ps)
SR_V1(sr_vi, sr_vf, sr_v_as_int, _mm256_castps_si256)

SR_INLINE sr_vi sr_vi_load_u8(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (sr_vi){_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
SR_INLINE __m256i sr_vi_narrow(sr_vi x) { // sixteen values 0..65535 as u16, in order
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(x.a, x.b), 0xd8);
}
SR_INLINE void sr_vi_store_u8(uint8_t *p, sr_vi x) {
    __m256i h = sr_vi_narrow(x);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}
SR_INLINE sr_vf sr_v_load_bf16(const uint16_t *p) {
    const __m128i *v = (const __m128i *)(const void *)p;
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(v));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128(v + 1));
    return (sr_vf){_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
                   _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
}
SR_INLINE __m256i sr_v_round_bf16x8(__m256 x) {
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(r, quiet, nan), 16);
}
SR_INLINE void sr_v_store_bf16(uint16_t *p, sr_vf x) {
    sr_vi r = {sr_v_round_bf16x8(x.a), sr_v_round_bf16x8(x.b)};
    _mm256_storeu_si256((__m256i *)(void *)p, sr_vi_narrow(r));
}
SR_INLINE sr_vf sr_v_load_f16(const uint16_t *p) {
    const __m128i *v = (const __m128i *)(const void *)p;
    return (sr_vf){_mm256_cvtph_ps(_mm_loadu_si128(v)), _mm256_cvtph_ps(_mm_loadu_si128(v + 1))};
}
SR_INLINE void sr_v_store_f16(uint16_t *p, sr_vf x) {
    __m128i *v = (__m128i *)(void *)p;
    _mm_storeu_si128(v, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(v + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
SR_INLINE void sr_vi_transpose4(sr_vi *w) {
    sr_vi out[4];
    for (int half = 0; half < 2; half++) {
        __m256i w0 = half ? w[0].b : w[0].a, w1 = half ? w[1].b : w[1].a;
        __m256i w2 = half ? w[2].b : w[2].a, w3 = half ? w[3].b : w[3].a;
        __m256i a = _mm256_unpacklo_epi32(w0, w1), b = _mm256_unpackhi_epi32(w0, w1);
        __m256i c = _mm256_unpacklo_epi32(w2, w3), d = _mm256_unpackhi_epi32(w2, w3);
        __m256i t[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                        _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
        for (int j = 0; j < 4; j++) {
            if (half)
                out[j].b = t[j];
            else
                out[j].a = t[j];
        }
    }
    for (int j = 0; j < 4; j++)
        w[j] = out[j];
}
SR_INLINE void sr_v_groups(sr_vf x, __m128 group[4]) {
    group[0] = _mm256_castps256_ps128(x.a);
    group[1] = _mm256_extractf128_ps(x.a, 1);
    group[2] = _mm256_castps256_ps128(x.b);
    group[3] = _mm256_extractf128_ps(x.b, 1);
}
#undef SR_V1
#undef SR_V2
#endif

// ---- Common to both widths ----

// Elements of 16 bits: bf16 or f16.
SR_INLINE sr_vf sr_v_load_half(const uint16_t *p, sr_dtype type) {
    return type == SR_BF16 ? sr_v_load_bf16(p) : sr_v_load_f16(p);
}
SR_INLINE sr_vf sr_v_load_half_first(const uint16_t *p, int n, sr_dtype type) {
    uint16_t elements[SR_ELEMENTS] = {0};
#if defined(__AVX512F__)
    _mm256_storeu_si256((void *)elements, _mm256_maskz_loadu_epi16(sr_v_first(n), p));
#else
    memcpy(elements, p, (size_t)n * sizeof *p);
#endif
    return sr_v_load_half(elements, type);
}
SR_INLINE void sr_v_store_half(uint16_t *p, sr_vf x, sr_dtype type) {
    if (type == SR_BF16)
        sr_v_store_bf16(p, x);
    else
        sr_v_store_f16(p, x);
}
SR_INLINE void sr_v_store_half_first(uint16_t *p, sr_vf x, int n, sr_dtype type) {
    uint16_t elements[SR_ELEMENTS];
    sr_v_store_half(elements, x, type);
#if defined(__AVX512F__)
    _mm256_mask_storeu_epi16(p, sr_v_first(n), _mm256_loadu_si256((const void *)elements));
#else
    memcpy(p, elements, (size_t)n * sizeof *p);
#endif
}
SR_INLINE sr_vi sr_vi_load_u8_first(const uint8_t *p, int n) {
    uint8_t elements[SR_ELEMENTS] = {0};
    memcpy(elements, p, (size_t)n);
    return sr_vi_load_u8(elements);
}
SR_INLINE void sr_vi_store_u8_first(uint8_t *p, sr_vi x, int n) {
    uint8_t elements[SR_ELEMENTS];
    sr_vi_store_u8(elements, x);
    memcpy(p, elements, (size_t)n);
}

// Elements i .. i + n - 1 (n <= 16) of an array of this type: f32, bf16 or f16. Callers are inlined
// into a function for one type, so that 'type' is a constant.
SR_INLINE sr_vf sr_v_get(const void *base, int64_t i, int n, sr_dtype type) {
    if (type != SR_F32) {
        const uint16_t *p = (const uint16_t *)base + i;
        return n == SR_ELEMENTS ? sr_v_load_half(p, type) : sr_v_load_half_first(p, n, type);
    }
    const float *p = (const float *)base + i;
    return n == SR_ELEMENTS ? sr_v_load(p) : sr_v_load_first(p, n);
}
SR_INLINE void sr_v_put(void *base, int64_t i, sr_vf x, int n, sr_dtype type) {
    if (type != SR_F32) {
        uint16_t *p = (uint16_t *)base + i;
        if (n == SR_ELEMENTS)
            sr_v_store_half(p, x, type);
        else
            sr_v_store_half_first(p, x, n, type);
        return;
    }
    float *p = (float *)base + i;
    if (n == SR_ELEMENTS)
        sr_v_store(p, x);
    else
        sr_v_store_first(p, x, n);
}
// Rounds a parameter to T: parameters are f32 and are rounded where they are used.
SR_INLINE sr_vf sr_v_rounded(sr_vf x, sr_dtype type) {
    if (type == SR_F32)
        return x;
    uint16_t rounded[SR_ELEMENTS];
    sr_v_store_half(rounded, x, type);
    return sr_v_load_half(rounded, type);
}
SR_INLINE float sr_x86_rounded(float x, sr_dtype type) {
    if (type == SR_F16)
        return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
    return type == SR_BF16 ? sr_bf16_to_f32(sr_f32_to_bf16(x)) : x;
}
// Element i of an array of this type.
SR_INLINE float sr_x86_element(const void *base, int64_t i, sr_dtype type) {
    if (type == SR_F32)
        return ((const float *)base)[i];
    const uint16_t half = ((const uint16_t *)base)[i];
    return type == SR_F16 ? _cvtsh_ss(half) : sr_bf16_to_f32(half);
}
// Bytes of an element of T.
SR_INLINE int64_t sr_x86_bytes(sr_dtype type) {
    return type == SR_F32 ? 4 : 2;
}
// Writes the transpose of four rows of n <= 16 elements: to[n][width], four elements in each row,
// one row after the other.
SR_INLINE void sr_v_put_transposed(const sr_vf row[4], int n, float *to, int64_t width) {
    sr_vi r[4];
    __m128 group[4][4];
    SR_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = sr_v_as_int(row[i]);
    sr_vi_transpose4(r);
    SR_UNROLL
    for (int i = 0; i < 4; i++)
        sr_v_groups(sr_v_as_float(r[i]), group[i]);
    SR_UNROLL
    for (int c = 0; c < SR_ELEMENTS; c++)
        if (c < n)
            _mm_storeu_ps(to + c * width, group[c % 4][c / 4]);
}
// Writes from[tap][pitch], of which n <= 16 channels are used, as to[channel][tap].
SR_INLINE void sr_v_put_taps(const float *from, int64_t pitch, int64_t taps, int n, float *to) {
    if (taps < 4) {
        for (int c = 0; c < n; c++)
            for (int64_t t = 0; t < taps; t++)
                to[c * taps + t] = from[t * pitch + c];
        return;
    }
    for (int64_t t = 0; t < taps; t += 4) {
        const int64_t first = t < taps - 4 ? t : taps - 4; // the last four overlap those before
        sr_vf row[4];
        for (int i = 0; i < 4; i++)
            row[i] = sr_v_get(from, (first + i) * pitch, n, SR_F32);
        sr_v_put_transposed(row, n, to + first, taps);
    }
}
// The sum of the elements: neighbours first, 16 to 8 to 4 to 2 to 1 (the reference's tree).
SR_INLINE float sr_v_sum(sr_vf x) {
    float element[SR_ELEMENTS];
    sr_v_store(element, x);
    for (int step = 1; step < SR_ELEMENTS; step *= 2)
        for (int i = 0; i + step < SR_ELEMENTS; i += 2 * step)
            element[i] = element[i] + element[i + step];
    return element[0];
}

#endif
