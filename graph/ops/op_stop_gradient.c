// SPDX-License-Identifier: Apache-2.0
// stop_gradient: the same tensor, whose gradient is zero. An alias: no kernel and no memory.
#include "graph/ops/op_internal.h"

static sr_status infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    out[0] = node->in[0];
    return SR_OK;
}

const sr_op sr_op_stop_gradient = {
    SR_OP_HEAD,   .name = "stop_gradient", .help = "x, whose gradient is zero",
    .inputs = 1,  .input_name = {"x"},     .required = 1,
    .outputs = 1, .infer = infer,          .alias = true,
    .stops = 1u,
};

sr_tensor sr_stop_gradient(sr_tensor x) {
    return sr_op_unary(&sr_op_stop_gradient, NULL, x);
}
