// SPDX-License-Identifier: Apache-2.0
// The inner loops of resizing, one set per instruction set; all give the same integers.
#ifndef SR_DATAIO_RESAMPLE_ROWS_INTERNAL_H
#define SR_DATAIO_RESAMPLE_ROWS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/image/resample.h"

// Weights have 14 fractional bits and sum to exactly 1; the rows between the two passes have 6.
#define SR_RESAMPLE_WEIGHT_BITS 14
#define SR_RESAMPLE_ROW_BITS 6
// Bytes that must be readable and writable beyond the end of the loops' buffers.
#define SR_RESAMPLE_SLACK 128

// The plan of an RGB row: output pixel i is the sum of 'taps' pixels from first[i] on, with weights
// weights[i * taps ...]; 'taps' is even. 'flip': pixel i is written as pixel n - 1 - i.
typedef struct sr_resample_line {
    const int32_t *first;
    const int16_t *weights;
    int taps;
    int64_t n;
    bool flip;
    void *groups; // of sr_resample_set.group_bytes, filled by 'prepare'
} sr_resample_line;

typedef struct sr_resample_set {
    // out[i] = round(sum over t of weights[t] * rows[t][i]), i in [0, n), with 6 fractional bits.
    // 'taps' is even; rows may repeat with weight 0. May write up to SR_RESAMPLE_SLACK bytes past n
    // of out; reads exactly n bytes of each row.
    void (*columns)(const uint8_t *const *rows, const int16_t *weights, int taps, int64_t n,
                    int16_t *out);
    // Computes an output row from an output of 'columns'. Reads up to SR_RESAMPLE_SLACK bytes past
    // the last pixel used; writes exactly n pixels.
    void (*row)(const sr_resample_line *line, const int16_t *in, uint8_t *out);
    // Size of line->groups, and the function that fills it; NULL: not needed.
    size_t (*group_bytes)(const sr_resample_line *line);
    void (*prepare)(const sr_resample_line *line);
} sr_resample_set;

extern const sr_resample_set sr_resample_plain, sr_resample_sse2, sr_resample_avx2,
    sr_resample_avx512;
#define SR_RESAMPLE_MOST_SETS 4
// The sets that this processor supports, the fastest last; returns their number.
int sr_resample_sets(const sr_resample_set *out[SR_RESAMPLE_MOST_SETS]);

// A resampler with these loops. SR_E_MEMORY.
SR_NODISCARD sr_status sr_resampler_create_with(const sr_resample_set *set, sr_resampler **out);

#endif
