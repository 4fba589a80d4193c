// SPDX-License-Identifier: Apache-2.0
// scale_by: x times a scalar tensor. Its derivative uses channel_dot, which does not round
// products.
#include "graph/ops/op_internal.h"

static sr_status infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    SR_TRY(sr_op_expect_scalar(node, 1, node->in[0].dtype));
    out[0] = node->in[0];
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_scale_by);
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
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
    .infer = infer,
    .lower = lower,
    .derivative = derivative,
    .keeps_inputs = 3u,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_scale_by(sr_tensor x, sr_tensor scalar) {
    return sr_op_binary(&sr_op_scale_by, NULL, x, scalar);
}
