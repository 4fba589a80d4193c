// SPDX-License-Identifier: Apache-2.0
// Operators with one scalar in or out: scale_by, fill_by, reduce_sum. fill_by and reduce_sum are
// each other's derivative; scale_by's is written with channel_dot, which leaves products unrounded.
#include "graph/ops/op_internal.h"

// A single f32 (f64 beside f64) number of rank 0 or 1.
static sr_status expect_scalar(const sr_node_view *node, int input, sr_dtype activation) {
    const sr_info *s = &node->in[input];
    char text[SR_INFO_TEXT];
    if (s->rank > 1 || sr_info_count(s) != 1 || s->dtype != sr_op_parameter_dtype(activation))
        return SR_FAIL(SR_E_SHAPE, "%s: scalar %s must be %s with one element", node->op->name,
                       sr_info_text(s, text), sr_dtype_name(sr_op_parameter_dtype(activation)));
    return SR_OK;
}

// A rank 0 sum in the shape of the scalar that it is the gradient of.
static sr_tensor shaped_like(sr_tensor sum, const sr_info *scalar) {
    return scalar->rank == 0 ? sum : sr_reshape(sum, scalar->rank, scalar->dim);
}

// ---- scale_by: x, s -> s x ----

static sr_status scale_by_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    SR_TRY(expect_scalar(node, 1, node->in[0].dtype));
    out[0] = node->in[0];
    return SR_OK;
}

static sr_status scale_by_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_scale_by);
}

static void scale_by_derivative(sr_context *context, const sr_node_view *node,
                                const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const int64_t column[2] = {sr_info_count(&node->in[0]), 1};
    if (wanted[0])
        grad_in[0] = sr_scale_by(grad_out[0], node->input[1]);
    if (wanted[1]) {
        const sr_tensor sum = sr_channel_dot(sr_reshape(grad_out[0], 2, column),
                                             sr_reshape(node->input[0], 2, column), SR_NONE);
        grad_in[1] = sr_reshape(sum, node->in[1].rank, node->in[1].dim);
    }
}

const sr_op sr_op_scale_by = {
    SR_OP_HEAD,
    .name = "scale_by",
    .help = "x times a scalar tensor",
    .inputs = 2,
    .input_name = {"x", "scalar"},
    .required = 2,
    .outputs = 1,
    .infer = scale_by_infer,
    .lower = scale_by_lower,
    .derivative = scale_by_derivative,
    .keeps_inputs = 3u,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_scale_by(sr_tensor x, sr_tensor scalar) {
    return sr_op_binary(&sr_op_scale_by, NULL, x, scalar);
}

// ---- fill_by: s -> y ----

typedef struct fill_attr {
    int64_t dim[SR_MAX_RANK];
    int32_t rank, dtype;
} fill_attr;

static sr_status fill_infer(const sr_node_view *node, sr_info *out) {
    const fill_attr *a = node->attr;
    const sr_dtype dtype = (sr_dtype)a->dtype;
    if (!sr_op_is_float(dtype) || a->rank < 0 || a->rank > SR_MAX_RANK)
        return SR_FAIL(SR_E_SHAPE, "%s: a tensor of type %s with %d dimensions cannot be filled",
                       node->op->name, sr_dtype_name(dtype), a->rank);
    SR_TRY(expect_scalar(node, 0, dtype));
    out[0] = sr_op_info(dtype, a->rank, a->dim);
    if (sr_info_count(&out[0]) < 1) {
        char text[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: %s has no elements", node->op->name,
                       sr_info_text(&out[0], text));
    }
    return SR_OK;
}

static sr_status fill_lower(const sr_node_view *node, sr_kernel_request *request) {
    const sr_count_params p = {sr_info_count(&node->out[0])};
    return sr_op_lower(request, SR_KERNEL_fill_by, &p, sizeof p);
}

static void fill_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = shaped_like(sr_reduce_sum(grad_out[0]), &node->in[0]);
}

const sr_op sr_op_fill_by = {
    SR_OP_HEAD,
    .name = "fill_by",
    .help = "a tensor whose every element is the scalar",
    .inputs = 1,
    .input_name = {"scalar"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(fill_attr),
    .infer = fill_infer,
    .lower = fill_lower,
    .derivative = fill_derivative,
};

sr_tensor sr_fill_by(sr_tensor scalar, sr_dtype dtype, int rank, const int64_t *dim) {
    fill_attr attr = {.rank = rank, .dtype = (int32_t)dtype};
    for (int i = 0; i < rank && i < SR_MAX_RANK; i++)
        attr.dim[i] = dim[i];
    return sr_op_unary(&sr_op_fill_by, &attr, scalar);
}

// ---- reduce_sum: x -> s ----

static sr_status sum_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    out[0] = (sr_info){.dtype = sr_op_parameter_dtype(node->in[0].dtype)};
    return SR_OK;
}

static sr_status sum_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_reduce_sum);
}

static void sum_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_info *x = &node->in[0];
    if (wanted[0])
        grad_in[0] = sr_fill_by(grad_out[0], x->dtype, x->rank, x->dim);
}

const sr_op sr_op_reduce_sum = {
    SR_OP_HEAD,
    .name = "reduce_sum",
    .help = "sum of all elements, in fixed blocks and a binary tree",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sum_infer,
    .lower = sum_lower,
    .derivative = sum_derivative,
};

sr_tensor sr_reduce_sum(sr_tensor x) {
    return sr_op_unary(&sr_op_reduce_sum, NULL, x);
}
