// SPDX-License-Identifier: Apache-2.0
// Pairs of bf16 in 32 bits, the first one in the lower half: the operands of bf16 products on tiles
// (x86_amx_internal.h) and in vectors (x86_dot_internal.h).
#ifndef SR_KERNELS_CPU_X86_PAIRS_INTERNAL_H
#define SR_KERNELS_CPU_X86_PAIRS_INTERNAL_H

#include "kernels/cpu/x86/x86_vector_internal.h"

#define PAIRS_SIDE 16 // pairs of a vector

// Joins two vectors whose values are in the upper halves of their elements; 'low' becomes the lower
// halves.
SR_INLINE __m512i pairs_join(__m512i low, __m512i high) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(low, 16), high);
}

// Loads the first n <= 32 numbers at 'from', followed by zeros.
SR_INLINE __m512i pairs_load(const uint16_t *from, int64_t n) {
    return n < 2 * SR_ELEMENTS ? _mm512_maskz_loadu_epi16((__mmask32)((UINT64_C(1) << n) - 1), from)
                               : _mm512_loadu_si512(from);
}

// Stores the 32 pairs of the elements of two vectors of 32 numbers.
SR_INLINE void pairs_interleave(__m512i low, __m512i high, uint16_t *to) {
    const __m512i numbers = _mm512_setr_epi32(
        0x200000, 0x210001, 0x220002, 0x230003, 0x240004, 0x250005, 0x260006, 0x270007, 0x280008,
        0x290009, 0x2a000a, 0x2b000b, 0x2c000c, 0x2d000d, 0x2e000e, 0x2f000f);
    const __m512i half = _mm512_set1_epi16(16);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, numbers, high));
    _mm512_storeu_si512(to + 2 * PAIRS_SIDE,
                        _mm512_permutex2var_epi16(low, _mm512_add_epi16(numbers, half), high));
}

// to[i][j] = from[j][i] of 16 x 16 pairs, for i < rows; rows of 'to' are 'pitch' pairs apart.
SR_INLINE void pairs_transpose(const uint32_t *from, int rows, uint32_t *to, int64_t pitch) {
    __m512i r[PAIRS_SIDE], t[PAIRS_SIDE];
    SR_UNROLL
    for (int i = 0; i < PAIRS_SIDE; i += 2) {
        const __m512i a = _mm512_loadu_si512(from + i * PAIRS_SIDE);
        const __m512i b = _mm512_loadu_si512(from + (i + 1) * PAIRS_SIDE);
        t[i] = _mm512_unpacklo_epi32(a, b);
        t[i + 1] = _mm512_unpackhi_epi32(a, b);
    }
    SR_UNROLL
    for (int i = 0; i < PAIRS_SIDE; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    SR_UNROLL
    for (int j = 0; j < 4; j++) { // quarter q of r[j], r[4 + j] and so on: row 4 q + j
        const __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x44);
        const __m512i b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xee);
        const __m512i c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x44);
        const __m512i d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xee);
        t[j] = _mm512_shuffle_i32x4(a, c, 0x88);
        t[4 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
        t[8 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
        t[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
    for (int i = 0; i < rows; i++)
        _mm512_storeu_si512(to + i * pitch, t[i]);
}

#endif
