// SPDX-License-Identifier: Apache-2.0
// square: x^2. Differentiable to any order.
#include "graph/ops/op_internal.h"

static sr_status square_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_square);
}

// d/dx = 2 x g
static void square_derivative(sr_context *context, const sr_node_view *node,
                              const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_scale(sr_mul(node->input[0], grad_out[0]), 2.0, 0.0);
}

const sr_op sr_op_square = {
    SR_OP_HEAD,
    .name = "square",
    .help = "x^2",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = square_lower,
    .derivative = square_derivative,
    .keeps_inputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_square(sr_tensor x) {
    return sr_op_unary(&sr_op_square, NULL, x);
}
