// SPDX-License-Identifier: Apache-2.0
// The order of the sums of numerics class "reference", for its kernels on all kinds of devices:
// into which parts a sum is cut follows from these numbers and the shape alone.
#ifndef SR_KERNELS_REFERENCE_ORDER_H
#define SR_KERNELS_REFERENCE_ORDER_H

#include <stdint.h>

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

#endif
