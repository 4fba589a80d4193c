// SPDX-License-Identifier: Apache-2.0
// fill_by and reduce_sum: a tensor of one value, and the sum of all elements. Each is the other's
// derivative.
#include "graph/ops/op_internal.h"

// A rank 0 sum in the shape of the scalar that it is the gradient of.
static sr_tensor shaped_like(sr_tensor sum, const sr_info *scalar) {
    return scalar->rank == 0 ? sum : sr_reshape(sum, scalar->rank, scalar->dim);
}

// ---- fill_by: s -> y ----

typedef struct fill_attr {
    int64_t dim[SR_MAX_RANK];
    int32_t rank, dtype;
} fill_attr;

static const sr_attr_field fields[] = {SR_ATTR_ARRAY(fill_attr, dim, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(fill_attr, rank, 0, SR_MAX_RANK),
                                       SR_ATTR_TYPE(fill_attr, dtype),
                                       {0}};

static sr_status fill_infer(const sr_node_view *node, sr_info *out) {
    const fill_attr *a = node->attr;
    const sr_dtype dtype = (sr_dtype)a->dtype;
    if (!sr_dtype_is_float(dtype) || a->rank < 0 || a->rank > SR_MAX_RANK)
        return SR_FAIL(SR_E_SHAPE, "%s: a tensor of type %s with %d dimensions cannot be filled",
                       node->op->name, sr_dtype_name(dtype), a->rank);
    SR_TRY(sr_op_expect_scalar(node, 0, dtype));
    out[0] = sr_op_info(dtype, a->rank, a->dim);
    if (sr_info_count(&out[0]) < 1) {
        char text[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: %s has no elements", node->op->name,
                       sr_info_text(&out[0], text));
    }
    return SR_OK;
}

static sr_status fill_lower(const sr_node_view *node, sr_kernel_request *request) {
    const sr_count_params p = {sr_info_count(&node->out[0])};
    return sr_op_lower(request, SR_KERNEL_fill_by, &p, sizeof p);
}

static void fill_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = shaped_like(sr_reduce_sum(grad_out[0]), &node->in[0]);
}

const sr_op sr_op_fill_by = {
    SR_OP_HEAD,
    .name = "fill_by",
    .help = "a tensor whose every element is the scalar",
    .inputs = 1,
    .input_name = {"scalar"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(fill_attr),
    .fields = fields,
    .infer = fill_infer,
    .lower = fill_lower,
    .derivative = fill_derivative,
};

sr_tensor sr_fill_by(sr_tensor scalar, sr_dtype dtype, int rank, const int64_t *dim) {
    fill_attr attr = {.rank = rank, .dtype = (int32_t)dtype};
    for (int i = 0; i < rank && i < SR_MAX_RANK; i++)
        attr.dim[i] = dim[i];
    return sr_op_unary(&sr_op_fill_by, &attr, scalar);
}

// ---- reduce_sum: x -> s ----

static sr_status sum_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    out[0] = (sr_info){.dtype = sr_op_parameter_dtype(node->in[0].dtype)};
    return SR_OK;
}

static sr_status sum_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_reduce_sum);
}

static void sum_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_info *x = &node->in[0];
    if (wanted[0])
        grad_in[0] = sr_fill_by(grad_out[0], x->dtype, x->rank, x->dim);
}

const sr_op sr_op_reduce_sum = {
    SR_OP_HEAD,
    .name = "reduce_sum",
    .help = "sum of all elements, in fixed blocks and a binary tree",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = sum_infer,
    .lower = sum_lower,
    .derivative = sum_derivative,
};

sr_tensor sr_reduce_sum(sr_tensor x) {
    return sr_op_unary(&sr_op_reduce_sum, NULL, x);
}

// ---- constants of derivative rules ----

sr_tensor sr_op_constant(sr_context *context, sr_dtype activation, int64_t count, double value) {
    const sr_info info = sr_op_info(sr_op_parameter_dtype(activation), 0, NULL);
    const float narrow = (float)value;
    const sr_tensor scalar = sr_constant(
        context, &info, info.dtype == SR_F64 ? (const void *)&value : (const void *)&narrow);
    return count > 0 ? sr_fill_by(scalar, info.dtype, 1, &count) : scalar;
}
