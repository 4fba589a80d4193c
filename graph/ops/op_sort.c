// SPDX-License-Identifier: Apache-2.0
// Sorted rows: all elements of the last dimension, or the first ones of the order.
#include "graph/ops/op_internal.h"

typedef struct sort_attr {
    int64_t k; // elements of the result
    int32_t ascending, reserved;
} sort_attr;

static const sr_attr_field fields[] = {
    SR_ATTR(sort_attr, k, 1, SR_ATTR_EXTENT), SR_ATTR(sort_attr, ascending, 0, SR_ATTR_FLAG), {0}};

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const int64_t k = ((const sort_attr *)node->attr)->k;
    const sr_info *x = &node->in[0];
    const int64_t n = sr_op_channels(x);
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    if (x->rank < 1 || k < 1 || k > n || n > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE,
                       "%s: the first %lld of x %s; its last dimension must have as many, "
                       "and at most %d",
                       node->op->name, (long long)k, sr_info_text(x, text), INT32_MAX);
    out[0] = *x;
    out[0].dim[x->rank - 1] = k;
    out[1] = out[0];
    out[1].dtype = SR_I32;
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    const sort_attr *a = node->attr;
    const sr_sort_params p = {.rows = sr_op_rows(&node->in[0]),
                              .n = sr_op_channels(&node->in[0]),
                              .k = a->k,
                              .ascending = a->ascending};
    return sr_op_lower(request, SR_KERNEL_sort_rows, &p, sizeof p);
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const int last = node->in[0].rank - 1;
    if (wanted[0])
        grad_in[0] = sr_scatter_add(grad_out[0], node->output[1], last, node->in[0].dim[last]);
}

const sr_op sr_op_sort_rows = {
    SR_OP_HEAD,
    .name = "sort_rows",
    .help = "the first elements of each row in sorted order, and their indices",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 2,
    .attr_size = sizeof(sort_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .derivative = derivative,
    .keeps_outputs = 2u,
};

static sr_picked first_of(sr_tensor x, int64_t k, bool ascending) {
    const sort_attr attr = {.k = k, .ascending = ascending};
    sr_tensor out[2] = {SR_NONE, SR_NONE};
    sr_op_record(&sr_op_sort_rows, &attr, &x, out);
    return (sr_picked){out[0], out[1]};
}

sr_picked sr_topk(sr_tensor x, int64_t k, bool smallest) {
    return first_of(x, k, smallest);
}

sr_picked sr_sort(sr_tensor x, bool descending) {
    sr_info info;
    if (!sr_op_argument(x, "sort: x", &info))
        return (sr_picked){sr_op_failed(), sr_op_failed()};
    return first_of(x, sr_op_channels(&info), !descending);
}

sr_tensor sr_argsort(sr_tensor x, bool descending) {
    return sr_sort(x, descending).index;
}
