// SPDX-License-Identifier: Apache-2.0
// tanh, and its gradient from the result: dy (1 - y^2). Differentiable to any order.
#include "graph/ops/op_internal.h"

static sr_status tanh_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_tanh);
}

static void tanh_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_tanh_grad, NULL, node->output[0], grad_out[0]);
}

const sr_op sr_op_tanh = {
    SR_OP_HEAD,
    .name = "tanh",
    .help = "hyperbolic tangent",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = tanh_lower,
    .derivative = tanh_derivative,
    .keeps_outputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
};

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_tanh_grad);
}

// d/dy = -2 y dy g, d/ddy = (1 - y^2) g
static void grad_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_tensor y = node->input[0], dy = node->input[1], g = grad_out[0];
    if (wanted[0])
        grad_in[0] = sr_scale(sr_mul(sr_mul(y, dy), g), -2.0, 0.0);
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_tanh_grad, NULL, y, g);
}

const sr_op sr_op_tanh_grad = {
    SR_OP_HEAD,
    .name = "tanh_grad",
    .help = "dy (1 - y^2)",
    .inputs = 2,
    .input_name = {"y", "dy"},
    .required = 2,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = grad_lower,
    .derivative = grad_derivative,
    .keeps_inputs = 3u,
    .in_place = SR_IN_PLACE(0, 1),
};

sr_tensor sr_tanh_op(sr_tensor x) {
    return sr_op_unary(&sr_op_tanh, NULL, x);
}
