// SPDX-License-Identifier: Apache-2.0
// Inner loops of resizing in plain C, for processors without a file of their own.
#include "dataio/resample_rows_internal.h"

void sr_resample_columns(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t n,
                         int16_t *out) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS - SR_RESAMPLE_ROW_BITS;
    for (int64_t i = 0; i < n; i++) {
        int32_t sum = 1 << (shift - 1);
        for (int t = 0; t < taps; t++)
            sum += weights[t] * rows[t][i];
        out[i] = (int16_t)(sum >> shift);
    }
}

void sr_resample_row(const int16_t *in, const int32_t *first, const int16_t *weights, int taps,
                     int64_t n, uint8_t *out, int64_t step) {
    const int shift = SR_RESAMPLE_WEIGHT_BITS + SR_RESAMPLE_ROW_BITS;
    for (int64_t i = 0; i < n; i++, out += step, weights += taps) {
        const int16_t *p = in + 3 * (int64_t)first[i];
        int32_t sum[3] = {1 << (shift - 1), 1 << (shift - 1), 1 << (shift - 1)};
        for (int t = 0; t < taps; t++, p += 3)
            for (int c = 0; c < 3; c++)
                sum[c] += weights[t] * p[c];
        for (int c = 0; c < 3; c++)
            out[c] = (uint8_t)(sum[c] >> shift);
    }
}
