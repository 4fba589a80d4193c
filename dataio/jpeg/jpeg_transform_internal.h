// SPDX-License-Identifier: Apache-2.0
// The inverse DCT of blocks, several at a time.
//
// Loeffler, Ligtenberg and Moschytz, "Practical Fast 1-D DCT Algorithms with 11 Multiplications"
// (ICASSP 1989), with constants of 13 bits, columns first and two extra bits between the passes;
// rounding follows the Independent JPEG Group's accurate integer method. All sums are exact in 32
// bits, so products can be combined in pairs, two per instruction.
#ifndef SR_DATAIO_JPEG_TRANSFORM_INTERNAL_H
#define SR_DATAIO_JPEG_TRANSFORM_INTERNAL_H

#include "dataio/jpeg/jpeg_set_internal.h"

enum { JT_BITS = 13, JT_BETWEEN = 2, JT_FIRST = JT_BITS - JT_BETWEEN, JT_LAST = JT_BITS + 5 };
enum { // times 2^13, rounded
    JT_0_298631336 = 2446,
    JT_0_390180644 = 3196,
    JT_0_541196100 = 4433,
    JT_0_765366865 = 6270,
    JT_0_899976223 = 7373,
    JT_1_175875602 = 9633,
    JT_1_501321110 = 12299,
    JT_1_847759065 = 15137,
    JT_1_961570560 = 16069,
    JT_2_053119869 = 16819,
    JT_2_562915447 = 20995,
    JT_3_072711026 = 25172,
};

#if defined(__SSE2__) && !defined(SR_JPEG_WITHOUT_VECTORS)
#include <immintrin.h>

#if defined(__AVX512BW__)
#define JT_GROUP 4
#define JV(name) _mm512_##name
typedef __m512i jt_vector;
static inline jt_vector jt_load(const int16_t *p) {
    return _mm512_loadu_si512((const void *)p);
}
static inline jt_vector jt_repeat(const uint16_t *p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline void jt_store(jt_vector a, jt_vector b, uint8_t *row, int64_t stride) {
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    const __m512i rows = _mm512_permutexvar_epi64(order, _mm512_packus_epi16(a, b));
    _mm256_storeu_si256((__m256i *)(void *)row, _mm512_castsi512_si256(rows));
    _mm256_storeu_si256((__m256i *)(void *)(row + stride), _mm512_extracti64x4_epi64(rows, 1));
}
#elif defined(__AVX2__)
#define JT_GROUP 2
#define JV(name) _mm256_##name
typedef __m256i jt_vector;
static inline jt_vector jt_load(const int16_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline jt_vector jt_repeat(const uint16_t *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline void jt_store(jt_vector a, jt_vector b, uint8_t *row, int64_t stride) {
    const __m256i rows = _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
    _mm_storeu_si128((__m128i *)(void *)row, _mm256_castsi256_si128(rows));
    _mm_storeu_si128((__m128i *)(void *)(row + stride), _mm256_extracti128_si256(rows, 1));
}
#else
#define JT_GROUP 1
#define JV(name) _mm_##name
typedef __m128i jt_vector;
static inline jt_vector jt_load(const int16_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
static inline jt_vector jt_repeat(const uint16_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
static inline void jt_store(jt_vector a, jt_vector b, uint8_t *row, int64_t stride) {
    const __m128i rows = _mm_packus_epi16(a, b);
    _mm_storel_epi64((__m128i *)(void *)row, rows);
    _mm_storel_epi64((__m128i *)(void *)(row + stride), _mm_srli_si128(rows, 8));
}
#endif

// a x + b y of the pairs (x, y).
#define JT_PAIR(a, b) JV(set1_epi32)((int)((uint32_t)(uint16_t)(a) | (uint32_t)(b) << 16))

typedef struct jt_halves { // sums of 32 bits
    jt_vector low, high;
} jt_halves;

static inline jt_halves jt_pairs(jt_vector x, jt_vector y) {
    return (jt_halves){JV(unpacklo_epi16)(x, y), JV(unpackhi_epi16)(x, y)};
}
static inline jt_halves jt_products(jt_halves pairs, jt_vector factors) {
    return (jt_halves){JV(madd_epi16)(pairs.low, factors), JV(madd_epi16)(pairs.high, factors)};
}
static inline jt_halves jt_sum(jt_halves a, jt_halves b) {
    return (jt_halves){JV(add_epi32)(a.low, b.low), JV(add_epi32)(a.high, b.high)};
}
static inline jt_halves jt_difference(jt_halves a, jt_halves b) {
    return (jt_halves){JV(sub_epi32)(a.low, b.low), JV(sub_epi32)(a.high, b.high)};
}

// x[first] and x[last] of the sum and the difference of an even and an odd part.
#define JT_END(first, last, even, odd, shift)                                                      \
    do {                                                                                           \
        const jt_halves sum = jt_sum(even, odd), rest = jt_difference(even, odd);                  \
        x[first] =                                                                                 \
            JV(packs_epi32)(JV(srai_epi32)(sum.low, shift), JV(srai_epi32)(sum.high, shift));      \
        x[last] =                                                                                  \
            JV(packs_epi32)(JV(srai_epi32)(rest.low, shift), JV(srai_epi32)(rest.high, shift));    \
    } while (0)

// One dimension of all blocks, across the vectors; 'bias' is added before shifting.
#define JT_PASS(shift, bias)                                                                       \
    do {                                                                                           \
        const jt_halves p26 = jt_pairs(x[2], x[6]), p04 = jt_pairs(x[0], x[4]);                    \
        const jt_halves round = {JV(set1_epi32)(bias), JV(set1_epi32)(bias)};                      \
        const jt_halves e2 =                                                                       \
            jt_products(p26, JT_PAIR(JT_0_541196100, JT_0_541196100 - JT_1_847759065));            \
        const jt_halves e3 =                                                                       \
            jt_products(p26, JT_PAIR(JT_0_541196100 + JT_0_765366865, JT_0_541196100));            \
        const jt_halves e0 = jt_sum(jt_products(p04, JT_PAIR(1 << JT_BITS, 1 << JT_BITS)), round); \
        const jt_halves e1 =                                                                       \
            jt_sum(jt_products(p04, JT_PAIR(1 << JT_BITS, -(1 << JT_BITS))), round);               \
        const jt_halves p34 = jt_pairs(JV(add_epi16)(x[7], x[3]), JV(add_epi16)(x[5], x[1]));      \
        const jt_halves z3 =                                                                       \
            jt_products(p34, JT_PAIR(JT_1_175875602 - JT_1_961570560, JT_1_175875602));            \
        const jt_halves z4 =                                                                       \
            jt_products(p34, JT_PAIR(JT_1_175875602, JT_1_175875602 - JT_0_390180644));            \
        const jt_halves p71 = jt_pairs(x[7], x[1]), p53 = jt_pairs(x[5], x[3]);                    \
        const jt_halves o0 = jt_sum(                                                               \
            jt_products(p71, JT_PAIR(JT_0_298631336 - JT_0_899976223, -JT_0_899976223)), z3);      \
        const jt_halves o3 = jt_sum(                                                               \
            jt_products(p71, JT_PAIR(-JT_0_899976223, JT_1_501321110 - JT_0_899976223)), z4);      \
        const jt_halves o1 = jt_sum(                                                               \
            jt_products(p53, JT_PAIR(JT_2_053119869 - JT_2_562915447, -JT_2_562915447)), z4);      \
        const jt_halves o2 = jt_sum(                                                               \
            jt_products(p53, JT_PAIR(-JT_2_562915447, JT_3_072711026 - JT_2_562915447)), z3);      \
        JT_END(0, 7, jt_sum(e0, e3), o3, shift);                                                   \
        JT_END(1, 6, jt_sum(e1, e2), o2, shift);                                                   \
        JT_END(2, 5, jt_difference(e1, e2), o1, shift);                                            \
        JT_END(3, 4, jt_difference(e0, e3), o0, shift);                                            \
    } while (0)

// Transposes every block.
static inline void jt_transpose(jt_vector *x) {
    jt_vector a[SR_JPEG_SIDE], b[SR_JPEG_SIDE];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = JV(unpacklo_epi16)(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = JV(unpackhi_epi16)(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = JV(unpacklo_epi32)(a[i], a[i + 2]);
        b[i + 1] = JV(unpackhi_epi32)(a[i], a[i + 2]);
        b[i + 2] = JV(unpacklo_epi32)(a[i + 1], a[i + 3]);
        b[i + 3] = JV(unpackhi_epi32)(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        x[2 * i] = JV(unpacklo_epi64)(b[i], b[i + 4]);
        x[2 * i + 1] = JV(unpackhi_epi64)(b[i], b[i + 4]);
    }
}

static void jt_transform(const int16_t *coefficients, int64_t groups, const uint16_t *quant,
                         uint8_t *out, int64_t stride) {
    for (int64_t g = 0; g < groups; g++, out += SR_JPEG_SIDE * JT_GROUP) {
        jt_vector x[SR_JPEG_SIDE];
        for (int i = 0; i < SR_JPEG_SIDE; i++, coefficients += SR_JPEG_SIDE * JT_GROUP)
            x[i] = JV(mullo_epi16)(jt_load(coefficients), jt_repeat(quant + i * SR_JPEG_SIDE));
        JT_PASS(JT_FIRST, 1 << (JT_FIRST - 1));
        jt_transpose(x);
        JT_PASS(JT_LAST, (1 << (JT_LAST - 1)) + (128 << JT_LAST));
        jt_transpose(x);
        for (int i = 0; i < SR_JPEG_SIDE; i += 2)
            jt_store(x[i], x[i + 1], out + i * stride, stride);
    }
}

#else // plain C

#define JT_GROUP 1

// Overflowing sums, which valid pictures do not have, wrap like in the vector code.
static inline uint32_t jt_times(int32_t x, int32_t factor) {
    return (uint32_t)x * (uint32_t)factor;
}

static inline int32_t jt_shift(uint32_t sum, int bits) {
    const int32_t value = (int32_t)sum >> bits;
    return value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value;
}

// Eight values 'step' apart.
static void jt_pass(const int32_t *in, int step, int bits, int32_t bias, int32_t *out) {
    const int32_t x0 = in[0], x1 = in[step], x2 = in[2 * step], x3 = in[3 * step],
                  x4 = in[4 * step], x5 = in[5 * step], x6 = in[6 * step], x7 = in[7 * step];
    const uint32_t z = jt_times(x2 + x6, JT_0_541196100);
    const uint32_t e2 = z - jt_times(x6, JT_1_847759065), e3 = z + jt_times(x2, JT_0_765366865);
    const uint32_t e0 = jt_times(x0 + x4, 1 << JT_BITS) + (uint32_t)bias;
    const uint32_t e1 = jt_times(x0 - x4, 1 << JT_BITS) + (uint32_t)bias;
    const int16_t y3 = (int16_t)(x7 + x3), y4 = (int16_t)(x5 + x1);
    const uint32_t z5 = jt_times(y3 + y4, JT_1_175875602);
    const uint32_t z3 = z5 - jt_times(y3, JT_1_961570560);
    const uint32_t z4 = z5 - jt_times(y4, JT_0_390180644);
    const uint32_t z1 = jt_times(x7 + x1, JT_0_899976223), z2 = jt_times(x5 + x3, JT_2_562915447);
    const uint32_t o0 = jt_times(x7, JT_0_298631336) - z1 + z3;
    const uint32_t o1 = jt_times(x5, JT_2_053119869) - z2 + z4;
    const uint32_t o2 = jt_times(x3, JT_3_072711026) - z2 + z3;
    const uint32_t o3 = jt_times(x1, JT_1_501321110) - z1 + z4;
    out[0] = jt_shift(e0 + e3 + o3, bits);
    out[7 * step] = jt_shift(e0 + e3 - o3, bits);
    out[step] = jt_shift(e1 + e2 + o2, bits);
    out[6 * step] = jt_shift(e1 + e2 - o2, bits);
    out[2 * step] = jt_shift(e1 - e2 + o1, bits);
    out[5 * step] = jt_shift(e1 - e2 - o1, bits);
    out[3 * step] = jt_shift(e0 - e3 + o0, bits);
    out[4 * step] = jt_shift(e0 - e3 - o0, bits);
}

static void jt_transform(const int16_t *coefficients, int64_t groups, const uint16_t *quant,
                         uint8_t *out, int64_t stride) {
    for (int64_t g = 0; g < groups; g++, out += SR_JPEG_SIDE, coefficients += SR_JPEG_BLOCK) {
        int32_t x[SR_JPEG_BLOCK];
        for (int i = 0; i < SR_JPEG_BLOCK; i++)
            x[i] = (int16_t)(coefficients[i] * quant[i]);
        for (int i = 0; i < SR_JPEG_SIDE; i++)
            jt_pass(x + i, SR_JPEG_SIDE, JT_FIRST, 1 << (JT_FIRST - 1), x + i);
        for (int i = 0; i < SR_JPEG_SIDE; i++) {
            int32_t *row = x + i * SR_JPEG_SIDE;
            jt_pass(row, 1, JT_LAST, (1 << (JT_LAST - 1)) + (128 << JT_LAST), row);
            for (int c = 0; c < SR_JPEG_SIDE; c++)
                out[i * stride + c] = (uint8_t)(row[c] < 0 ? 0 : row[c] > 255 ? 255 : row[c]);
        }
    }
}

#endif
#endif
