// SPDX-License-Identifier: Apache-2.0
// Inner loops of resizing for AVX2; compiled with -mavx2.
//
// Between the passes a pixel is three numbers, so one shuffle pairs two neighbouring taps; each
// half of a vector computes another output pixel.
#include <immintrin.h>
#include <string.h>

#include "dataio/image/resample_rows_internal.h"

enum { ROUND = 32, PIXELS = 4 }; // columns per iteration; pixels of a row per iteration

static inline __m256i load(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline __m256i weight_pair(const int16_t *weights) {
    int32_t pair;
    memcpy(&pair, weights, sizeof pair);
    return _mm256_set1_epi32(pair);
}

// ROUND columns from i on.
static inline void columns32(const uint8_t *const *rows, const int16_t *weights, int taps,
                             int64_t i, int16_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS - SR_RESAMPLE_ROW_BITS;
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(1 << (shift - 1));
    __m256i sum[4] = {half, half, half, half};
    for (int t = 0; t < taps; t += 2) {
        const __m256i a = load(rows[t] + i), b = load(rows[t + 1] + i),
                      w = weight_pair(weights + t);
        const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
        const __m256i part[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                                 _mm256_unpacklo_epi8(high, zero),
                                 _mm256_unpackhi_epi8(high, zero)};
        for (int k = 0; k < 4; k++)
            sum[k] = _mm256_add_epi32(sum[k], _mm256_madd_epi16(part[k], w));
    }
    for (int k = 0; k < 4; k++)
        sum[k] = _mm256_srai_epi32(sum[k], shift);
    // Columns 0 to 7 and 8 to 15 of each half.
    const __m256i even = _mm256_packs_epi32(sum[0], sum[1]);
    const __m256i odd = _mm256_packs_epi32(sum[2], sum[3]);
    _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(out + i + ROUND / 2),
                        _mm256_permute2x128_si256(even, odd, 0x31));
}

static void columns(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t n,
                    int16_t *out) {
    if (n < ROUND) {
        sr_resample_sse2.columns(rows, weights, taps, n, out);
        return;
    }
    for (int64_t i = 0; i + ROUND <= n; i += ROUND)
        columns32(rows, weights, taps, i, out);
    if (n % ROUND != 0) // repeats some of them
        columns32(rows, weights, taps, n - ROUND, out);
}

// Sums of pixels a and b, one in each half: r, g, b and an unused element.
static inline __m256i two_pixels(const sr_resample_line *line, const int16_t *in, int64_t a,
                                 int64_t b) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 4, 5, 10, 11));
    const int16_t *p = in + 3 * (int64_t)line->first[a], *q = in + 3 * (int64_t)line->first[b];
    const int16_t *v = line->weights + a * line->taps, *w = line->weights + b * line->taps;
    __m256i sum = _mm256_set1_epi32(1 << (SR_RESAMPLE_WEIGHT_BITS + SR_RESAMPLE_ROW_BITS - 1));
    for (int t = 0; t < line->taps; t += 2, p += 6, q += 6) {
        const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)p);
        const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)q);
        const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        const __m256i weights = _mm256_blend_epi32(weight_pair(v + t), weight_pair(w + t), 0xf0);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(both, order), weights));
    }
    return _mm256_srai_epi32(sum, SR_RESAMPLE_WEIGHT_BITS + SR_RESAMPLE_ROW_BITS);
}

// The pixel to write as pixel i; the last one beyond the end.
static inline int64_t source(const sr_resample_line *line, int64_t i) {
    i = i < line->n ? i : line->n - 1;
    return line->flip ? line->n - 1 - i : i;
}

static void row(const sr_resample_line *line, const int16_t *in, uint8_t *out) {
    const __m128i rgb = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    for (int64_t i = 0; i < line->n; i += PIXELS) {
        const __m256i a = two_pixels(line, in, source(line, i), source(line, i + 1));
        const __m256i b = two_pixels(line, in, source(line, i + 2), source(line, i + 3));
        const __m256i words = _mm256_packs_epi32(a, b);
        const __m256i bytes = _mm256_packus_epi16(words, words); // pixels 0 and 2, 1 and 3
        const __m128i four =
            _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
        uint8_t pixels[16];
        _mm_storeu_si128((__m128i *)(void *)pixels, _mm_shuffle_epi8(four, rgb));
        const int64_t left = line->n - i;
        memcpy(out + 3 * i, pixels, left < PIXELS ? 3 * (size_t)left : 3 * PIXELS);
    }
}

const sr_resample_set sr_resample_avx2 = {.columns = columns, .row = row};
