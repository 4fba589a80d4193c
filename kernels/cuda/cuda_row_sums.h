// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of channels, x[M,C] (cuda_sums.cu, cuda_rows.cu, cuda_groupnorm.cu), and
// whatever else their kernels have in common.
//
// A block has the rows of one leaf in some channels: a thread has a part of the leaf,
// SR_REFERENCE_TERMS rows of a channel, and the parts of a channel are added by the tree. The
// leaves' sums are in the workspace.
#ifndef SR_KERNELS_CUDA_ROW_SUMS_H
#define SR_KERNELS_CUDA_ROW_SUMS_H

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_statistics.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/cuda/cuda_vector.h"

// ---- Parameters of channels, for neighbouring elements ----

// The channel of element i.
static __device__ __forceinline__ int64_t channel_of(int64_t i, int64_t channels) {
    return i - sr_divide(i, channels) * channels;
}

// v = p of the channels of N elements, the first of which has channel c.
template <int N>
static __device__ void load_channels(const float *p, int64_t c, int64_t channels, float (&v)[N]) {
    if (channels % N == 0) {
        sr_get(p + c, v);
        return;
    }
    SR_UNROLL
    for (int k = 0; k < N; k++) {
        v[k] = p[c];
        c = c + 1 == channels ? 0 : c + 1;
    }
}

// ---- Sums over the rows of leaves ----

enum {
    LEAF_THREADS = 512, // of a block, at most
    MOST_PARTS = SR_REFERENCE_ROWS / SR_REFERENCE_TERMS,
    BATCH = 8 // rows whose loads are under way together
};
static_assert(MOST_PARTS <= 32, "the parts of a channel are in a warp");

// A block has threads (channel of the group, part); the number of parts is a power of two.
struct rows_shape {
    int64_t rows, channels, leaf_rows, leaves;
    int64_t groups; // of channels: of each leaf there is a block for each group
};

// The elements that a thread sums: 'rows' of them, 'step' apart, from 'first' on.
struct leaf_part {
    int64_t leaf, channel, first, step;
    int rows; // 0 where there is no such channel
};

static __device__ leaf_part part_of(const rows_shape &s) {
    leaf_part part;
    part.leaf = sr_divide(blockIdx.x, s.groups);
    part.channel = (blockIdx.x - part.leaf * s.groups) * blockDim.x + threadIdx.x;
    part.step = s.channels;
    const int64_t begin = part.leaf * s.leaf_rows, leaf_end = begin + s.leaf_rows;
    const int64_t end = leaf_end < s.rows ? leaf_end : s.rows;
    const int64_t row = begin + (int64_t)threadIdx.y * SR_REFERENCE_TERMS, left = end - row;
    part.first = row * s.channels + part.channel;
    part.rows = part.channel >= s.channels || left < 0 ? 0
                : left < SR_REFERENCE_TERMS            ? (int)left
                                                       : SR_REFERENCE_TERMS;
    return part;
}

// Adds the terms of a part's elements, each SUMS numbers: term(element, numbers).
template <int SUMS, class Term>
static __device__ void sum_part(const leaf_part &part, const Term &term, float (&sum)[SUMS]) {
    int row = 0;
    SR_UNROLL
    for (int k = 0; k < SUMS; k++)
        sum[k] = 0;
    for (; row + BATCH <= part.rows; row += BATCH) {
        float terms[BATCH][SUMS];
        SR_UNROLL
        for (int i = 0; i < BATCH; i++)
            term(part.first + (row + i) * part.step, terms[i]);
        SR_UNROLL
        for (int i = 0; i < BATCH; i++) {
            SR_UNROLL
            for (int k = 0; k < SUMS; k++)
                sum[k] += terms[i][k];
        }
    }
    for (; row < part.rows; row++) {
        float terms[SUMS];
        term(part.first + row * part.step, terms);
        SR_UNROLL
        for (int k = 0; k < SUMS; k++)
            sum[k] += terms[k];
    }
}

// The tree of the sums of each channel's parts, for all threads of the channel. All threads of the
// block take part. Shared: a float for each, and another one for each part.
static __device__ float join_parts(float sum) {
    float *sums = (float *)(void *)sr_cuda_shared; // [parts][pitch], then the total in the first
    const unsigned wide = blockDim.x, parts = blockDim.y, pitch = wide + 1;
    const unsigned thread = threadIdx.y * wide + threadIdx.x;
    const unsigned channel = thread / parts, part = thread - channel * parts;
    sums[threadIdx.y * pitch + threadIdx.x] = sum;
    __syncthreads();
    sum = sums[part * pitch + channel];
    for (unsigned step = 1; step < parts; step *= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step, (int)parts);
    if (part == 0)
        sums[channel] = sum;
    __syncthreads();
    sum = sums[threadIdx.x];
    __syncthreads();
    return sum;
}

// The threads of a block: a multiple of a warp.
struct leaf_block {
    int wide, parts;
};

static leaf_block block_of(const rows_shape &s) {
    const int64_t rows = s.rows < s.leaf_rows ? s.rows : s.leaf_rows;
    leaf_block b = {0, 1};
    while (b.parts * SR_REFERENCE_TERMS < rows)
        b.parts *= 2;
    const int64_t most = LEAF_THREADS / b.parts, unit = 32 / b.parts;
    const int64_t wanted = sr_blocks_of(s.channels, unit) * unit;
    b.wide = (int)(wanted < most ? wanted : most);
    return b;
}

static rows_shape shape_of(int64_t rows, int64_t channels) {
    const int64_t leaf_rows = sr_rows_per_block(channels);
    rows_shape shape = {rows, channels, leaf_rows, sr_blocks_of(rows, leaf_rows), 1};
    shape.groups = sr_blocks_of(channels, block_of(shape).wide);
    return shape;
}

static void add_leaves(sr_cuda_making *making, const sr_cuda_kernel *kernel, const rows_shape &s) {
    const leaf_block b = block_of(s);
    if (s.rows > 0 && s.channels > 0)
        making->add_grid(kernel, s.leaves * s.groups, 1, 1, b.wide, b.parts,
                         (size_t)((b.wide + 1) * b.parts) * sizeof(float));
}

// Stores two numbers of a leaf.
static __device__ __forceinline__ void
store_pair(const rows_shape &s, float *leaves, const leaf_part &part, float first, float second) {
    float *leaf = leaves + 2 * part.leaf * s.channels + part.channel;
    if (threadIdx.y != 0 || part.channel >= s.channels)
        return;
    leaf[0] = first;
    leaf[s.channels] = second;
}

#endif
