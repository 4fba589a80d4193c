// SPDX-License-Identifier: Apache-2.0
// sigmoid, and softplus, whose derivative is sigmoid. Differentiable to any order.
#include "graph/ops/op_internal.h"

// ---- sigmoid ----

static sr_status sigmoid_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_sigmoid);
}

static void sigmoid_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_sigmoid_grad, NULL, node->output[0], grad_out[0]);
}

const sr_op sr_op_sigmoid = {
    SR_OP_HEAD,
    .name = "sigmoid",
    .help = "1 / (1 + exp(-x))",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = sigmoid_lower,
    .derivative = sigmoid_derivative,
    .keeps_outputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
};

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_sigmoid_grad);
}

// d/dy = (1 - 2 y) dy g, d/ddy = y (1 - y) g
static void grad_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_tensor y = node->input[0], dy = node->input[1], g = grad_out[0];
    if (wanted[0])
        grad_in[0] = sr_mul(sr_mul(sr_scale(y, -2.0, 1.0), dy), g);
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_sigmoid_grad, NULL, y, g);
}

const sr_op sr_op_sigmoid_grad = {
    SR_OP_HEAD,
    .name = "sigmoid_grad",
    .help = "dy y (1 - y)",
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

sr_tensor sr_sigmoid(sr_tensor x) {
    return sr_op_unary(&sr_op_sigmoid, NULL, x);
}

// ---- softplus ----

static sr_status softplus_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_softplus);
}

static void softplus_derivative(sr_context *context, const sr_node_view *node,
                                const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_softplus_grad, NULL, node->input[0], grad_out[0]);
}

const sr_op sr_op_softplus = {
    SR_OP_HEAD,
    .name = "softplus",
    .help = "log(1 + exp(x))",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = softplus_lower,
    .derivative = softplus_derivative,
    .keeps_inputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
};

static sr_status softplus_grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_softplus_grad);
}

// d/dx = sigmoid'(x) dy g, d/ddy = sigmoid(x) g
static void softplus_grad_derivative(sr_context *context, const sr_node_view *node,
                                     const sr_tensor *grad_out, const bool *wanted,
                                     sr_tensor *grad_in) {
    (void)context;
    const sr_tensor x = node->input[0], dy = node->input[1], g = grad_out[0];
    if (wanted[0])
        grad_in[0] = sr_mul(sr_op_binary(&sr_op_sigmoid_grad, NULL, sr_sigmoid(x), dy), g);
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_softplus_grad, NULL, x, g);
}

// A separate operator, as a sigmoid stored in 16 bits loses digits when it is subnormal.
const sr_op sr_op_softplus_grad = {
    SR_OP_HEAD,
    .name = "softplus_grad",
    .help = "dy / (1 + exp(-x))",
    .inputs = 2,
    .input_name = {"x", "dy"},
    .required = 2,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = softplus_grad_lower,
    .derivative = softplus_grad_derivative,
    .keeps_inputs = 3u,
    .in_place = SR_IN_PLACE(0, 1),
};

sr_tensor sr_softplus(sr_tensor x) {
    return sr_op_unary(&sr_op_softplus, NULL, x);
}

// softplus(x) - t x is written as (1 - t) softplus(x) + t softplus(-x), as softplus(x) - x is
// softplus(-x): no term is larger than the loss, and none larger than the gradient. The other form
// cancels when a sample is classified correctly: in bf16 neither its loss nor its gradient has a
// correct digit.
sr_tensor sr_bce_with_logits(sr_tensor x, double target) {
    sr_info info;
    if (!sr_op_argument(x, "bce_with_logits: x", &info))
        return sr_op_failed();
    if (target == 0.0)
        return sr_softplus(x);
    const sr_tensor right = sr_softplus(sr_scale(x, -1.0, 0.0));
    if (target == 1.0)
        return right;
    const sr_tensor wrong = sr_scale(sr_softplus(x), 1.0 - target, 0.0);
    return sr_add(wrong, sr_scale(right, target, 0.0));
}
