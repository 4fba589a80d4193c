// SPDX-License-Identifier: Apache-2.0
// Inner loops of decoding baseline JPEGs, one set per vector width. All sets are bit-identical to
// libjpeg-turbo's accurate integer decoding (JDCT_ISLOW, fancy upsampling).
//
// Coefficients of a row of blocks are stored in groups of 'group' blocks, so that a vector contains
// the same row of all blocks of a group: [group][row of a block][block][column].
#ifndef SR_DATAIO_JPEG_SET_INTERNAL_H
#define SR_DATAIO_JPEG_SET_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/jpeg/jpeg_stream_internal.h"

#define SR_JPEG_MAX_GROUP 4
// Zero bytes that must follow entropy-coded data: more than an MCU can consume.
#define SR_JPEG_BITS_SLACK 2048
// Bytes that must be readable and writable before and after rows of samples, and after pixels:
// loops over rows process SR_JPEG_ROUND samples per iteration.
#define SR_JPEG_ROW_SLACK 128
#define SR_JPEG_ROUND 32

// Entropy-coded data of one segment, without the stuffed zeros after 0xff.
typedef struct sr_jpeg_bits {
    uint64_t buffer; // the next bits, from the top
    int count;       // valid bits of 'buffer'
    const uint8_t *begin, *next, *end;
} sr_jpeg_bits;

// The destination of the coefficients of a row of MCUs, zero-initialised.
typedef struct sr_jpeg_target {
    int16_t *row[SR_JPEG_COMPONENTS][2]; // of blocks
    int64_t column;                      // of the next MCU, counted from the first in the rows
} sr_jpeg_target;

// A segment that is being read.
typedef struct sr_jpeg_run {
    sr_jpeg_bits bits;
    int32_t dc[SR_JPEG_COMPONENTS]; // the last DC coefficient of each component
    sr_jpeg_target target;
} sr_jpeg_run;
#define SR_JPEG_RUNS 2 // most that are read at once

// Reads 'mcus' MCUs of each of 'count' runs and stores their coefficients if 'store'. False where
// the data are invalid.
typedef bool sr_jpeg_read_fn(const sr_jpeg_stream *s, sr_jpeg_run *runs, int count, int64_t mcus,
                             int group, bool store);
extern sr_jpeg_read_fn sr_jpeg_read_plain, sr_jpeg_read_bmi;

typedef struct sr_jpeg_set {
    const char *name;
    int group;
    sr_jpeg_read_fn *read_mcus;
    // Transforms groups of blocks to 'side' (8, 4, 2, 1) samples per block in each direction:
    // 'side' rows of side * group * groups bytes.
    void (*transform)(const int16_t *coefficients, int64_t groups, const uint16_t *quant, int side,
                      uint8_t *out, int64_t stride);
    // out[i] = 3 near[i] + far[i]
    void (*mix_rows)(const uint8_t *near, const uint8_t *far, int64_t n, int16_t *out);
    // out[i] = (3 near[i] + far[i] + bias) / 4
    void (*blend_rows)(const uint8_t *near, const uint8_t *far, int64_t n, int bias, uint8_t *out);
    // out[2i] = (3 in[i] + in[i - 1] + first) >> shift, out[2i + 1] = (3 in[i] + in[i + 1] +
    // second) >> shift
    void (*spread_row)(const int16_t *in, int64_t n, int first, int second, int shift,
                       uint8_t *out);
    // Converts luma and chroma to RGB; luma only where cb is NULL.
    void (*colour_row)(const uint8_t *luma, const uint8_t *cb, const uint8_t *cr, int64_t n,
                       uint8_t *rgb);
} sr_jpeg_set;

extern const sr_jpeg_set sr_jpeg_plain, sr_jpeg_sse2, sr_jpeg_avx2, sr_jpeg_avx512;
#define SR_JPEG_MOST_SETS 4
// The sets that this processor supports, the fastest last; returns their number.
int sr_jpeg_sets(const sr_jpeg_set *out[SR_JPEG_MOST_SETS]);

#endif
