// SPDX-License-Identifier: Apache-2.0
// Of convolutions and matrix products (cuda_conv.cu, cuda_matmul.cu): how their terms are cut to
// chunks and leaves, the shape of the gathered picture, and the sums of leaves.
#ifndef SR_KERNELS_CUDA_CONV_CUT_H
#define SR_KERNELS_CUDA_CONV_CUT_H

#include "kernels/cuda/cuda_conv_tile.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"

enum {
    LEAST_LEAF = 4,      // chunks
    ENOUGH_BLOCKS = 512, // leaves are made smaller, until there are so many blocks
    NARROW_COLUMNS = 16, // groups of convolutions with fewer columns are no tiles
    NARROW_LEVELS = 6,   // of the tree of their leaves
    LANES = 4,           // outputs of a thread of a depthwise convolution
    TREE_LEVELS = 20     // of batches of leaves
};

// The sums of the leaves of output i.
template <class Out>
static __device__ void add_leaves(const conv_shape &s, int64_t i, const float *workspace,
                                  const Out &out) {
    const int64_t count = s.rows * s.all_columns;
    if (i >= count)
        return;
    const float *sums = workspace + s.partials + i;
    sr_tree<TREE_LEVELS> batches;
    float sum = 0;
    for (int64_t leaf = 0; leaf < s.leaves; leaf += SR_CUDA_BATCH) {
        if (leaf > 0)
            batches.push(sum);
        sum = sr_merge_batch<float>(
            leaf, 1, s.leaves, [=](int64_t k) { return sums[k * count]; }, sr_plain_sum());
    }
    const int64_t row = sr_divide(i, s.all_columns);
    const float total[1] = {batches.total(sum)};
    out(row, i - row * s.all_columns, 1, total);
}

// ---- Preparing ----

static int64_t row_tiles(const conv_shape *s) {
    return s->divisor_h > 1 || s->divisor_w > 1 ? s->class_tiles * s->divisor_h * s->divisor_w
                                                : sr_blocks_of(s->rows, ROWS);
}

// Blocks of one leaf.
static int64_t blocks_of_leaf(const conv_shape *s) {
    return s->narrow ? sr_blocks_of(s->rows * s->all_columns / s->lanes, THREADS)
                     : row_tiles(s) * sr_blocks_of(s->columns, COLUMNS) * s->groups;
}

// How the terms are cut to chunks and leaves.
static void cut(conv_shape *s) {
    const bool joined = s->line <= SR_REFERENCE_TERMS, none = s->line == 0 || s->lines == 0;
    s->lines_in_chunk = joined && !none ? SR_REFERENCE_TERMS / s->line : 1;
    s->parts = joined ? 1 : sr_blocks_of(s->line, SR_REFERENCE_TERMS);
    s->chunks = none ? 0 : sr_blocks_of(s->lines, s->lines_in_chunk) * s->parts;
    s->leaf_chunks = 1 << (s->narrow ? (int)NARROW_LEVELS : (int)LEAF_LEVELS);
    while (s->leaf_chunks > LEAST_LEAF &&
           blocks_of_leaf(s) * sr_blocks_of(s->chunks, s->leaf_chunks) < ENOUGH_BLOCKS)
        s->leaf_chunks /= 2;
    s->leaves = s->chunks > s->leaf_chunks ? sr_blocks_of(s->chunks, s->leaf_chunks) : 1;
}

static void set_filter(const sr_conv_params *p, conv_shape *s) {
    s->groups = p->groups;
    s->columns = s->all_columns / p->groups;
    s->group_channels = s->channels / p->groups;
    s->taps = (int32_t)(p->r * p->s);
    s->filter_w = (int32_t)p->s;
    s->w_group = s->columns * s->group_channels * s->taps;
    s->narrow = s->columns < NARROW_COLUMNS;
    s->lanes = s->columns == 1 && s->group_channels == 1 && s->all_columns % LANES == 0 ? LANES : 1;
}

// The picture x, gathered for the pixels of y.
static conv_shape shape_of_x(const sr_conv_params *p) {
    conv_shape s = {};
    s.all_columns = p->k;
    s.height = p->h;
    s.width = p->w;
    s.channels = p->c;
    set_filter(p, &s);
    s.pixels_h = p->p;
    s.pixels_w = p->q;
    s.scale_h = p->stride_h;
    s.scale_w = p->stride_w;
    s.offset_h = -p->pad_top;
    s.offset_w = -p->pad_left;
    s.step_h = p->dilation_h;
    s.step_w = p->dilation_w;
    s.divisor_h = s.divisor_w = 1;
    s.w_column = s.group_channels * s.taps;
    s.w_channel = s.taps;
    return s;
}

// Terms are taps; 'packed' weights are in the workspace.
static void sum_over_taps(conv_shape *s, int64_t images) {
    s->rows = images * s->pixels_h * s->pixels_w;
    s->class_tiles = sr_blocks_of(images * sr_blocks_of(s->pixels_h, s->divisor_h) *
                                      sr_blocks_of(s->pixels_w, s->divisor_w),
                                  ROWS);
    s->lines = s->taps;
    s->line = s->group_channels;
    s->partials = s->taps * s->group_channels * s->all_columns;
    cut(s);
}

static size_t tile_bytes(const conv_shape *s) {
    const int64_t most = s->chunks < s->leaf_chunks ? s->chunks : s->leaf_chunks;
    int levels = 0;
    while ((int64_t)1 << (REGISTER_LEVELS + levels) < most)
        levels++;
    return sizeof(conv_tile) + (size_t)levels * OUTPUTS * THREADS * sizeof(float);
}

#endif
