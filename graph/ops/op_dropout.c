// SPDX-License-Identifier: Apache-2.0
// dropout (Srivastava et al. 2014) and drop_path (Huang et al. 2016), with inverted scaling and
// counter-based draws: the mask is a function of key, scope and element, or sample, so the
// derivative is the operator with the same key, and only the key is kept.
#include "graph/ops/op_internal.h"

typedef sr_op_dropout_attr dropout_attr;

static const sr_attr_field fields[] = {
    SR_ATTR(dropout_attr, probability, 0, 1), SR_ATTR(dropout_attr, scope, 0, UINT32_MAX), {0}};

sr_status sr_op_expect_draws(const sr_node_view *node, int input, double probability) {
    const sr_info *key = &node->in[input];
    char text[SR_INFO_TEXT];
    if (key->dtype != SR_I32 || key->rank != 1 || key->dim[0] != 4)
        return SR_FAIL(SR_E_SHAPE, "%s: key %s must be i32 [4] (seed low, seed high, step, lane)",
                       node->op->name, sr_info_text(key, text));
    if (!(probability >= 0.0 && probability < 1.0))
        return SR_FAIL(SR_E_SHAPE, "%s: probability %g must be at least 0 and less than 1",
                       node->op->name, probability);
    return SR_OK;
}

static sr_status infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    SR_TRY(sr_op_expect_draws(node, 1, ((const dropout_attr *)node->attr)->probability));
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
        grad_in[0] = sr_op_binary(node->op, node->attr, grad_out[0], node->input[1]);
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
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .derivative = derivative,
    .keeps_inputs = 2u,
    .in_place = SR_IN_PLACE(0, 0),
    .stops = 2u, // key
};

// ---- drop_path ----

static sr_status path_infer(const sr_node_view *node, sr_info *out) {
    char text[SR_INFO_TEXT];
    SR_TRY(infer(node, out));
    if (out[0].rank < 1)
        return SR_FAIL(SR_E_SHAPE, "%s: x %s must have a dimension of samples", node->op->name,
                       sr_info_text(&out[0], text));
    return SR_OK;
}

static sr_status path_lower(const sr_node_view *node, sr_kernel_request *request) {
    const dropout_attr *a = node->attr;
    const int64_t samples = node->in[0].dim[0];
    const sr_drop_path_params p = {.samples = samples,
                                   .size = sr_info_count(&node->in[0]) / samples,
                                   .probability = a->probability,
                                   .scope = a->scope};
    return sr_op_lower(request, SR_KERNEL_drop_path, &p, sizeof p);
}

const sr_op sr_op_drop_path = {
    SR_OP_HEAD,
    .name = "drop_path",
    .help = "drops samples with a probability and scales the others by 1 / (1 - p)",
    .inputs = 2,
    .input_name = {"x", "key"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(dropout_attr),
    .fields = fields,
    .infer = path_infer,
    .lower = path_lower,
    .derivative = derivative,
    .keeps_inputs = 2u,
    .in_place = SR_IN_PLACE(0, 0),
    .stops = 2u, // key
};

// ---- Calls ----

sr_tensor sr_drop_path(sr_tensor x, sr_tensor key, double probability, uint32_t scope) {
    const dropout_attr attr = {.probability = probability, .scope = scope};
    return sr_op_binary(&sr_op_drop_path, &attr, x, key);
}

sr_tensor sr_dropout(sr_tensor x, sr_tensor key, double probability, uint32_t scope) {
    const dropout_attr attr = {.probability = probability, .scope = scope};
    return sr_op_binary(&sr_op_dropout, &attr, x, key);
}
