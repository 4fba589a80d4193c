// SPDX-License-Identifier: Apache-2.0
// Reference kernels over rows of channels and over all elements: bias_add, channel_sum,
// channel_dot, reduce_sum, batch normalisation.
//
// Sums are those of reference_sum.inc; leaves are fixed blocks of rows (at most 64 Ki elements and
// 1,024 rows) or of 64 Ki elements, and combined by the binary tree on their numbers. Statistics of
// a leaf are two-pass (mean, then centred squares) and are combined by the pairwise update of Chan,
// Golub & LeVeque (1979), so the variance does not cancel.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"

// Channels that one block of a combining stage handles.
#define CHANNEL_CHUNK 64

// Of the tree in a leaf.
static inline int64_t leaf_levels(void) {
    return sr_reference_levels(SR_REFERENCE_ROWS / SR_REFERENCE_TERMS);
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_rows.inc"
#include "kernels/cpu/reference/reference_typed.inc"

static int64_t row_blocks(const sr_rows_params *p) {
    return sr_blocks_of(p->rows, sr_rows_per_block(p->channels));
}

sr_status sr_reference_prepare_bias_add(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(bias_add);
    sr_add_stage(out, variants[request->dtype[0]], row_blocks((const void *)request->params));
    return SR_OK;
}

static size_t leaf_scratch(int64_t channels, sr_dtype dtype) {
    return (size_t)((1 + leaf_levels()) * channels) * sr_accumulator_size(dtype);
}

static sr_status prepare_sums(const sr_kernel_request *request, sr_prepared *out,
                              const sr_kernel_fn *leaves, const sr_kernel_fn *trees) {
    const sr_rows_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    sr_add_stage(out, leaves[dtype], row_blocks(p));
    sr_add_stage(out, trees[dtype], sr_blocks_of(p->channels, CHANNEL_CHUNK));
    out->workspace = (size_t)(row_blocks(p) * p->channels) * sr_accumulator_size(dtype);
    out->scratch = leaf_scratch(p->channels, dtype);
    return SR_OK;
}

sr_status sr_reference_prepare_channel_sum(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(channel_sum_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(channel_sum_tree);
    return prepare_sums(request, out, leaves, trees);
}

sr_status sr_reference_prepare_channel_dot(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(channel_dot_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(channel_dot_tree);
    return prepare_sums(request, out, leaves, trees);
}

sr_status sr_reference_prepare_reduce_sum(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(reduce_sum_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(reduce_sum_tree);
    const int64_t count = ((const sr_count_params *)(const void *)request->params)->count;
    const int64_t blocks = sr_blocks_of(count, SR_REFERENCE_BLOCK);
    const sr_dtype dtype = request->dtype[0];
    sr_add_stage(out, leaves[dtype], blocks);
    sr_add_stage(out, trees[dtype], 1);
    out->workspace = (size_t)blocks * sr_accumulator_size(dtype);
    return SR_OK;
}

// The head of sr_batchnorm_params is sr_rows_params.
static sr_status prepare_batchnorm(const sr_kernel_request *request, sr_prepared *out,
                                   const sr_kernel_fn *leaves, const sr_kernel_fn *trees,
                                   const sr_kernel_fn *rows) {
    const sr_batchnorm_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    const int64_t blocks = sr_blocks_of(p->rows, sr_rows_per_block(p->channels));
    sr_add_stage(out, leaves[dtype], blocks);
    sr_add_stage(out, trees[dtype], sr_blocks_of(p->channels, CHANNEL_CHUNK));
    sr_add_stage(out, rows[dtype], blocks);
    // Two sums per leaf and channel, then one factor per channel.
    out->workspace = (size_t)((2 * blocks + 1) * p->channels) * sr_accumulator_size(dtype);
    out->scratch = leaf_scratch(p->channels, dtype);
    return SR_OK;
}

sr_status sr_reference_prepare_batchnorm_train(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_tree);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_rows);
    return prepare_batchnorm(request, out, leaves, trees, rows);
}

sr_status sr_reference_prepare_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_grad_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_grad_tree);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_grad_rows);
    return prepare_batchnorm(request, out, leaves, trees, rows);
}

sr_status sr_reference_prepare_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(batchnorm_infer);
    const sr_batchnorm_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    sr_add_stage(out, variants[dtype], sr_blocks_of(p->rows, sr_rows_per_block(p->channels)));
    out->scratch = (size_t)p->channels * sr_accumulator_size(dtype);
    return SR_OK;
}
