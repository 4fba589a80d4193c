// SPDX-License-Identifier: Apache-2.0
// gelu: x Phi(x) with the normal distribution function by erf, not the tanh approximation
// (Hendrycks & Gimpel 2016). Differentiable once: gelu_grad has no rule.
#include "graph/ops/op_internal.h"

static sr_status gelu_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_gelu);
}

static void gelu_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_gelu_grad, NULL, node->input[0], grad_out[0]);
}

const sr_op sr_op_gelu = {
    SR_OP_HEAD,
    .name = "gelu",
    .help = "x Phi(x), exact erf form",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = gelu_lower,
    .derivative = gelu_derivative,
    .keeps_inputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
    .once = true,
};

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_gelu_grad);
}

const sr_op sr_op_gelu_grad = {
    SR_OP_HEAD,
    .name = "gelu_grad",
    .help = "dy (Phi(x) + x phi(x))",
    .inputs = 2,
    .input_name = {"x", "dy"},
    .required = 2,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = grad_lower,
    .in_place = SR_IN_PLACE(0, 1),
};

sr_tensor sr_gelu(sr_tensor x) {
    return sr_op_unary(&sr_op_gelu, NULL, x);
}
