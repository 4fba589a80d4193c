// SPDX-License-Identifier: Apache-2.0
// relu: max(x, 0). Its gradient is computed from the result, so x need not be kept.
#include "graph/ops/op_internal.h"

static sr_status relu_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_relu);
}

static void relu_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_relu_grad, NULL, node->output[0], grad_out[0]);
}

const sr_op sr_op_relu = {
    SR_OP_HEAD,           .name = "relu",
    .help = "max(x, 0)",  .inputs = 1,
    .input_name = {"x"},  .required = 1,
    .outputs = 1,         .infer = sr_op_infer_like,
    .lower = relu_lower,  .derivative = relu_derivative,
    .keeps_outputs = 1u,  .in_place = SR_IN_PLACE(0, 0),
    .again = &sr_op_relu,
};

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_relu_grad);
}

// Linear in dy; the dependence on y is zero almost everywhere.
static void grad_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_relu_grad, NULL, node->input[0], grad_out[0]);
}

const sr_op sr_op_relu_grad = {
    SR_OP_HEAD,
    .name = "relu_grad",
    .help = "dy where y > 0, else 0",
    .inputs = 2,
    .input_name = {"y", "dy"},
    .required = 2,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = grad_lower,
    .derivative = grad_derivative,
    .keeps_inputs = 1u,
    .in_place = SR_IN_PLACE(0, 1),
    .stops = 1u, // y: zero almost everywhere
};

sr_tensor sr_relu(sr_tensor x) {
    return sr_op_unary(&sr_op_relu, NULL, x);
}
