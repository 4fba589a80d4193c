// SPDX-License-Identifier: Apache-2.0
// Chroma upsampling and YCbCr to RGB conversion, one row at a time.
//
// Upsampling is the "fancy" one of the Independent JPEG Group: a triangle filter, 3/4 of the nearer
// sample and 1/4 of the farther one in each direction, with alternating rounding. Colour conversion
// is that of JFIF 1.02 with factors of 16 bits. To compute f x in 16 bits: f x = n x + (f - n) x,
// with integer n and a remainder below one half, whose product is the upper half of a
// multiplication.
#ifndef SR_DATAIO_JPEG_ROWS_INTERNAL_H
#define SR_DATAIO_JPEG_ROWS_INTERNAL_H

#include "dataio/jpeg/jpeg_set_internal.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum {                    // times 2^16, rounded
    JR_RED_CR = 91881,    // 1.402
    JR_GREEN_CB = -22554, // -0.34414
    JR_GREEN_CR = -46802, // -0.71414
    JR_BLUE_CB = 116130,  // 1.772
    JR_HALF = 1 << 15,
    JR_BITS = 16,
    JR_CENTRE = 128,
};

static void jr_mix_rows(const uint8_t *restrict near, const uint8_t *restrict far, int64_t n,
                        int16_t *restrict out) {
    for (int64_t i = 0; i < n; i += SR_JPEG_ROUND)
        for (int64_t k = i; k < i + SR_JPEG_ROUND; k++)
            out[k] = (int16_t)(3 * near[k] + far[k]);
}

static void jr_blend_rows(const uint8_t *restrict near, const uint8_t *restrict far, int64_t n,
                          int bias, uint8_t *restrict out) {
    for (int64_t i = 0; i < n; i += SR_JPEG_ROUND)
        for (int64_t k = i; k < i + SR_JPEG_ROUND; k++)
            out[k] = (uint8_t)((3 * near[k] + far[k] + bias) >> 2);
}

#if defined(__AVX2__)

static inline __m256i jr_load(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

// 16 samples to 32 per iteration.
static void jr_spread_row(const int16_t *in, int64_t n, int first, int second, int shift,
                          uint8_t *out) {
    const __m256i before = _mm256_set1_epi16((int16_t)first);
    const __m256i behind = _mm256_set1_epi16((int16_t)second);
    const __m128i by = _mm_cvtsi32_si128(shift);
    for (int64_t i = 0; i < n; i += SR_JPEG_ROUND / 2) {
        const __m256i x = jr_load(in + i), three = _mm256_add_epi16(x, _mm256_add_epi16(x, x));
        const __m256i a = _mm256_add_epi16(three, _mm256_add_epi16(jr_load(in + i - 1), before));
        const __m256i b = _mm256_add_epi16(three, _mm256_add_epi16(jr_load(in + i + 1), behind));
        const __m256i even = _mm256_srl_epi16(a, by), odd = _mm256_srl_epi16(b, by);
        _mm256_storeu_si256((__m256i *)(void *)(out + 2 * i),
                            _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
    }
}

// Shuffles of 16 bytes of each colour to a third of the sequence r g b r g b ...; -1: zero.
static const int8_t jr_order[3][3][16] = {
    {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
     {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
     {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
    {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
     {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
     {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
    {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
     {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
     {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}}};

// The bytes of one colour in a third of the output, in both halves.
static inline __m256i jr_third(__m256i colour, int third, int number) {
    const void *order = jr_order[third][number];
    return _mm256_shuffle_epi8(
        colour, _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)order)));
}

// 32 pixels: two halves of 16, since shuffles do not cross them.
static inline void jr_store_rgb(__m256i r, __m256i g, __m256i b, uint8_t *rgb) {
    __m256i part[3];
    for (int i = 0; i < 3; i++)
        part[i] = _mm256_or_si256(jr_third(r, i, 0),
                                  _mm256_or_si256(jr_third(g, i, 1), jr_third(b, i, 2)));
    const __m256i first = _mm256_permute2x128_si256(part[0], part[1], 0x20);
    const __m256i second = _mm256_permute2x128_si256(part[2], part[0], 0x30);
    const __m256i third = _mm256_permute2x128_si256(part[1], part[2], 0x31);
    _mm256_storeu_si256((__m256i *)(void *)rgb, first);
    _mm256_storeu_si256((__m256i *)(void *)(rgb + 32), second);
    _mm256_storeu_si256((__m256i *)(void *)(rgb + 64), third);
}

// Widens half of 32 bytes to 16-bit numbers: the lower or the upper 8 of each half of the vector.
static inline __m256i jr_widen(__m256i bytes, int upper) {
    const __m256i zero = _mm256_setzero_si256();
    return upper ? _mm256_unpackhi_epi8(bytes, zero) : _mm256_unpacklo_epi8(bytes, zero);
}

typedef struct jr_colours {
    __m256i r, g, b; // 16 bits
} jr_colours;

static inline jr_colours jr_convert(__m256i y, __m256i cb, __m256i cr) {
    const __m256i centre = _mm256_set1_epi16(JR_CENTRE), one = _mm256_set1_epi16(1);
    const __m256i half = _mm256_set1_epi32(JR_HALF);
    cb = _mm256_sub_epi16(cb, centre);
    cr = _mm256_sub_epi16(cr, centre);
    const __m256i cb2 = _mm256_add_epi16(cb, cb), cr2 = _mm256_add_epi16(cr, cr);
    __m256i red = _mm256_mulhi_epi16(cr2, _mm256_set1_epi16(JR_RED_CR - (1 << JR_BITS)));
    __m256i blue = _mm256_mulhi_epi16(cb2, _mm256_set1_epi16(JR_BLUE_CB - (2 << JR_BITS)));
    red = _mm256_srai_epi16(_mm256_add_epi16(red, one), 1);
    blue = _mm256_srai_epi16(_mm256_add_epi16(blue, one), 1);
    const __m256i factors = _mm256_set1_epi32(
        (int)((uint32_t)(uint16_t)JR_GREEN_CB | (uint32_t)(JR_GREEN_CR + (1 << JR_BITS)) << 16));
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), JR_BITS);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), JR_BITS);
    const __m256i green = _mm256_packs_epi32(low, high);
    return (jr_colours){.r = _mm256_add_epi16(y, _mm256_add_epi16(cr, red)),
                        .g = _mm256_sub_epi16(_mm256_add_epi16(y, green), cr),
                        .b = _mm256_add_epi16(y, _mm256_add_epi16(cb2, blue))};
}

static void jr_colour_row(const uint8_t *luma, const uint8_t *cb, const uint8_t *cr, int64_t n,
                          uint8_t *rgb) {
    for (int64_t i = 0; i < n && cb; i += SR_JPEG_ROUND, rgb += 3 * SR_JPEG_ROUND) {
        const __m256i y = jr_load(luma + i), b = jr_load(cb + i), r = jr_load(cr + i);
        const jr_colours low = jr_convert(jr_widen(y, 0), jr_widen(b, 0), jr_widen(r, 0));
        const jr_colours high = jr_convert(jr_widen(y, 1), jr_widen(b, 1), jr_widen(r, 1));
        jr_store_rgb(_mm256_packus_epi16(low.r, high.r), _mm256_packus_epi16(low.g, high.g),
                     _mm256_packus_epi16(low.b, high.b), rgb);
    }
    for (int64_t i = 0; i < n && !cb; i += SR_JPEG_ROUND, rgb += 3 * SR_JPEG_ROUND) {
        const __m256i y = jr_load(luma + i);
        jr_store_rgb(y, y, y, rgb);
    }
}

#else

static inline void jr_spread_one(const int16_t *in, int first, int second, int shift,
                                 uint8_t *out) {
    out[0] = (uint8_t)((3 * in[0] + in[-1] + first) >> shift);
    out[1] = (uint8_t)((3 * in[0] + in[1] + second) >> shift);
}

static inline uint8_t jr_byte(int value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static inline void jr_colour_one(int y, int cb, int cr, uint8_t *rgb) {
    cb -= JR_CENTRE;
    cr -= JR_CENTRE;
    rgb[0] = jr_byte(y + ((JR_RED_CR * cr + JR_HALF) >> JR_BITS));
    rgb[1] = jr_byte(y + ((JR_GREEN_CB * cb + JR_GREEN_CR * cr + JR_HALF) >> JR_BITS));
    rgb[2] = jr_byte(y + ((JR_BLUE_CB * cb + JR_HALF) >> JR_BITS));
}

static void jr_spread_row(const int16_t *in, int64_t n, int first, int second, int shift,
                          uint8_t *out) {
    for (int64_t i = 0; i < n; i++)
        jr_spread_one(in + i, first, second, shift, out + 2 * i);
}

static void jr_colour_row(const uint8_t *luma, const uint8_t *cb, const uint8_t *cr, int64_t n,
                          uint8_t *rgb) {
    for (int64_t i = 0; i < n; i++, rgb += 3)
        jr_colour_one(luma[i], cb ? cb[i] : JR_CENTRE, cr ? cr[i] : JR_CENTRE, rgb);
}

#endif
#endif
