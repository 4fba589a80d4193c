// SPDX-License-Identifier: Apache-2.0
// Checks and lowering shared by operators; see op_internal.h.
#include "graph/ops/op_internal.h"

#include <assert.h>
#include <string.h>

sr_dtype sr_op_parameter_dtype(sr_dtype activation) {
    return activation == SR_F64 ? SR_F64 : SR_F32;
}

bool sr_op_present(const sr_node_view *node, int input) {
    return input < node->inputs && node->in[input].dtype != SR_DTYPE_COUNT;
}

sr_info sr_op_info(sr_dtype dtype, int rank, const int64_t *dim) {
    sr_info info = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank && i < SR_MAX_RANK; i++)
        info.dim[i] = dim[i];
    return info;
}

bool sr_op_same_shape(const sr_info *a, const sr_info *b) {
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int64_t sr_op_channels(const sr_info *info) {
    return info->rank > 0 ? info->dim[info->rank - 1] : 1;
}

int64_t sr_op_rows(const sr_info *info) {
    int64_t n = 1;
    for (int i = 0; i + 1 < info->rank; i++)
        n *= info->dim[i];
    return n;
}

sr_status sr_op_expect_activation(const sr_node_view *node, int input, const char *name, int rank) {
    const sr_info *info = &node->in[input];
    char text[SR_INFO_TEXT];
    if (!sr_dtype_is_float(info->dtype))
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s must be f32, bf16, f16 or f64 (sr_cast converts)",
                       node->op->name, name, sr_info_text(info, text));
    if (rank >= 0 && info->rank != rank)
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s must have %d dimensions, it has %d", node->op->name,
                       name, sr_info_text(info, text), rank, (int)info->rank);
    return SR_OK;
}

sr_status sr_op_expect_parameter(const sr_node_view *node, int input, const char *name,
                                 sr_dtype activation, int rank, const int64_t *dim) {
    const sr_info expected = sr_op_info(sr_op_parameter_dtype(activation), rank, dim);
    const sr_info *info = &node->in[input];
    if (info->dtype == expected.dtype && sr_op_same_shape(info, &expected))
        return SR_OK;
    char got[SR_INFO_TEXT], want[SR_INFO_TEXT], first[SR_INFO_TEXT];
    return SR_FAIL(SR_E_SHAPE, "%s: %s is %s, expected %s to match %s", node->op->name, name,
                   sr_info_text(info, got), sr_info_text(&expected, want),
                   sr_info_text(&node->in[0], first));
}

sr_status sr_op_expect_vector(const sr_node_view *node, int input, const char *name,
                              sr_dtype activation, int64_t channels) {
    if (!sr_op_present(node, input))
        return SR_OK;
    return sr_op_expect_parameter(node, input, name, activation, 1, &channels);
}

sr_status sr_op_expect_equal(const sr_node_view *node, int a, int b) {
    const sr_info *first = &node->in[a], *second = &node->in[b];
    if (first->dtype == second->dtype && sr_op_same_shape(first, second))
        return SR_OK;
    char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
    return SR_FAIL(SR_E_SHAPE, "%s: inputs %s and %s must have equal shapes and dtypes",
                   node->op->name, sr_info_text(first, left), sr_info_text(second, right));
}

sr_status sr_op_expect_scalar(const sr_node_view *node, int input, sr_dtype activation) {
    const sr_info *s = &node->in[input];
    char text[SR_INFO_TEXT];
    if (s->rank > 1 || sr_info_count(s) != 1 || s->dtype != sr_op_parameter_dtype(activation))
        return SR_FAIL(SR_E_SHAPE, "%s: scalar %s must be %s with one element", node->op->name,
                       sr_info_text(s, text), sr_dtype_name(sr_op_parameter_dtype(activation)));
    return SR_OK;
}

sr_status sr_op_infer_like(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "input", -1));
    for (int i = 1; i < node->inputs; i++)
        SR_TRY(sr_op_expect_equal(node, 0, i));
    out[0] = node->in[0];
    return SR_OK;
}

sr_status sr_op_lower(sr_kernel_request *request, sr_kernel_id kernel, const void *params,
                      size_t bytes) {
    assert(bytes <= sizeof request->params);
    request->kernel = kernel;
    memcpy(request->params, params, bytes);
    return SR_OK;
}

sr_status sr_op_lower_count(const sr_node_view *node, sr_kernel_request *request,
                            sr_kernel_id kernel) {
    const sr_count_params params = {sr_info_count(&node->in[0])};
    return sr_op_lower(request, kernel, &params, sizeof params);
}

int64_t sr_op_positions(int64_t size, int64_t pads, int64_t window, int64_t dilation,
                        int64_t stride) {
    const int64_t room = size + pads - dilation * (window - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

sr_op_sides sr_op_sides_of(int64_t size, int64_t window, int64_t dilation, int64_t stride,
                           int64_t pad, int64_t extra, bool same) {
    if (!same || stride < 1)
        return (sr_op_sides){pad, pad + extra};
    const int64_t positions = (size + stride - 1) / stride;
    const int64_t missing = (positions - 1) * stride + dilation * (window - 1) + 1 - size;
    const int64_t total = missing > 0 ? missing : 0;
    return (sr_op_sides){total / 2, total - total / 2};
}

sr_tensor sr_op_unary(const sr_op *op, const void *attr, sr_tensor x) {
    return sr_op_record_one(op, attr, (sr_tensor[]){x});
}

sr_tensor sr_op_binary(const sr_op *op, const void *attr, sr_tensor a, sr_tensor b) {
    return sr_op_record_one(op, attr, (sr_tensor[]){a, b});
}
