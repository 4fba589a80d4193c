// SPDX-License-Identifier: Apache-2.0
// bias_add and channel_sum: adding a vector over the last dimension, and its transpose. Each is the
// other's derivative.
#include "graph/ops/op_internal.h"

static sr_status lower_rows(const sr_node_view *node, sr_kernel_request *request,
                            sr_kernel_id kernel) {
    const sr_rows_params p = {.rows = sr_op_rows(&node->in[0]),
                              .channels = sr_op_channels(&node->in[0])};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_status expect_rows(const sr_node_view *node) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    if (node->in[0].rank < 1)
        return SR_FAIL(SR_E_SHAPE, "%s: x is a scalar, expected at least one dimension",
                       node->op->name);
    return SR_OK;
}

// ---- bias_add ----

static sr_status add_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_rows(node));
    SR_TRY(sr_op_expect_vector(node, 1, "b", node->in[0].dtype, sr_op_channels(&node->in[0])));
    out[0] = node->in[0];
    return SR_OK;
}

static sr_status add_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower_rows(node, request, SR_KERNEL_bias_add);
}

static void add_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    (void)node;
    if (wanted[0])
        grad_in[0] = grad_out[0];
    if (wanted[1])
        grad_in[1] = sr_channel_sum(grad_out[0]);
}

const sr_op sr_op_bias_add = {
    SR_OP_HEAD,
    .name = "bias_add",
    .help = "x + b over the last dimension",
    .inputs = 2,
    .input_name = {"x", "b"},
    .required = 2,
    .outputs = 1,
    .infer = add_infer,
    .lower = add_lower,
    .derivative = add_derivative,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_bias_add(sr_tensor x, sr_tensor b) {
    return sr_op_binary(&sr_op_bias_add, NULL, x, b);
}

// ---- channel_sum ----

static sr_status sum_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_rows(node));
    const int64_t channels = sr_op_channels(&node->in[0]);
    out[0] = sr_op_info(sr_op_parameter_dtype(node->in[0].dtype), 1, &channels);
    return SR_OK;
}

static sr_status sum_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower_rows(node, request, SR_KERNEL_channel_sum);
}

// Every row of dx is the gradient: a zero image plus it.
static void sum_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    if (!wanted[0])
        return;
    const sr_info *x = &node->in[0];
    const sr_tensor zero = sr_op_constant(context, x->dtype, 0, 0.0);
    grad_in[0] = sr_bias_add(sr_fill_by(zero, x->dtype, x->rank, x->dim), grad_out[0]);
}

const sr_op sr_op_channel_sum = {
    SR_OP_HEAD,
    .name = "channel_sum",
    .help = "sum over all but the last dimension",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sum_infer,
    .lower = sum_lower,
    .derivative = sum_derivative,
};

sr_tensor sr_channel_sum(sr_tensor x) {
    return sr_op_unary(&sr_op_channel_sum, NULL, x);
}
