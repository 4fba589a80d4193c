// SPDX-License-Identifier: Apache-2.0
// dropout with counter-based draws (Srivastava et al. 2014, inverted scaling): the mask is a
// function of key, scope and element, so the derivative is dropout with the same key, and only the
// key is kept.
#include "graph/ops/op_internal.h"

typedef struct dropout_attr {
    double probability;
    uint32_t scope, reserved;
} dropout_attr;

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const dropout_attr *a = node->attr;
    const sr_info *key = &node->in[1];
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    if (key->dtype != SR_I32 || key->rank != 1 || key->dim[0] != 4)
        return SR_FAIL(SR_E_SHAPE, "%s: key %s must be i32 [4] (seed low, seed high, step, lane)",
                       node->op->name, sr_info_text(key, text));
    if (!(a->probability >= 0.0 && a->probability < 1.0))
        return SR_FAIL(SR_E_SHAPE, "%s: probability %g must be at least 0 and less than 1",
                       node->op->name, a->probability);
    out[0] = node->in[0];
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    const dropout_attr *a = node->attr;
    const sr_dropout_params p = {
        .count = sr_info_count(&node->in[0]), .probability = a->probability, .scope = a->scope};
    return sr_op_lower(request, SR_KERNEL_dropout, &p, sizeof p);
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_dropout, node->attr, grad_out[0], node->input[1]);
}

const sr_op sr_op_dropout = {
    SR_OP_HEAD,
    .name = "dropout",
    .help = "drops elements with a probability and scales the others by 1 / (1 - p)",
    .inputs = 2,
    .input_name = {"x", "key"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(dropout_attr),
    .infer = infer,
    .lower = lower,
    .derivative = derivative,
    .keeps_inputs = 2u,
    .in_place = SR_IN_PLACE(0, 0),
    .stops = 2u, // key
};

sr_tensor sr_dropout(sr_tensor x, sr_tensor key, double probability, uint32_t scope) {
    const dropout_attr attr = {.probability = probability, .scope = scope};
    return sr_op_binary(&sr_op_dropout, &attr, x, key);
}
