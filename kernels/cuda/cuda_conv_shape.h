// SPDX-License-Identifier: Apache-2.0
// Of convolutions and matrix products (cuda_conv.cu, cuda_matmul.cu): shapes, places in the
// gathered picture, chunks of terms, and how outputs are stored.
#ifndef SR_KERNELS_CUDA_CONV_SHAPE_H
#define SR_KERNELS_CUDA_CONV_SHAPE_H

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/reference_order.h"

struct conv_shape {
    int64_t rows;                         // outputs of a group: rows x columns
    int64_t columns, all_columns, groups; // all_columns: of all groups
    bool narrow;                          // few columns: no tiles
    int64_t lanes;                        // of a thread where it has no tile: 1 or LANES
    int64_t lines, line, lines_in_chunk;  // line: terms; lines that are joined
    int64_t parts, chunks;                // parts: chunks of a line that is cut
    int64_t leaf_chunks, leaves;
    int64_t height, width, channels, group_channels; // of the gathered picture
    int64_t pixels_h, pixels_w;                      // of the pictures whose pixels gather
    int64_t partials;                                // offset in the workspace, in floats
    // Tap (r, s) of pixel (h, w) is at (h scale + offset + r step) / divisor, if that is whole.
    int32_t scale_h, scale_w, offset_h, offset_w, step_h, step_w, divisor_h, divisor_w;
    int32_t filter_w, taps;
    int64_t class_tiles; // with divisors: tiles of pixels that have the same remainders
    // Weights before they are packed: of a group, a column and a channel of the group.
    int64_t w_group, w_column, w_channel;
};

// What a pixel and a tap contribute to a place in the gathered picture, and to its element. Without
// divisors the element is the sum of both 'at'; with them h and w are added once they are divided.
struct __align__(16) conv_pixel {
    int64_t at;
    int32_t h, w;
};
struct conv_tap {
    int64_t at;
    int32_t h, w;
};

enum { OUTSIDE = -(1 << 29) }; // of every picture, with every tap

static __device__ bool divides(const conv_shape &s) {
    return s.divisor_h > 1 || s.divisor_w > 1;
}

// Pixel 'column' of a row of the pictures, seen by a group.
static __device__ __forceinline__ conv_pixel pixel_of(const conv_shape &s, int64_t row,
                                                      int64_t column, int64_t group) {
    const int64_t image = sr_divide(row, s.pixels_h);
    conv_pixel p;
    p.h = (int32_t)(row - image * s.pixels_h) * s.scale_h + s.offset_h;
    p.w = (int32_t)column * s.scale_w + s.offset_w;
    p.at = image * s.height * s.width * s.channels + group * s.group_channels;
    if (!divides(s))
        p.at += (p.h * s.width + p.w) * s.channels;
    return p;
}

// Tap (r, s) with number r filter_w + s, and a channel.
static __device__ conv_tap tap_of(const conv_shape &s, int32_t number, int64_t channel) {
    const int32_t r = number / s.filter_w;
    conv_tap t;
    t.h = r * s.step_h;
    t.w = (number - r * s.filter_w) * s.step_w;
    t.at = channel;
    if (!divides(s))
        t.at += (t.h * s.width + t.w) * s.channels;
    return t;
}

static __device__ __forceinline__ bool is_inside(const conv_shape &s, int32_t h, int32_t w) {
    return ((uint32_t)h < (uint32_t)s.height) & ((uint32_t)w < (uint32_t)s.width);
}

// The element of the gathered picture, or -1 in the padding.
static __device__ __forceinline__ int64_t gathered_at(const conv_shape &s, const conv_pixel &p,
                                                      const conv_tap &t) {
    int32_t h = p.h + t.h, w = p.w + t.w;
    if (!divides(s))
        return is_inside(s, h, w) ? p.at + t.at : -1;
    if (h < 0 || w < 0 || h % s.divisor_h != 0 || w % s.divisor_w != 0)
        return -1;
    h /= s.divisor_h;
    w /= s.divisor_w;
    return is_inside(s, h, w) ? p.at + t.at + (h * s.width + w) * s.channels : -1;
}

// A row of the outputs, as a pixel or as a tap.
static __device__ __forceinline__ conv_pixel pixel_of_row(const conv_shape &s, int64_t row,
                                                          int64_t group) {
    const int64_t line = sr_divide(row, s.pixels_w);
    return pixel_of(s, line, row - line * s.pixels_w, group);
}
static __device__ conv_tap tap_of_row(const conv_shape &s, int64_t row) {
    const int64_t number = sr_divide(row, s.group_channels);
    return tap_of(s, (int32_t)number, row - number * s.group_channels);
}

// A chunk: 'part' of a line, or the lines from 'line' on that are joined.
struct conv_chunk {
    int64_t line;
    int32_t part;

    __device__ conv_chunk(const conv_shape &s, int64_t number) {
        const int64_t joined = sr_divide(number, s.parts);
        part = (int32_t)(number - joined * s.parts);
        line = joined * s.lines_in_chunk;
    }

    __device__ void next(const conv_shape &s) {
        if (++part == s.parts) {
            part = 0;
            line += s.lines_in_chunk;
        }
    }

    // Its lines, and its terms of each.
    __device__ int lines(const conv_shape &s) const {
        const int64_t left = s.lines - line;
        return (int)(left < s.lines_in_chunk ? left : s.lines_in_chunk);
    }
    __device__ int terms_of_line(const conv_shape &s) const {
        const int64_t left = s.line - part * SR_REFERENCE_TERMS;
        return left < SR_REFERENCE_TERMS ? (int)left : SR_REFERENCE_TERMS;
    }
    __device__ int terms(const conv_shape &s) const { return lines(s) * terms_of_line(s); }
    // The number of the first one.
    __device__ int64_t first(const conv_shape &s) const {
        return line * s.line + part * SR_REFERENCE_TERMS;
    }
};

// The end of the chunks of a leaf.
static __device__ int64_t last_chunk_of(const conv_shape &s, int64_t leaf) {
    const int64_t end = (leaf + 1) * s.leaf_chunks;
    return end < s.chunks ? end : s.chunks;
}

// Stores the first 'columns' of N neighbours.
template <class T, int N>
static __device__ void store_columns(void *p, int64_t at, int columns, const float (&v)[N]) {
    if (columns >= N && at % N == 0) {
        sr_store_vector<T>(p, at, v);
        return;
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        if (k < columns)
            sr_store<T>(p, at + k, v[k]);
}

// Stores N outputs of a row, or the sums of a leaf of them: those of 'columns' columns.
template <int N, class Out>
static __device__ void store(const conv_shape &s, float *workspace, int64_t leaf, int64_t row,
                             int64_t column, int columns, const float (&v)[N], const Out &out) {
    if (s.leaves == 1) {
        out(row, column, columns, v);
        return;
    }
    const int64_t at = s.partials + (leaf * s.rows + row) * s.all_columns + column;
    store_columns<sr_f32>(workspace, at, columns, v);
}

#endif
