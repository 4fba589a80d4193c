// SPDX-License-Identifier: Apache-2.0
// The provider of CUDA's kernels of numerics class "tensor".
#include "kernels/cuda/cuda_cut.h"
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/kernel_lanes.h"
#include "kernels/kernel_params.h"

// The statistics with this role among the arguments of a batch norm: mean and var, dgamma and
// dbeta; bit i: argument i.
static uint16_t statistics_of(sr_kernel_id kernel, sr_argument_role role) {
    int count;
    const sr_kernel_argument *argument = sr_kernel_arguments(kernel, &count);
    uint32_t statistics = 0;
    for (int i = 0; i < count; i++)
        if (argument[i].type == SR_ARG_P && argument[i].role == role)
            statistics |= 1U << i;
    return (uint16_t)statistics;
}

// Lanes side by side have their own statistics; where none of them are results, lanes may share
// them, too.
static bool takes_statistics(const sr_kernel_request *request) {
    const uint16_t inputs = sr_kernel_lane_inputs(request);
    return inputs == statistics_of(request->kernel, SR_ARG_IN) ||
           (inputs == 0 && statistics_of(request->kernel, SR_ARG_OUT) == 0);
}

// Batch norm. Params begin with sr_rows_params; the last bound is that of the items of a launch,
// which are numbered in 32 bits (tensor_batchnorm.cu): a unit has at least 64 rows.
static bool supports_rows(const sr_kernel_request *request) {
    const sr_rows_params *p = (const void *)request->params;
    const int64_t lanes = request->lanes > 0 ? request->lanes : 1;
    if (request->lanes > 0 && (!takes_statistics(request) || p->rows % lanes != 0))
        return false;
    return sr_kernel_fits(request) && request->dtype[0] != SR_F64 && p->rows > 0 &&
           p->channels > 0 && p->rows <= INT32_MAX && p->channels <= INT32_MAX &&
           (p->rows / 64 + lanes) * p->channels <= INT32_MAX / 2;
}

// Rows of signs are whole bytes.
static bool supports_signs(const sr_kernel_request *request) {
    bool has_signs = false;
    int count;
    const sr_kernel_argument *argument = sr_kernel_arguments(request->kernel, &count);
    for (int i = 0; i < count; i++)
        has_signs |= argument[i].type == SR_ARG_U8 && request->dtype[i] != SR_DTYPE_COUNT;
    return supports_rows(request) &&
           (!has_signs ||
            ((const sr_rows_params *)(const void *)request->params)->channels % 8 == 0);
}

static bool is_size(int64_t n) {
    return n > 0 && n <= INT32_MAX;
}

// Batch norm before pooling by the windows that there are functions for; pixels are numbered in 32
// bits, and the rows of a lane are those of whole samples.
static bool supports_pool(const sr_kernel_request *request) {
    const sr_pool_params *p = &((const sr_norm_pool_params *)(const void *)request->params)->pool;
    const int64_t lanes = request->lanes > 0 ? request->lanes : 1, rows = p->n * p->h * p->w;
    if (request->lanes > 0 && (!takes_statistics(request) || p->n % lanes != 0))
        return false;
    return sr_kernel_fits(request) && request->dtype[0] != SR_F64 && is_size(p->n) &&
           is_size(p->h) && is_size(p->w) && is_size(p->p) && is_size(p->q) && is_size(rows) &&
           is_size(p->n * p->p * p->q) && is_size(p->w * p->c) && is_size(p->q * p->c) &&
           sr_norm_pool_has_windows(p->window_h, p->window_w, p->stride_h, p->stride_w, p->gap_h,
                                    p->gap_w) &&
           p->c % (16 / (int64_t)sr_dtype_size(request->dtype[0])) == 0 &&
           (rows / 64 + lanes) * p->c <= INT32_MAX / 2;
}

// Lanes of 'samples' that share what is no sample, but for 'own'.
static bool shares_all_but(const sr_kernel_request *request, int64_t samples, uint16_t own) {
    return request->lanes == 0 ||
           ((sr_kernel_lane_inputs(request) & ~own) == 0 && samples % request->lanes == 0);
}

static bool shares_inputs(const sr_kernel_request *request, int64_t samples) {
    return shares_all_but(request, samples, 0);
}

// Depthwise convolutions. Pixels, and the elements of a row, are numbered in 32 bits
// (tensor_depthwise.h).
static bool supports_depthwise(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    const bool depthwise = p->groups > 1 && p->c == p->groups && p->k == p->groups;
    const bool square = p->r == p->s && p->stride_h == p->stride_w;
    return sr_kernel_fits(request) && shares_inputs(request, p->n) && request->dtype[0] != SR_F64 &&
           depthwise && square && (p->r == 3 || p->r == 5 || p->r == 7) &&
           (p->stride_h == 1 || p->stride_h == 2) && p->dilation_h == 1 && p->dilation_w == 1 &&
           is_size(p->n) && is_size(p->h) && is_size(p->w) && is_size(p->p) && is_size(p->q) &&
           is_size(49 * p->c) && is_size(4 * p->h * p->w) && is_size(4 * p->n * p->h * p->w) &&
           is_size(4 * p->p * p->q) && is_size(4 * p->n * p->p * p->q) && is_size(p->w * p->c) &&
           is_size(p->q * p->c);
}

// Layer norm: groups of all channels of a pixel.
static bool is_layer_norm(const sr_groupnorm_params *p, sr_dtype dtype) {
    return dtype != SR_F64 && p->samples > 0 && p->samples <= INT32_MAX && p->pixels == 1 &&
           p->groups == 1 && p->channels > 0 && sr_tensor_holds_row(dtype, p->channels);
}

static bool supports_layer_norm(const sr_kernel_request *request) {
    const sr_groupnorm_params *p = (const void *)request->params;
    return sr_kernel_fits(request) && shares_inputs(request, p->samples) &&
           is_layer_norm(p, request->dtype[0]);
}

// What each lane has of its own, and need not lie behind each other.
enum {
    KEY = 1 << 2,         // of add_groupnorm
    SUMS = 1 << 1,        // of channel_sum
    SUMS_OF_TWO = 1 << 3, // of channel_dot
};

static bool supports_add_groupnorm(const sr_kernel_request *request) {
    const sr_add_groupnorm_params *p = (const void *)request->params;
    return sr_kernel_fits(request) && shares_all_but(request, p->norm.samples, KEY) &&
           is_layer_norm(&p->norm, request->dtype[0]);
}

// Sums over rows. A grid has at most 65,535 slabs of 32 channels, and 2^31 units.
static bool supports_sums(const sr_kernel_request *request) {
    const sr_rows_params *p = (const void *)request->params;
    return sr_kernel_fits(request) && shares_inputs(request, p->rows) &&
           request->dtype[0] != SR_F64 && p->rows > 0 && p->rows <= INT32_MAX && p->channels > 0 &&
           p->channels <= 32 * UINT16_MAX;
}

// Formulas whose inputs have the output's shape.
static bool supports_elements(const sr_kernel_request *request) {
    const sr_expression_params *p = (const void *)request->params;
    for (int i = 0; i < request->args - 1; i++)
        if (sr_input_elements(p, i) != p->count)
            return false;
    return sr_kernel_fits(request) && shares_inputs(request, p->count) &&
           request->dtype[0] != SR_F64 && p->count > 0;
}

#define ENTRY(id, supporting) ENTRY_WITH(id, supporting, 0)
// own: the arguments of lanes that may be apart.
#define ENTRY_WITH(id, supporting, own)                                                            \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/" SR_CUDA_TENSOR, .provider = SR_CUDA_TENSOR,                                \
        .numerics_class = SR_CUDA_TENSOR, .supports = (supporting),                                \
        .prepare = sr_tensor_prepare_##id, .dtypes = "f32 bf16 f16", .lanes = true,                \
        .apart = (own),                                                                            \
    }

static const sr_kernel_entry entries[] = {
    ENTRY(batchnorm_train, supports_rows),
    ENTRY(batchnorm_grad, supports_rows),
    ENTRY(batchnorm_moments, supports_rows),
    ENTRY(batchnorm_sums, supports_rows),
    ENTRY(batchnorm_dx, supports_rows),
    ENTRY(batchnorm_infer, supports_rows),
    ENTRY(batchnorm_train_relu, supports_signs),
    ENTRY(batchnorm_train_pair_relu, supports_signs),
    ENTRY(batchnorm_infer_relu, supports_signs),
    ENTRY(batchnorm_relu_grad, supports_rows),
    ENTRY(batchnorm_add_relu_grad, supports_signs),
    ENTRY(batchnorm_train_relu_maxpool, supports_pool),
    ENTRY(batchnorm_infer_relu_maxpool, supports_pool),
    ENTRY(batchnorm_relu_maxpool_grad, supports_pool),
    ENTRY(conv2d, supports_depthwise),
    ENTRY(conv2d_dx, supports_depthwise),
    ENTRY(conv2d_dw, supports_depthwise),
    ENTRY(groupnorm, supports_layer_norm),
    ENTRY(groupnorm_grad, supports_layer_norm),
    ENTRY_WITH(channel_sum, supports_sums, SUMS),
    ENTRY_WITH(channel_dot, supports_sums, SUMS_OF_TWO),
    ENTRY_WITH(add_groupnorm, supports_add_groupnorm, KEY),
    ENTRY(groupnorm_add_grad, supports_layer_norm),
    ENTRY(gelu, supports_elements),
    ENTRY(gelu_grad, supports_elements),
    ENTRY(sigmoid, supports_elements),
    ENTRY(silu, supports_elements),
    ENTRY(silu_grad, supports_elements),
    ENTRY(tanh, supports_elements),
    ENTRY(gelu_tanh, supports_elements),
    ENTRY(gelu_tanh_grad, supports_elements),
};

const sr_provider sr_provider_cuda_tensor = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = SR_CUDA_TENSOR,
    .device = "cuda",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .numerics = SR_CUDA_TENSOR_NUMERICS,
};
