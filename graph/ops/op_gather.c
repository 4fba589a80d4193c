// SPDX-License-Identifier: Apache-2.0
// Elements of one dimension by their numbers (gather), and sums of elements with the same number
// (scatter_add). Both are linear in x, each the other's derivative, and keep the index alone.
#include "graph/ops/op_internal.h"

typedef struct gather_attr {
    int64_t count; // scatter_add: extent of y along the axis
    int32_t axis;
    int32_t zeros; // gather: 0 instead of NaN where x has no such number
} gather_attr;

static const sr_attr_field fields[] = {SR_ATTR(gather_attr, count, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(gather_attr, axis, 0, SR_MAX_RANK - 1),
                                       SR_ATTR(gather_attr, zeros, 0, SR_ATTR_FLAG),
                                       {0}};

// The index is [J], has the dimensions of x up to the axis, or all of them. In the last two cases
// its extents are those of x, except along the axis, where it is 'own'.
static bool fits(const sr_info *x, const sr_info *index, int axis, int64_t own) {
    if (index->dtype != SR_I32)
        return false;
    if (index->rank == 1 && axis > 0)
        return own < 0 || index->dim[0] == own;
    if (index->rank != axis + 1 && index->rank != x->rank)
        return false;
    for (int d = 0; d < index->rank; d++) {
        const int64_t extent = d == axis ? own : x->dim[d];
        if (extent >= 0 && index->dim[d] != extent)
            return false;
    }
    return true;
}

// own: the extent of the index along the axis; negative: any.
static sr_status expect_index(const sr_node_view *node, int64_t own) {
    const gather_attr *a = node->attr;
    const sr_info *x = &node->in[0], *index = &node->in[1];
    char xt[SR_INFO_TEXT], it[SR_INFO_TEXT];
    if (a->axis < 0 || a->axis >= x->rank)
        return SR_FAIL(SR_E_SHAPE, "%s: axis %d of x %s", node->op->name, a->axis,
                       sr_info_text(x, xt));
    if (!fits(x, index, a->axis, own)) {
        return SR_FAIL(SR_E_SHAPE,
                       "%s: index %s of x %s along axis %d must be i32 and have one dimension, or "
                       "the first %d or all dimensions of x%s",
                       node->op->name, sr_info_text(index, it), sr_info_text(x, xt), a->axis,
                       a->axis + 1, own < 0 ? ", with its other extents" : ", with its extents");
    }
    return SR_OK;
}

static int64_t index_extent(const sr_node_view *node) {
    const gather_attr *a = node->attr;
    return node->in[1].dim[node->in[1].rank == 1 ? 0 : a->axis];
}

static sr_status expect_extents(const sr_node_view *node, int64_t n, int64_t count) {
    char text[SR_INFO_TEXT];
    if (n >= 1 && n <= INT32_MAX && count <= INT32_MAX)
        return SR_OK;
    return SR_FAIL(SR_E_SHAPE,
                   "%s: x %s: %lld and %lld elements along the axis; 1 to %d are possible",
                   node->op->name, sr_info_text(&node->in[0], text), (long long)n, (long long)count,
                   INT32_MAX);
}

// 'n' and 'count' are extents along the axis: of what the index selects from, and its own.
static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel,
                       int64_t n) {
    const gather_attr *a = node->attr;
    const sr_info *x = &node->in[0], *index = &node->in[1];
    sr_gather_params p = {.outer = 1, .n = n, .inner = 1, .count = index_extent(node)};
    for (int d = 0; d < x->rank; d++) {
        p.outer *= d < a->axis ? x->dim[d] : 1;
        p.inner *= d > a->axis ? x->dim[d] : 1;
    }
    p.per_outer = index->rank > 1 && p.outer > 1;
    p.per_inner = index->rank > a->axis + 1 && p.inner > 1;
    p.zeros = a->zeros;
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// ---- gather ----

static sr_status gather_infer(const sr_node_view *node, sr_info *out) {
    const gather_attr *a = node->attr;
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    SR_TRY(expect_index(node, -1));
    SR_TRY(expect_extents(node, node->in[0].dim[a->axis], index_extent(node)));
    out[0] = node->in[0];
    out[0].dim[a->axis] = index_extent(node);
    return SR_OK;
}

static sr_status gather_lower(const sr_node_view *node, sr_kernel_request *request) {
    const gather_attr *a = node->attr;
    return lower(node, request, SR_KERNEL_gather, node->in[0].dim[a->axis]);
}

static void gather_derivative(sr_context *context, const sr_node_view *node,
                              const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const int32_t axis = ((const gather_attr *)node->attr)->axis;
    const gather_attr attr = {.count = node->in[0].dim[axis], .axis = axis};
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_scatter_add, &attr, grad_out[0], node->input[1]);
}

// It reads what it copies, which is little of a large table.
static void gather_cost(const sr_node_view *node, double *flops, double *bytes) {
    const sr_info *y = &node->out[0], *index = &node->in[1];
    *flops = 0;
    *bytes = 2 * (double)sr_info_count(y) * (double)sr_dtype_size(y->dtype) +
             (double)sr_info_count(index) * (double)sr_dtype_size(index->dtype);
}

const sr_op sr_op_gather = {
    SR_OP_HEAD,
    .name = "gather",
    .help = "elements of x along a dimension, selected by an index",
    .inputs = 2,
    .input_name = {"x", "index"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(gather_attr),
    .fields = fields,
    .infer = gather_infer,
    .lower = gather_lower,
    .derivative = gather_derivative,
    .keeps_inputs = 2u,
    .stops = 2u, // index
    .cost = gather_cost,
};

// ---- scatter_add ----

static sr_status scatter_infer(const sr_node_view *node, sr_info *out) {
    const gather_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    SR_TRY(expect_index(node, a->axis >= 0 && a->axis < x->rank ? x->dim[a->axis] : 0));
    SR_TRY(expect_extents(node, a->count, x->dim[a->axis]));
    out[0] = *x;
    out[0].dim[a->axis] = a->count;
    return SR_OK;
}

static sr_status scatter_lower(const sr_node_view *node, sr_kernel_request *request) {
    const gather_attr *a = node->attr;
    return lower(node, request, SR_KERNEL_scatter_add, a->count);
}

static void scatter_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const int32_t axis = ((const gather_attr *)node->attr)->axis;
    const gather_attr attr = {.axis = axis, .zeros = 1}; // elements that were left out have none
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_gather, &attr, grad_out[0], node->input[1]);
}

const sr_op sr_op_scatter_add = {
    SR_OP_HEAD,
    .name = "scatter_add",
    .help = "sums of the elements of x along a dimension that share a value of an index",
    .inputs = 2,
    .input_name = {"x", "index"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(gather_attr),
    .fields = fields,
    .infer = scatter_infer,
    .lower = scatter_lower,
    .derivative = scatter_derivative,
    .keeps_inputs = 2u,
    .stops = 2u, // index
};

// ---- Calls ----

sr_tensor sr_gather(sr_tensor x, sr_tensor index, int axis) {
    const gather_attr attr = {.axis = axis};
    return sr_op_binary(&sr_op_gather, &attr, x, index);
}

sr_tensor sr_scatter_add(sr_tensor x, sr_tensor index, int axis, int64_t count) {
    const gather_attr attr = {.count = count, .axis = axis};
    return sr_op_binary(&sr_op_scatter_add, &attr, x, index);
}

sr_tensor sr_index_select(sr_tensor x, sr_tensor index, int axis) {
    sr_info info;
    char text[SR_INFO_TEXT];
    if (!sr_op_argument(x, "index_select: x", NULL) ||
        !sr_op_argument(index, "index_select: index", &info))
        return sr_op_failed();
    if (info.rank != 1) {
        return sr_op_refused(SR_FAIL(SR_E_SHAPE,
                                     "index %s must have one dimension (sr_gather "
                                     "takes others)",
                                     sr_info_text(&info, text)),
                             "index_select");
    }
    return sr_gather(x, index, axis);
}

sr_tensor sr_embedding(sr_tensor table, sr_tensor index, sr_dtype dtype) {
    sr_info t, i;
    char tt[SR_INFO_TEXT], it[SR_INFO_TEXT];
    if (!sr_op_argument(table, "embedding: table", &t) ||
        !sr_op_argument(index, "embedding: index", &i))
        return sr_op_failed();
    if (t.rank != 2 || t.dtype != sr_op_parameter_dtype(dtype) || i.dtype != SR_I32 ||
        i.rank >= SR_MAX_RANK) {
        return sr_op_refused(SR_FAIL(SR_E_SHAPE,
                                     "table %s must be %s [V,C], index %s i32 of at most %d "
                                     "dimensions",
                                     sr_info_text(&t, tt),
                                     sr_dtype_name(sr_op_parameter_dtype(dtype)),
                                     sr_info_text(&i, it), SR_MAX_RANK - 1),
                             "embedding");
    }
    const int64_t count = sr_info_count(&i), rows = t.dim[1];
    sr_tensor y = sr_gather(table, sr_reshape(index, 1, &count), 0);
    i.dim[i.rank++] = rows;
    y = sr_reshape(y, i.rank, i.dim);
    return dtype == t.dtype ? y : sr_cast(y, dtype);
}
