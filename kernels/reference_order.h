// SPDX-License-Identifier: Apache-2.0
// The order of the sums of numerics class "reference", for its kernels on all kinds of devices:
// into which parts a sum is cut follows from these numbers and the shape alone.
#ifndef SR_KERNELS_REFERENCE_ORDER_H
#define SR_KERNELS_REFERENCE_ORDER_H

#include <stdint.h>
#include <string.h>

#include "kernels/kernel_params.h"

#define SR_REFERENCE_NUMERICS 6 // sr_provider.numerics

// Elements of one block of an elementwise kernel, and of one leaf of a sum over elements.
#define SR_REFERENCE_BLOCK 65536
// Most rows and elements of one leaf of a sum over rows.
#define SR_REFERENCE_ROWS 1024
// Most terms of a sum that are added one after the other (reference_sum.inc).
#define SR_REFERENCE_TERMS 32
// Number of interleaved sums to which neighbouring elements are added in turn.
#define SR_REFERENCE_CHUNK 1024
#define SR_REFERENCE_WAYS 16

static inline int64_t sr_blocks_of(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

// Rows of one leaf of a sum over rows of 'channels' elements.
static inline int64_t sr_rows_per_block(int64_t channels) {
    const int64_t rows = SR_REFERENCE_BLOCK / channels;
    return rows < 1 ? 1 : rows > SR_REFERENCE_ROWS ? SR_REFERENCE_ROWS : rows;
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

#endif
