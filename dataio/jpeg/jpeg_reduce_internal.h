// SPDX-License-Identifier: Apache-2.0
// Inverse DCTs that produce 4 x 4, 2 x 2 or 1 x 1 samples of a block, for decoding at 1/2, 1/4 or
// 1/8.
//
// The accurate reduced transforms of the Independent JPEG Group: the flow graph of whole blocks
// without the parts that only dropped samples need; 1 x 1 is the mean.
#ifndef SR_DATAIO_JPEG_REDUCE_INTERNAL_H
#define SR_DATAIO_JPEG_REDUCE_INTERNAL_H

#include "dataio/jpeg/jpeg_transform_internal.h"

enum { // times 2^13, rounded; in addition to those of whole blocks
    RD_0_211164243 = 1730,
    RD_0_509795579 = 4176,
    RD_0_601344887 = 4926,
    RD_0_720959822 = 5906,
    RD_0_850430095 = 6967,
    RD_1_061594337 = 8697,
    RD_1_272758580 = 10426,
    RD_1_451774981 = 11893,
    RD_2_172734803 = 17799,
    RD_3_624509785 = 29692,
};

// Sums of damaged pictures may overflow, hence unsigned.
static inline uint32_t rd_times(int32_t x, int32_t factor) {
    return (uint32_t)x * (uint32_t)factor;
}

static inline int32_t rd_descale(uint32_t sum, int bits) {
    return (int32_t)(sum + (1u << (bits - 1))) >> bits;
}

// Transforms eight values 'step' apart, the fifth of which is ignored, to four.
static void rd_four(const int32_t *in, int step, int bits, int32_t *out, int out_step) {
    const int32_t x0 = in[0], x1 = in[step], x2 = in[2 * step], x3 = in[3 * step],
                  x5 = in[5 * step], x6 = in[6 * step], x7 = in[7 * step];
    const uint32_t even = rd_times(x0, 1 << (JT_BITS + 1));
    const uint32_t turn = rd_times(x2, JT_1_847759065) - rd_times(x6, JT_0_765366865);
    const uint32_t inner = rd_times(x5, RD_1_451774981) - rd_times(x7, RD_0_211164243) -
                           rd_times(x3, RD_2_172734803) + rd_times(x1, RD_1_061594337);
    const uint32_t outer = rd_times(x3, JT_0_899976223) - rd_times(x7, RD_0_509795579) -
                           rd_times(x5, RD_0_601344887) + rd_times(x1, JT_2_562915447);
    out[0] = rd_descale(even + turn + outer, bits + 1);
    out[3 * out_step] = rd_descale(even + turn - outer, bits + 1);
    out[out_step] = rd_descale(even - turn + inner, bits + 1);
    out[2 * out_step] = rd_descale(even - turn - inner, bits + 1);
}

// The same to two; all even-indexed values but the first are ignored.
static void rd_two(const int32_t *in, int step, int bits, int32_t *out, int out_step) {
    const uint32_t even = rd_times(in[0], 1 << (JT_BITS + 2));
    const uint32_t odd =
        rd_times(in[5 * step], RD_0_850430095) - rd_times(in[7 * step], RD_0_720959822) -
        rd_times(in[3 * step], RD_1_272758580) + rd_times(in[step], RD_3_624509785);
    out[0] = rd_descale(even + odd, bits + 2);
    out[out_step] = rd_descale(even - odd, bits + 2);
}

static inline uint8_t rd_byte(int32_t value) {
    return (uint8_t)(value < -128 ? 0 : value > 127 ? 255 : value + 128);
}

// Transforms one block of dequantised coefficients.
static void rd_block(const int32_t *x, int side, uint8_t *out, int64_t stride) {
    int32_t between[4 * SR_JPEG_SIDE], row[4];
    if (side == 1) {
        out[0] = rd_byte(rd_descale((uint32_t)x[0], 3));
        return;
    }
    for (int c = 0; c < SR_JPEG_SIDE; c++) {
        if (side == 4)
            rd_four(x + c, SR_JPEG_SIDE, JT_FIRST, between + c, SR_JPEG_SIDE);
        else
            rd_two(x + c, SR_JPEG_SIDE, JT_FIRST, between + c, SR_JPEG_SIDE);
    }
    for (int r = 0; r < side; r++) {
        if (side == 4)
            rd_four(between + r * SR_JPEG_SIDE, 1, JT_LAST, row, 1);
        else
            rd_two(between + r * SR_JPEG_SIDE, 1, JT_LAST, row, 1);
        for (int c = 0; c < side; c++)
            out[r * stride + c] = rd_byte(row[c]);
    }
}

static inline void rd_reduce(const int16_t *coefficients, int64_t groups, const uint16_t *quant,
                             int side, int group, uint8_t *out, int64_t stride) {
    for (int64_t g = 0; g < groups; g++, coefficients += SR_JPEG_BLOCK * group) {
        for (int b = 0; b < group; b++, out += side) {
            int32_t x[SR_JPEG_BLOCK];
            for (int i = 0; i < SR_JPEG_BLOCK; i++) {
                const int row = i / SR_JPEG_SIDE, column = i % SR_JPEG_SIDE;
                const int16_t c = coefficients[(row * group + b) * SR_JPEG_SIDE + column];
                x[i] = (int16_t)(c * quant[i]);
            }
            rd_block(x, side, out, stride);
        }
    }
}

#endif
