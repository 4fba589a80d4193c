// SPDX-License-Identifier: Apache-2.0
// Inner loops of resizing in plain C.
#include "dataio/image/resample_rows_internal.h"

static void columns(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t n,
                    int16_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS - SR_RESAMPLE_ROW_BITS;
    for (int64_t i = 0; i < n; i++) {
        int32_t sum = 1 << (shift - 1);
        for (int t = 0; t < taps; t++)
            sum += weights[t] * rows[t][i];
        out[i] = (int16_t)(sum >> shift);
    }
}

// Only filters with negative weights exceed 0..255.
static uint8_t clip(int32_t v) {
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void row(const sr_resample_line *line, const int16_t *in, uint8_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS + SR_RESAMPLE_ROW_BITS;
    const int16_t *weights = line->weights;
    const int64_t step = line->flip ? -3 : 3;
    out += line->flip ? 3 * (line->n - 1) : 0;
    for (int64_t i = 0; i < line->n; i++, out += step, weights += line->taps) {
        const int16_t *p = in + 3 * (int64_t)line->first[i];
        int32_t sum[3] = {1 << (shift - 1), 1 << (shift - 1), 1 << (shift - 1)};
        for (int t = 0; t < line->taps; t++, p += 3)
            for (int c = 0; c < 3; c++)
                sum[c] += weights[t] * p[c];
        for (int c = 0; c < 3; c++)
            out[c] = clip(sum[c] >> shift);
    }
}

const sr_resample_set sr_resample_plain = {.columns = columns, .row = row};
