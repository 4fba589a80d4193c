// SPDX-License-Identifier: Apache-2.0
// The order of the sums of numerics class "reference", for its kernels on all kinds of devices. The
// way a sum is divided depends only on these numbers and the shape.
#ifndef SR_KERNELS_REFERENCE_ORDER_H
#define SR_KERNELS_REFERENCE_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/base/device_code.h"
#include "kernels/kernel_params.h"

#define SR_REFERENCE_NUMERICS 7 // sr_provider.numerics

// Number of elements in one block of an elementwise kernel and in one leaf of a sum over elements.
#define SR_REFERENCE_BLOCK 65536
// Maximum number of rows, and of elements, in one leaf of a sum over rows.
#define SR_REFERENCE_ROWS 1024
// Maximum number of terms that are added one after the other (reference_sum.inc).
#define SR_REFERENCE_TERMS 32
// Number of interleaved sums to which neighbouring elements are added in turn.
#define SR_REFERENCE_CHUNK 1024
#define SR_REFERENCE_WAYS 16
// Number of parallel sums over a group of groupnorm, and maximum number of parts in one of its
// leaves.
#define SR_REFERENCE_COLUMNS 32
#define SR_REFERENCE_PARTS 16

static inline int64_t sr_blocks_of(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

// Number of levels of a tree of at most 'sums' sums, and of the leaves of a sum of at most 'terms'
// terms.
static inline int64_t sr_reference_levels(int64_t sums) {
    int64_t levels = 1;
    while (sums >> levels)
        levels++;
    return levels;
}
static inline int64_t sr_leaf_levels(int64_t terms) {
    return sr_reference_levels(sr_blocks_of(terms, SR_REFERENCE_TERMS));
}

// Rows of one leaf of a sum over rows of 'channels' elements.
static inline int64_t sr_rows_per_block(int64_t channels) {
    const int64_t rows = SR_REFERENCE_BLOCK / channels;
    return rows < 1 ? 1 : rows > SR_REFERENCE_ROWS ? SR_REFERENCE_ROWS : rows;
}

// Maximum number of terms of the sums of pooling: pixels in a window, and windows that contain a
// pixel.
static inline int64_t sr_pool_pixels(const sr_pool_params *p) {
    return (p->window_h < p->h ? p->window_h : p->h) * (p->window_w < p->w ? p->window_w : p->w);
}

static inline int64_t sr_pool_windows_of(int64_t window, int64_t gap, int64_t stride,
                                         int64_t outputs) {
    const int64_t most = sr_blocks_of(window + (window - 1) * gap, stride);
    return most < outputs ? most : outputs;
}

static inline int64_t sr_pool_windows(const sr_pool_params *p) {
    return sr_pool_windows_of(p->window_h, p->gap_h, p->stride_h, p->p) *
           sr_pool_windows_of(p->window_w, p->gap_w, p->stride_w, p->q);
}

// How the elements of a group of groupnorm, [pixels][width], are summed: element c of a pixel is a
// term of column c % columns. The terms of a column within a part are added one after the other;
// then the parts of a leaf, and finally the columns, are added by the tree.
typedef struct sr_group_order {
    int64_t pixels, width, columns;
    int64_t part_pixels, pixel_parts; // pixels of a part, or parts of a pixel; one of them is 1
    int64_t parts, leaves;            // of a group
} sr_group_order;

static inline sr_group_order sr_group_order_of(const sr_groupnorm_params *p) {
    const int64_t width = p->channels / p->groups;
    const int64_t columns = width < SR_REFERENCE_COLUMNS ? width : SR_REFERENCE_COLUMNS;
    const int64_t terms = sr_blocks_of(width, columns); // of a column and a pixel
    sr_group_order o = {p->pixels, width, columns, 1, 1, 0, 0};
    if (terms > SR_REFERENCE_TERMS)
        o.pixel_parts = sr_blocks_of(terms, SR_REFERENCE_TERMS);
    else
        o.part_pixels = SR_REFERENCE_TERMS / terms;
    o.parts = sr_blocks_of(p->pixels, o.part_pixels) * o.pixel_parts;
    o.leaves = sr_blocks_of(o.parts, SR_REFERENCE_PARTS);
    return o;
}

// Number of elements of a group before a part. The part's number fits in 32 bits, which makes
// divisions fast: a group with more parts would have 2^37 elements.
SR_DEVICE_INLINE int64_t sr_group_elements(const sr_group_order *o, int64_t part) {
    const uint32_t number = (uint32_t)part, cuts = (uint32_t)o->pixel_parts;
    const int64_t pixel = (int64_t)(number / cuts) * o->part_pixels;
    const int64_t cut = (int64_t)(number % cuts) * (SR_REFERENCE_TERMS * SR_REFERENCE_COLUMNS);
    return (pixel < o->pixels ? pixel : o->pixels) * o->width + cut;
}

// Number of elements in a run of neighbouring leaves.
SR_DEVICE_INLINE int64_t sr_group_leaf_elements(const sr_group_order *o, int64_t leaf,
                                                int64_t leaves) {
    const int64_t begin = leaf * SR_REFERENCE_PARTS, end = begin + leaves * SR_REFERENCE_PARTS;
    return sr_group_elements(o, end < o->parts ? end : o->parts) - sr_group_elements(o, begin);
}

// A linear layer is a 1 x 1 convolution of one image of one row of N pixels.
static inline sr_conv_params sr_linear_as_conv(const sr_linear_params *linear) {
    sr_conv_params p;
    memset(&p, 0, sizeof p);
    p.n = p.h = p.r = p.s = p.p = 1;
    p.w = p.q = linear->n;
    p.c = linear->c;
    p.k = linear->k;
    p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = p.groups = 1;
    return p;
}

// The same for a product of matmul whose a is not transposed. The gradient with respect to w
// corresponds to a transposed a: the terms are pixels.
static inline sr_conv_params sr_matmul_as_conv(const sr_matmul_params *matmul) {
    const bool transposed = matmul->transpose_a != 0;
    const sr_linear_params linear = {transposed ? matmul->terms : matmul->rows,
                                     transposed ? matmul->rows : matmul->terms, matmul->columns};
    return sr_linear_as_conv(&linear);
}

// The numbers of the matrices of a batch.
typedef struct sr_matmul_pair {
    int64_t a, b;
} sr_matmul_pair;

SR_DEVICE_INLINE sr_matmul_pair sr_matmul_pair_of(const sr_matmul_params *p, int64_t batch) {
    sr_matmul_pair pair = {0, 0};
    for (int d = SR_MATMUL_DIMS - 1; d >= 0; d--) {
        const int64_t at = batch % p->dim[d];
        batch /= p->dim[d];
        pair.a += at * p->a_step[d];
        pair.b += at * p->b_step[d];
    }
    return pair;
}

#endif
