// SPDX-License-Identifier: Apache-2.0
// Inner loops of resizing for SSE2, which every x86-64 processor has: two taps per multiply-add.
#include <emmintrin.h>
#include <string.h>

#include "dataio/image/resample_rows_internal.h"

static __m128i weight_pair(const int16_t *weights) {
    int32_t pair;
    memcpy(&pair, weights, sizeof pair);
    return _mm_set1_epi32(pair);
}

static __m128i load(const void *p) {
    return _mm_loadu_si128((const __m128i *)p);
}

// 16 columns from i on.
static void columns16(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t i,
                      int16_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS - SR_RESAMPLE_ROW_BITS;
    const __m128i zero = _mm_setzero_si128(), half = _mm_set1_epi32(1 << (shift - 1));
    __m128i s0 = half, s1 = half, s2 = half, s3 = half;
    for (int t = 0; t < taps; t += 2) {
        __m128i a = load(rows[t] + i), b = load(rows[t + 1] + i), w = weight_pair(weights + t);
        __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
        s0 = _mm_add_epi32(s0, _mm_madd_epi16(_mm_unpacklo_epi8(low, zero), w));
        s1 = _mm_add_epi32(s1, _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), w));
        s2 = _mm_add_epi32(s2, _mm_madd_epi16(_mm_unpacklo_epi8(high, zero), w));
        s3 = _mm_add_epi32(s3, _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), w));
    }
    s0 = _mm_packs_epi32(_mm_srai_epi32(s0, shift), _mm_srai_epi32(s1, shift));
    s2 = _mm_packs_epi32(_mm_srai_epi32(s2, shift), _mm_srai_epi32(s3, shift));
    _mm_storeu_si128((__m128i *)(void *)(out + i), s0);
    _mm_storeu_si128((__m128i *)(void *)(out + i + 8), s2);
}

static void columns(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t n,
                    int16_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS - SR_RESAMPLE_ROW_BITS;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        columns16(rows, weights, taps, i, out);
    for (; i < n; i++) {
        int32_t sum = 1 << (shift - 1);
        for (int t = 0; t < taps; t++)
            sum += weights[t] * rows[t][i];
        out[i] = (int16_t)(sum >> shift);
    }
}

static void row(const sr_resample_line *line, const int16_t *in, uint8_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS + SR_RESAMPLE_ROW_BITS;
    const __m128i half = _mm_set1_epi32(1 << (shift - 1));
    const int16_t *weights = line->weights;
    const int64_t step = line->flip ? -3 : 3;
    out += line->flip ? 3 * (line->n - 1) : 0;
    for (int64_t i = 0; i < line->n; i++, out += step, weights += line->taps) {
        const int16_t *p = in + 3 * (int64_t)line->first[i];
        __m128i sum = half;
        for (int t = 0; t < line->taps; t += 2, p += 6) {
            __m128i pixels = load(p); // r0 g0 b0 r1 g1 b1 - -
            __m128i pairs = _mm_unpacklo_epi16(pixels, _mm_srli_si128(pixels, 6));
            sum = _mm_add_epi32(sum, _mm_madd_epi16(pairs, weight_pair(weights + t)));
        }
        sum = _mm_srai_epi32(sum, shift);
        sum = _mm_packs_epi32(sum, sum);
        uint32_t rgb = (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
        out[0] = (uint8_t)rgb;
        out[1] = (uint8_t)(rgb >> 8);
        out[2] = (uint8_t)(rgb >> 16);
    }
}

const sr_resample_set sr_resample_sse2 = {.columns = columns, .row = row};
