// SPDX-License-Identifier: Apache-2.0
// reshape: the same elements with another shape. An alias: no kernel and no memory.
#include "graph/ops/op_internal.h"

typedef struct reshape_attr {
    int64_t dim[SR_MAX_RANK];
    int32_t rank, reserved;
} reshape_attr;

static const sr_attr_field fields[] = {SR_ATTR_ARRAY(reshape_attr, dim, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(reshape_attr, rank, 0, SR_MAX_RANK),
                                       {0}};

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const reshape_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    char from[SR_INFO_TEXT], to[SR_INFO_TEXT];
    if (a->rank < 0 || a->rank > SR_MAX_RANK)
        return SR_FAIL(SR_E_SHAPE, "%s: %d dimensions; a tensor has at most %d", node->op->name,
                       a->rank, SR_MAX_RANK);
    out[0] = sr_op_info(x->dtype, a->rank, a->dim);
    bool positive = true;
    for (int i = 0; i < a->rank; i++)
        positive = positive && a->dim[i] > 0;
    if (!positive || sr_info_count(&out[0]) != sr_info_count(x))
        return SR_FAIL(SR_E_SHAPE, "%s: x %s has %lld elements and does not fit the shape %s",
                       node->op->name, sr_info_text(x, from), (long long)sr_info_count(x),
                       sr_info_text(&out[0], to));
    return SR_OK;
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_reshape(grad_out[0], node->in[0].rank, node->in[0].dim);
}

const sr_op sr_op_reshape = {
    SR_OP_HEAD,
    .name = "reshape",
    .help = "the same elements with another shape",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(reshape_attr),
    .fields = fields,
    .infer = infer,
    .derivative = derivative,
    .alias = true,
};

sr_tensor sr_reshape(sr_tensor x, int rank, const int64_t *dim) {
    reshape_attr attr = {.rank = rank};
    for (int i = 0; i < rank && i < SR_MAX_RANK; i++)
        attr.dim[i] = dim[i];
    return sr_op_unary(&sr_op_reshape, &attr, x);
}

sr_tensor sr_flatten(sr_tensor x) {
    sr_info info;
    if (!sr_op_argument(x, "flatten: x", &info))
        return sr_op_failed();
    const int64_t n = info.rank > 0 ? info.dim[0] : 1;
    const int64_t dim[2] = {n, n > 0 ? sr_info_count(&info) / n : 0};
    return sr_reshape(x, 2, dim);
}
