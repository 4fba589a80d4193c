// SPDX-License-Identifier: Apache-2.0
// Reference kernels over rows of channels and over all elements: bias_add, channel_sum,
// channel_dot, reduce_sum, normalisation over the batch or over groups of channels.
//
// Sums are those of reference_sum.inc; leaves are fixed blocks of rows (at most 64 Ki elements and
// 1,024 rows) or of 64 Ki elements, and combined by the binary tree on their numbers. Statistics of
// a leaf are two-pass (mean, then centred squares) and are combined by the pairwise update of Chan,
// Golub & LeVeque (1979), so the variance does not cancel. Leaves of groups of channels are those
// of sr_group_order; the gradient of their parameters is a sum over rows, as in batch
// normalisation.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/draws.h"

// Channels that one block of a combining stage handles.
#define CHANNEL_CHUNK 64

// Of the tree in a leaf.
static inline int64_t leaf_levels(void) {
    return sr_reference_levels(SR_REFERENCE_ROWS / SR_REFERENCE_TERMS);
}

// Neighbours of a pixel that are terms of neighbouring columns.
typedef struct group_line {
    int64_t element, channel, column, count; // the first ones; column: of those of all groups
} group_line;

// The same for a leaf of groupnorm.
static inline int64_t group_levels(void) {
    return sr_reference_levels(SR_REFERENCE_PARTS);
}

// Sums of a pixel's groups side by side.
static int64_t all_columns(const sr_groupnorm_params *p, const sr_group_order *order) {
    return p->groups * order->columns;
}

// Leaves, each of all groups of a sample, that one block handles.
static int64_t group_leaves_per_block(const sr_groupnorm_params *p, const sr_group_order *order) {
    const int64_t leaf = p->groups * sr_group_leaf_elements(order, 0, 1);
    return leaf < 1 || leaf > SR_REFERENCE_BLOCK ? 1 : SR_REFERENCE_BLOCK / leaf;
}

static int64_t group_leaf_blocks(const sr_groupnorm_params *p, const sr_group_order *order) {
    return sr_blocks_of(p->samples * order->leaves, group_leaves_per_block(p, order));
}

// Samples whose leaves one block joins.
static int64_t samples_per_block(const sr_groupnorm_params *p) {
    return sr_blocks_of(SR_REFERENCE_CHUNK, p->groups);
}

static int64_t sample_blocks(const sr_groupnorm_params *p) {
    return sr_blocks_of(p->samples, samples_per_block(p));
}

// Numbers of the leaves of all groups in the workspace, two each.
static int64_t group_sums(const sr_groupnorm_params *p, const sr_group_order *order) {
    return 2 * p->samples * order->leaves * p->groups;
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_rows.inc"
#include "kernels/cpu/reference/reference_typed.inc"
#undef SR_TYPED_BODY
#define SR_TYPED_BODY "kernels/cpu/reference/reference_groupnorm.inc"
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

// The head of sr_batchnorm_params is sr_rows_params. rows: NULL without a stage over rows.
static sr_status prepare_batchnorm(const sr_kernel_request *request, sr_prepared *out,
                                   const sr_kernel_fn *leaves, const sr_kernel_fn *trees,
                                   const sr_kernel_fn *rows) {
    const sr_rows_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    const int64_t blocks = row_blocks(p);
    sr_add_stage(out, leaves[dtype], blocks);
    sr_add_stage(out, trees[dtype], sr_blocks_of(p->channels, CHANNEL_CHUNK));
    if (rows)
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

sr_status sr_reference_prepare_batchnorm_train_relu(const sr_kernel_request *request,
                                                    sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_relu_tree);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_relu_rows);
    return prepare_batchnorm(request, out, leaves, trees, rows);
}

sr_status sr_reference_prepare_batchnorm_train_pair_relu(const sr_kernel_request *request,
                                                         sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_pair_tree);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_pair_rows);
    return prepare_batchnorm(request, out, leaves, trees, rows);
}

sr_status sr_reference_prepare_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_grad_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_grad_tree);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_grad_rows);
    return prepare_batchnorm(request, out, leaves, trees, rows);
}

sr_status sr_reference_prepare_batchnorm_relu_grad(const sr_kernel_request *request,
                                                   sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_relu_grad_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_relu_grad_tree);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_relu_grad_rows);
    return prepare_batchnorm(request, out, leaves, trees, rows);
}

sr_status sr_reference_prepare_batchnorm_add_relu_grad(const sr_kernel_request *request,
                                                       sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_add_relu_grad_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_add_relu_grad_tree);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_add_relu_grad_rows);
    return prepare_batchnorm(request, out, leaves, trees, rows);
}

sr_status sr_reference_prepare_batchnorm_moments(const sr_kernel_request *request,
                                                 sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_moments_tree);
    return prepare_batchnorm(request, out, leaves, trees, NULL);
}

sr_status sr_reference_prepare_batchnorm_sums(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(batchnorm_sums_leaf);
    static const sr_kernel_fn trees[] = SR_REFERENCE_TYPES(batchnorm_sums_tree);
    return prepare_batchnorm(request, out, leaves, trees, NULL);
}

// Over rows, with a factor of each channel in the scratch.
static sr_status prepare_factors(const sr_kernel_request *request, sr_prepared *out,
                                 const sr_kernel_fn *rows) {
    const sr_rows_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    sr_add_stage(out, rows[dtype], row_blocks(p));
    out->scratch = (size_t)p->channels * sr_accumulator_size(dtype);
    return SR_OK;
}

sr_status sr_reference_prepare_batchnorm_dx(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_dx);
    return prepare_factors(request, out, rows);
}

sr_status sr_reference_prepare_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_infer);
    return prepare_factors(request, out, rows);
}

sr_status sr_reference_prepare_batchnorm_infer_relu(const sr_kernel_request *request,
                                                    sr_prepared *out) {
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(batchnorm_infer_relu);
    return prepare_factors(request, out, rows);
}

static int64_t pixel_blocks(const sr_groupnorm_params *p) {
    return sr_blocks_of(p->samples * p->pixels, sr_rows_per_block(p->channels));
}

// Numbers of a worker: the tree of a leaf, and four numbers of each column.
static int64_t group_scratch(const sr_groupnorm_params *p, const sr_group_order *order) {
    return (1 + group_levels() + 4) * all_columns(p, order);
}

// By dtype.
typedef struct group_stages {
    const sr_kernel_fn *leaves, *joins, *rows;
} group_stages;

static sr_status prepare_groups(const sr_groupnorm_params *p, sr_dtype dtype,
                                const group_stages *stages, sr_prepared *out) {
    const sr_group_order order = sr_group_order_of(p);
    sr_add_stage(out, stages->leaves[dtype], group_leaf_blocks(p, &order));
    sr_add_stage(out, stages->joins[dtype], sample_blocks(p));
    sr_add_stage(out, stages->rows[dtype], pixel_blocks(p));
    out->workspace = (size_t)group_sums(p, &order) * sr_accumulator_size(dtype);
    out->scratch = (size_t)group_scratch(p, &order) * sr_accumulator_size(dtype);
    return SR_OK;
}

sr_status sr_reference_prepare_groupnorm(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(groupnorm_leaves);
    static const sr_kernel_fn joins[] = SR_REFERENCE_TYPES(groupnorm_join);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(groupnorm_rows);
    return prepare_groups((const void *)request->params, request->dtype[0],
                          &(group_stages){leaves, joins, rows}, out);
}

sr_status sr_reference_prepare_add_groupnorm(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(add_groupnorm_leaves);
    static const sr_kernel_fn joins[] = SR_REFERENCE_TYPES(add_groupnorm_join);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(add_groupnorm_rows);
    const sr_add_groupnorm_params *p = (const void *)request->params;
    return prepare_groups(&p->norm, request->dtype[0], &(group_stages){leaves, joins, rows}, out);
}

static sr_status prepare_group_gradients(const sr_kernel_request *request,
                                         const group_stages *stages, sr_prepared *out) {
    const sr_groupnorm_params *p = (const void *)request->params;
    const sr_group_order order = sr_group_order_of(p);
    const sr_dtype dtype = request->dtype[0];
    const size_t size = sr_accumulator_size(dtype);
    const size_t groups = (size_t)group_scratch(p, &order) * size;
    const size_t channels =
        leaf_scratch(p->channels, dtype) + (size_t)(4 * all_columns(p, &order)) * size;
    sr_add_stage(out, stages->leaves[dtype], group_leaf_blocks(p, &order) + pixel_blocks(p));
    sr_add_stage(out, stages->joins[dtype],
                 sample_blocks(p) + sr_blocks_of(p->channels, CHANNEL_CHUNK));
    sr_add_stage(out, stages->rows[dtype], pixel_blocks(p));
    out->workspace = (size_t)(group_sums(p, &order) + 2 * pixel_blocks(p) * p->channels) * size;
    out->scratch = groups > channels ? groups : channels;
    return SR_OK;
}

sr_status sr_reference_prepare_groupnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(groupnorm_grad_leaves);
    static const sr_kernel_fn joins[] = SR_REFERENCE_TYPES(groupnorm_grad_join);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(groupnorm_grad_rows);
    return prepare_group_gradients(request, &(group_stages){leaves, joins, rows}, out);
}

sr_status sr_reference_prepare_groupnorm_add_grad(const sr_kernel_request *request,
                                                  sr_prepared *out) {
    static const sr_kernel_fn leaves[] = SR_REFERENCE_TYPES(groupnorm_add_grad_leaves);
    static const sr_kernel_fn joins[] = SR_REFERENCE_TYPES(groupnorm_add_grad_join);
    static const sr_kernel_fn rows[] = SR_REFERENCE_TYPES(groupnorm_add_grad_rows);
    return prepare_group_gradients(request, &(group_stages){leaves, joins, rows}, out);
}
