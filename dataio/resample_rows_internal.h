// SPDX-License-Identifier: Apache-2.0
// The two inner loops of resizing, one file each for portable C and x86; same integers.
#ifndef SR_DATAIO_RESAMPLE_ROWS_INTERNAL_H
#define SR_DATAIO_RESAMPLE_ROWS_INTERNAL_H

#include <stdint.h>

// Weights have 14 fractional bits and add up to exactly 1; the rows between the two passes have 6.
#define SR_RESAMPLE_WEIGHT_BITS 14
#define SR_RESAMPLE_ROW_BITS 6
// Bytes readable and writable beyond the end of the buffers that the loops touch.
#define SR_RESAMPLE_SLACK 64

// out[i] = round(sum over t of weights[t] * rows[t][i]), i in [0, n), with 6 fractional bits.
// 'taps' is even; rows may repeat with weight 0. May write up to SLACK bytes past n of out, reads
// exactly n bytes of each row.
void sr_resample_columns(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t n,
                         int16_t *out);

// One RGB row: output pixel i is the sum of taps pixels from first[i] on, with weights
// weights[i * taps ...]; 'taps' is even. Pixel i is written at out + i * step (step is 3 or -3).
// Reads up to SLACK bytes past the last pixel used.
void sr_resample_row(const int16_t *in, const int32_t *first, const int16_t *weights, int taps,
                     int64_t n, uint8_t *out, int64_t step);

#endif
