// SPDX-License-Identifier: Apache-2.0
// Inner loops of resizing for AVX-512 F, BW and VL; compiled with these flags.
//
// A row is computed sixteen output bytes at a time, regardless of pixel boundaries: their taps are
// within 64 numbers of the intermediate row, from which one permutation selects the pairs of two
// neighbouring taps. For larger reductions, where they are not, the AVX2 loop is used.
#include <immintrin.h>
#include <string.h>

#include "dataio/image/resample_rows_internal.h"

enum { OUTPUTS = 16, WINDOW = 64, PAIR = 2 };

// Two neighbouring taps of sixteen outputs: their positions in the window, and weights.
typedef struct tap_pair {
    int16_t position[PAIR * OUTPUTS], weight[PAIR * OUTPUTS];
} tap_pair;

typedef struct groups {
    int64_t count;  // 0: a window is too small
    int64_t pairs;  // of taps
    int32_t *begin; // of each group
    tap_pair *taps; // [group][pair]
} groups;

static int64_t group_count(const sr_resample_line *line) {
    return (3 * line->n + OUTPUTS - 1) / OUTPUTS;
}

static size_t group_bytes(const sr_resample_line *line) {
    const size_t count = (size_t)group_count(line);
    return sizeof(groups) + count * sizeof(int32_t) + sizeof(tap_pair) +
           count * (size_t)(line->taps / PAIR) * sizeof(tap_pair);
}

// The pixel to write as pixel i.
static int64_t source(const sr_resample_line *line, int64_t i) {
    i = i < line->n ? i : line->n - 1;
    return line->flip ? line->n - 1 - i : i;
}

static bool fill_group(const sr_resample_line *line, groups *g, int64_t number) {
    int64_t begin = INT64_MAX, end = 0;
    for (int j = 0; j < OUTPUTS; j++) {
        const int64_t first = line->first[source(line, (OUTPUTS * number + j) / 3)];
        begin = first < begin ? first : begin;
        end = first + line->taps > end ? first + line->taps : end;
    }
    if (3 * (end - begin) > WINDOW)
        return false;
    g->begin[number] = (int32_t)(3 * begin);
    for (int64_t p = 0; p < g->pairs; p++) {
        tap_pair *t = &g->taps[number * g->pairs + p];
        for (int j = 0; j < OUTPUTS; j++) {
            const int64_t output = OUTPUTS * number + j, from = source(line, output / 3);
            const int64_t position = 3 * (line->first[from] - begin + PAIR * p) + output % 3;
            t->position[PAIR * j] = (int16_t)position;
            t->position[PAIR * j + 1] = (int16_t)(position + 3);
            memcpy(&t->weight[PAIR * j], line->weights + from * line->taps + PAIR * p,
                   PAIR * sizeof(int16_t));
        }
    }
    return true;
}

static void prepare(const sr_resample_line *line) {
    groups *g = line->groups;
    const int64_t count = group_count(line);
    g->pairs = line->taps / PAIR;
    g->count = count;
    g->begin = (int32_t *)(void *)(g + 1);
    const uintptr_t end = (uintptr_t)(g->begin + count);
    g->taps = (tap_pair *)((end + sizeof(tap_pair) - 1) / sizeof(tap_pair) * sizeof(tap_pair));
    for (int64_t i = 0; i < count; i++) {
        if (fill_group(line, g, i))
            continue;
        g->count = 0;
        return;
    }
}

// 'pairs' is a compile-time constant in the common cases.
static inline void row_of_pairs(const sr_resample_line *line, const int16_t *in, int64_t pairs,
                                uint8_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS + SR_RESAMPLE_ROW_BITS;
    const __m512i half = _mm512_set1_epi32(1 << (shift - 1));
    const groups *g = line->groups;
    const tap_pair *t = g->taps;
    for (int64_t i = 0; i < g->count; i++, t += pairs) {
        const __m512i low = _mm512_loadu_si512(in + g->begin[i]);
        const __m512i high = _mm512_loadu_si512(in + g->begin[i] + WINDOW / 2);
        __m512i sum = half;
        for (int64_t p = 0; p < pairs; p++) {
            const __m512i position = _mm512_load_si512(t[p].position);
            const __m512i both = _mm512_permutex2var_epi16(low, position, high);
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(both, _mm512_load_si512(t[p].weight)));
        }
        sum = _mm512_max_epi32(_mm512_srai_epi32(sum, shift), _mm512_setzero_si512());
        const __m128i bytes = _mm512_cvtusepi32_epi8(sum);
        const int64_t left = 3 * line->n - OUTPUTS * i;
        if (left >= OUTPUTS)
            _mm_storeu_si128((__m128i *)(void *)(out + OUTPUTS * i), bytes);
        else
            _mm_mask_storeu_epi8(out + OUTPUTS * i, (__mmask16)((1u << left) - 1), bytes);
    }
}

static void row(const sr_resample_line *line, const int16_t *in, uint8_t *out) {
    const groups *g = line->groups;
    if (g->count == 0)
        sr_resample_avx2.row(line, in, out);
    else if (g->pairs == 1)
        row_of_pairs(line, in, 1, out);
    else if (g->pairs == 2)
        row_of_pairs(line, in, 2, out);
    else
        row_of_pairs(line, in, g->pairs, out);
}

// 64 columns from i on, limited to those in the mask.
static inline void columns64(const uint8_t *const *rows, const int16_t *weights, int taps,
                             int64_t i, __mmask64 mask, int16_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS - SR_RESAMPLE_ROW_BITS;
    const __m512i zero = _mm512_setzero_si512(), half = _mm512_set1_epi32(1 << (shift - 1));
    __m512i sum[4] = {half, half, half, half};
    for (int t = 0; t < taps; t += PAIR) {
        int32_t pair;
        memcpy(&pair, weights + t, sizeof pair);
        const __m512i w = _mm512_set1_epi32(pair);
        const __m512i a = _mm512_maskz_loadu_epi8(mask, rows[t] + i);
        const __m512i b = _mm512_maskz_loadu_epi8(mask, rows[t + 1] + i);
        const __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
        const __m512i part[4] = {_mm512_unpacklo_epi8(low, zero), _mm512_unpackhi_epi8(low, zero),
                                 _mm512_unpacklo_epi8(high, zero),
                                 _mm512_unpackhi_epi8(high, zero)};
        for (int k = 0; k < 4; k++)
            sum[k] = _mm512_add_epi32(sum[k], _mm512_madd_epi16(part[k], w));
    }
    for (int k = 0; k < 4; k++)
        sum[k] = _mm512_srai_epi32(sum[k], shift);
    // Columns 0 to 7 and 8 to 15 of each quarter.
    const __m512i even = _mm512_packs_epi32(sum[0], sum[1]);
    const __m512i odd = _mm512_packs_epi32(sum[2], sum[3]);
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    _mm512_storeu_si512(out + i, _mm512_permutex2var_epi64(even, first, odd));
    _mm512_storeu_si512(out + i + WINDOW / 2, _mm512_permutex2var_epi64(even, second, odd));
}

static void columns(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t n,
                    int16_t *out) {
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        columns64(rows, weights, taps, i, ~UINT64_C(0), out);
    if (i < n)
        columns64(rows, weights, taps, i, (UINT64_C(1) << (n - i)) - 1, out);
}

const sr_resample_set sr_resample_avx512 = {
    .columns = columns, .row = row, .group_bytes = group_bytes, .prepare = prepare};
