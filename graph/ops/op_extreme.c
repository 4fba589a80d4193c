// SPDX-License-Identifier: Apache-2.0
// The largest and smallest elements along a dimension with their indices, and one-hot vectors of
// indices. The gradient of an extreme element goes to the one that was found.
#include "graph/ops/op_internal.h"

// rows, n and inner of a tensor along a dimension.
static sr_axis_params along(const sr_info *x, int axis) {
    sr_axis_params p = {.rows = 1, .n = x->dim[axis], .inner = 1};
    for (int d = 0; d < x->rank; d++)
        if (d != axis)
            *(d < axis ? &p.rows : &p.inner) *= x->dim[d];
    return p;
}

static sr_status expect_axis(const sr_node_view *node, int axis) {
    char text[SR_INFO_TEXT];
    if (axis < 0 || axis >= node->in[0].rank)
        return SR_FAIL(SR_E_SHAPE, "%s: axis %d of %s %s", node->op->name, axis,
                       node->op->input_name[0], sr_info_text(&node->in[0], text));
    return SR_OK;
}

// ---- one_hot: index -> y ----

typedef struct one_hot_attr {
    int64_t n; // extent of y along the dimension, where index has 1
    int32_t axis, dtype;
} one_hot_attr;

static const sr_attr_field one_hot_fields[] = {SR_ATTR(one_hot_attr, n, 1, SR_ATTR_EXTENT),
                                               SR_ATTR(one_hot_attr, axis, 0, SR_MAX_RANK - 1),
                                               SR_ATTR_TYPE(one_hot_attr, dtype),
                                               {0}};

static sr_status one_hot_infer(const sr_node_view *node, sr_info *out) {
    const one_hot_attr *a = node->attr;
    const sr_info *index = &node->in[0];
    const sr_dtype dtype = (sr_dtype)a->dtype;
    char text[SR_INFO_TEXT];
    SR_TRY(expect_axis(node, a->axis));
    if (index->dtype != SR_I32 || index->dim[a->axis] != 1)
        return SR_FAIL(SR_E_SHAPE, "%s: index %s must be i32, with extent 1 in dimension %d",
                       node->op->name, sr_info_text(index, text), a->axis);
    if (a->n < 1 || a->n > INT32_MAX || !sr_dtype_is_float(dtype))
        return SR_FAIL(SR_E_SHAPE,
                       "%s: %lld elements of type %s; it needs at least one, of a float type",
                       node->op->name, (long long)a->n, sr_dtype_name(dtype));
    out[0] = *index;
    out[0].dtype = dtype;
    out[0].dim[a->axis] = a->n;
    return SR_OK;
}

static sr_status one_hot_lower(const sr_node_view *node, sr_kernel_request *request) {
    const sr_axis_params p = along(&node->out[0], ((const one_hot_attr *)node->attr)->axis);
    return sr_op_lower(request, SR_KERNEL_one_hot, &p, sizeof p);
}

const sr_op sr_op_one_hot = {
    SR_OP_HEAD,
    .name = "one_hot",
    .help = "1 at an index along a dimension, else 0",
    .inputs = 1,
    .input_name = {"index"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(one_hot_attr),
    .fields = one_hot_fields,
    .infer = one_hot_infer,
    .lower = one_hot_lower,
    .stops = 1u,
};

sr_tensor sr_one_hot(sr_tensor index, int64_t classes, sr_dtype dtype) {
    sr_info info;
    char text[SR_INFO_TEXT];
    if (!sr_op_argument(index, "one_hot: index", &info))
        return sr_op_failed();
    if (info.rank == SR_MAX_RANK)
        return sr_op_refused(SR_FAIL(SR_E_SHAPE, "index %s; a tensor has at most %d dimensions",
                                     sr_info_text(&info, text), SR_MAX_RANK),
                             "one_hot");
    const one_hot_attr attr = {.n = classes, .axis = info.rank, .dtype = (int32_t)dtype};
    info.dim[info.rank++] = 1;
    return sr_op_unary(&sr_op_one_hot, &attr, sr_reshape(index, info.rank, info.dim));
}

// ---- extreme: x -> y, index ----

typedef struct extreme_attr {
    int32_t axis, least;
} extreme_attr;

static const sr_attr_field extreme_fields[] = {SR_ATTR(extreme_attr, axis, 0, SR_MAX_RANK - 1),
                                               SR_ATTR(extreme_attr, least, 0, SR_ATTR_FLAG),
                                               {0}};

static sr_status extreme_infer(const sr_node_view *node, sr_info *out) {
    const extreme_attr *a = node->attr;
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    SR_TRY(expect_axis(node, a->axis));
    if (node->in[0].dim[a->axis] > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE, "%s: x %s: an extent may be at most %d", node->op->name,
                       sr_info_text(&node->in[0], text), INT32_MAX);
    out[0] = node->in[0];
    out[0].dim[a->axis] = 1;
    out[1] = out[0];
    out[1].dtype = SR_I32;
    return SR_OK;
}

static sr_status extreme_lower(const sr_node_view *node, sr_kernel_request *request) {
    const extreme_attr *a = node->attr;
    sr_axis_params p = along(&node->in[0], a->axis);
    p.least = a->least;
    return sr_op_lower(request, SR_KERNEL_extreme, &p, sizeof p);
}

static void extreme_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const int axis = ((const extreme_attr *)node->attr)->axis;
    if (wanted[0])
        grad_in[0] = sr_scatter_add(grad_out[0], node->output[1], axis, node->in[0].dim[axis]);
}

const sr_op sr_op_extreme = {
    SR_OP_HEAD,
    .name = "extreme",
    .help = "the largest or smallest element along a dimension, and its index",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 2,
    .attr_size = sizeof(extreme_attr),
    .fields = extreme_fields,
    .infer = extreme_infer,
    .lower = extreme_lower,
    .derivative = extreme_derivative,
    .keeps_outputs = 2u,
};

static sr_picked extreme_of(const char *name, sr_tensor x, int axis, bool keep, bool least) {
    const extreme_attr attr = {.axis = axis, .least = least};
    const sr_axes over = {.count = 1, .axis = {axis}, .keep = keep};
    sr_tensor out[2] = {SR_NONE, SR_NONE};
    sr_reduction r;
    if (!sr_op_reduction(x, name, &over, &r))
        return (sr_picked){sr_op_failed(), sr_op_failed()};
    sr_op_record(&sr_op_extreme, &attr, &x, out);
    if (keep)
        return (sr_picked){out[0], out[1]};
    return (sr_picked){sr_reshape(out[0], r.result.rank, r.result.dim),
                       sr_reshape(out[1], r.result.rank, r.result.dim)};
}

sr_picked sr_max_over(sr_tensor x, int axis, bool keep) {
    return extreme_of("max_over", x, axis, keep, false);
}

sr_picked sr_min_over(sr_tensor x, int axis, bool keep) {
    return extreme_of("min_over", x, axis, keep, true);
}

sr_tensor sr_argmax(sr_tensor x, int axis, bool keep) {
    return extreme_of("argmax", x, axis, keep, false).index;
}

sr_tensor sr_argmin(sr_tensor x, int axis, bool keep) {
    return extreme_of("argmin", x, axis, keep, true).index;
}
