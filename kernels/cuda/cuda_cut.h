// SPDX-License-Identifier: Apache-2.0
// How kernels cut their requests where that decides how many bytes or products they need: for the
// kernels, and for plans of steps without them (`bench step --plan --gpu`). Functions of a lane's
// shape alone; plain C without CUDA.
#ifndef SR_KERNELS_CUDA_CUT_H
#define SR_KERNELS_CUDA_CUT_H

#include <stdbool.h>
#include <stdint.h>

static inline int64_t sr_cut_blocks(int64_t count, int64_t of) {
    return (count + of - 1) / of;
}

// ---- Batch norm of class "tensor" (tensor_batchnorm.cu): slabs of channels ----

// Slabs are narrower where they would be larger than this, which is a part of the second-level
// cache, and where one slab would be the whole request, but is large enough to be worth two.
#define SR_SLAB_LARGE (INT64_C(32) << 20)
#define SR_SLAB_LEAST (INT64_C(8) << 20)
// Statistics are so many bytes ahead of what is applied: more than blocks work on at once, so that
// nobody waits.
#define SR_SLAB_AHEAD (INT64_C(16) << 20)

// Threads across a slab, as a power of two. elements: of a thread's vector, 1 where channels are no
// whole ones; element_bytes: of one; inputs: tensors that are read twice.
static inline int32_t sr_slab_wide_bits(int64_t rows, int64_t channels, int64_t elements,
                                        int64_t element_bytes, int64_t inputs) {
    const int64_t full = elements > 1 ? 8 : 32;
    const int64_t vectors = sr_cut_blocks(channels, elements);
    const int64_t wide = vectors < full ? vectors : full;
    const int64_t bytes = rows * wide * elements * element_bytes * inputs;
    const bool narrow = bytes > SR_SLAB_LARGE || (wide == vectors && bytes >= 2 * SR_SLAB_LEAST);
    const int64_t most = narrow ? full / 2 : full;
    int32_t bits = 0;
    while (INT64_C(1) << bits < (vectors < most ? vectors : most))
        bits++;
    return bits;
}

// ---- Batch norm with ReLU before max pooling in class "tensor" (tensor_batchnorm_pool.cu) ----

// Whether there are functions for windows of such sides, distances and gaps.
static inline bool sr_norm_pool_has_windows(int32_t window_h, int32_t window_w, int32_t stride_h,
                                            int32_t stride_w, int32_t gap_h, int32_t gap_w) {
    return window_h == window_w && (window_h == 2 || window_h == 3) && stride_h == 2 &&
           stride_w == 2 && gap_h == 0 && gap_w == 0;
}

// ---- Gradients of weights by cuBLASLt (cublaslt_linear.c): slices of rows ----

// Slices of equally many rows one after the other, and the rows behind them.
typedef struct sr_cublaslt_slices {
    int64_t count, rows, rest;
} sr_cublaslt_slices;

// A tile is what a block of a product has. There are at most SR_SLICE_TILES of all slices of a
// lane, about as many as an H100 has multiprocessors, as several lanes are computed side by side. A
// slice has at least SR_SLICE_ROWS, so that its sums, which are written and read, are a small part
// of that. Slices with a rest have whole units of rows: SR_SLICE_UNIT of any width are a multiple
// of 64 bytes, as arguments are.
#define SR_SLICE_TILE 128
#define SR_SLICE_TILES 128
#define SR_SLICE_ROWS 1024
#define SR_SLICE_UNIT 32

// Of the n rows of a lane, and k x c weights. The most that divide the rows, of those from half as
// many as there may be; else slices of whole units. One slice of all rows if it is not worth it.
static inline sr_cublaslt_slices sr_cublaslt_slices_of(int64_t n, int64_t c, int64_t k) {
    const int64_t tiles = sr_cut_blocks(k, SR_SLICE_TILE) * sr_cut_blocks(c, SR_SLICE_TILE);
    const int64_t by_tiles = SR_SLICE_TILES / tiles, by_rows = n / SR_SLICE_ROWS;
    const int64_t most = by_tiles < by_rows ? by_tiles : by_rows;
    sr_cublaslt_slices s = {1, n, 0};
    if (most <= 1)
        return s;
    for (s.count = most; s.count > most / 2; s.count--) {
        s.rows = n / s.count;
        if (s.rows * s.count == n)
            return s;
    }
    s.rows = sr_cut_blocks(sr_cut_blocks(n, most), SR_SLICE_UNIT) * SR_SLICE_UNIT;
    s.count = n / s.rows;
    s.rest = n % s.rows;
    return s;
}

// ---- The gradient of attention's bias in class "mma" (mma_attention.cu) ----

// Slices of the batches that have a bias, which are written and added up if there are several.
#define SR_BIAS_SLICE 16   // batches of a slice, at the least
#define SR_BIAS_SLICES 128 // at most

// Batches of a slice, of those of a lane that have the same bias.
static inline int64_t sr_bias_slice(int64_t batches) {
    const int64_t slice = sr_cut_blocks(batches, SR_BIAS_SLICES);
    return slice < SR_BIAS_SLICE ? SR_BIAS_SLICE : slice;
}

// ---- Batch norm and a product in class "mma" (mma_norm_linear.cu) ----

// Rows of x[rows,c] and y[rows,k] of 16 bits have c k / (c + k) operations for each byte that is
// moved. Up to this number moving them takes longer on an H100, and a pass that is saved is gained;
// beyond it the multiplications of libraries, which are faster, would be missed.
#define SR_NORM_LINEAR_OPERATIONS 128

static inline bool sr_norm_linear_is_bound_by_bytes(int64_t c, int64_t k) {
    return c * k <= SR_NORM_LINEAR_OPERATIONS * (c + k);
}

// The gradient of the weights: a block has a tile of SR_NORM_LINEAR_TILE rows of them, and as many
// columns or half as many, for a slice of a lane's rows. A lane has about SR_NORM_LINEAR_BLOCKS
// blocks, as several lanes are computed side by side; slices have at least SR_NORM_LINEAR_ROWS
// rows, in whole units.
#define SR_NORM_LINEAR_TILE 128
#define SR_NORM_LINEAR_BLOCKS 64
#define SR_NORM_LINEAR_ROWS 1024
#define SR_NORM_LINEAR_UNIT 64

// Rows of a slice of a lane that has so many.
static inline int64_t sr_norm_linear_slice(int64_t rows, int64_t c, int64_t k) {
    const int64_t tiles =
        sr_cut_blocks(k, SR_NORM_LINEAR_TILE) * sr_cut_blocks(c, SR_NORM_LINEAR_TILE);
    const int64_t slices = tiles < SR_NORM_LINEAR_BLOCKS ? SR_NORM_LINEAR_BLOCKS / tiles : 1;
    const int64_t slice = sr_cut_blocks(rows, slices);
    return sr_cut_blocks(slice < SR_NORM_LINEAR_ROWS ? SR_NORM_LINEAR_ROWS : slice,
                         SR_NORM_LINEAR_UNIT) *
           SR_NORM_LINEAR_UNIT;
}

// ---- First layers of class "mma" (mma_stem.cu) ----

// Channels of a pixel in shared memory.
static inline int32_t sr_stem_pixel(int32_t stride_w) {
    return stride_w % 2 == 0 ? 4 : 8;
}

// Terms of a filter's row of s pixels, which are whole products of 16.
static inline int32_t sr_stem_terms(int32_t s, int32_t stride_w) {
    return (int32_t)sr_cut_blocks(s * sr_stem_pixel(stride_w), 16) * 16;
}

// The gradient of the filters: pixels of a tile and channels of a block; a lane has about
// SR_STEM_UNITS units of tiles, which have at least SR_STEM_TILES.
#define SR_STEM_TILE_H 8
#define SR_STEM_TILE_W 16
#define SR_STEM_CHANNELS 64
#define SR_STEM_UNITS 512
#define SR_STEM_TILES 16

// Tiles of a unit of a lane that has so many.
static inline int64_t sr_stem_unit(int64_t lane_tiles) {
    const int64_t tiles = sr_cut_blocks(lane_tiles, SR_STEM_UNITS);
    return tiles < SR_STEM_TILES ? SR_STEM_TILES : tiles;
}

#endif
