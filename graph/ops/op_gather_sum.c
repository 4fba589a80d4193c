// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows by their numbers. With weights w, elements x and gradients g the number
//   sum of w[n,j,t,k] g[n,j,k,i] x[n,index[n,j,t,k],k,i]
// is linear in each of the three; the operators are its derivatives, with respect to g
// (gather_sum), to x (scatter_sum) and to w (gather_dot), and so each other's derivatives of any
// order.
#include "graph/ops/op_internal.h"

typedef struct sum_attr {
    int64_t n; // scatter_sum: rows of y
} sum_attr;

static const sr_attr_field fields[] = {SR_ATTR(sum_attr, n, 1, SR_ATTR_EXTENT), {0}};

// Shapes of x[N,M,K,I] and the weights [N,J,T,K].
typedef struct sum_shapes {
    const sr_info *x, *weight;
} sum_shapes;

// Input i has four dimensions, in which those in the mask 'same' are those of input 0.
static sr_status expect_rows(const sr_node_view *node, int i, unsigned same) {
    const sr_info *x = &node->in[0], *own = &node->in[i];
    char text[SR_INFO_TEXT], first[SR_INFO_TEXT];
    bool fits = own->rank == 4 && own->dtype == x->dtype;
    for (int d = 0; d < 4; d++)
        fits = fits && (!(same >> d & 1) || own->dim[d] == x->dim[d]);
    if (fits)
        return SR_OK;
    return SR_FAIL(SR_E_SHAPE, "%s: %s %s does not fit to %s %s", node->op->name,
                   node->op->input_name[i], sr_info_text(own, text), node->op->input_name[0],
                   sr_info_text(x, first));
}

// The index, and where it is not negative the weights, belong to rows y[N,J,K,I].
static sr_status expect_index(const sr_node_view *node, int index, int weight, const sr_info *y) {
    const sr_info *i = &node->in[index];
    char it[SR_INFO_TEXT], yt[SR_INFO_TEXT];
    if (i->dtype != SR_I32 || i->rank != 4 || i->dim[0] != y->dim[0] || i->dim[1] != y->dim[1] ||
        i->dim[2] > SR_GATHER_SHARE || i->dim[3] != y->dim[2])
        return SR_FAIL(SR_E_SHAPE,
                       "%s: index %s must be i32 [N,J,T,K], T at most %d, for rows [N,J,K,I] %s",
                       node->op->name, sr_info_text(i, it), SR_GATHER_SHARE, sr_info_text(y, yt));
    return weight < 0 ? SR_OK : sr_op_expect_parameter(node, weight, "weight", y->dtype, 4, i->dim);
}

static sr_status expect_extents(const sr_node_view *node, int64_t n, const sr_info *index) {
    if (n >= 1 && n <= INT32_MAX && index->dim[1] * index->dim[2] <= INT32_MAX)
        return SR_OK;
    return SR_FAIL(SR_E_SHAPE, "%s: %lld rows, and an index of %lld; 1 to %d are possible",
                   node->op->name, (long long)n, (long long)(index->dim[1] * index->dim[2]),
                   INT32_MAX);
}

static sr_status lower(sr_kernel_request *request, sr_kernel_id kernel, sum_shapes s) {
    const sr_gather_sum_params p = {.outer = s.x->dim[0],
                                    .n = s.x->dim[1],
                                    .groups = s.x->dim[2],
                                    .inner = s.x->dim[3],
                                    .count = s.weight->dim[1],
                                    .share = (int32_t)s.weight->dim[2]};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_tensor record_sum(sr_tensor x, sr_tensor index, sr_tensor weight) {
    return sr_op_record_one(&sr_op_gather_sum, NULL, (sr_tensor[]){x, index, weight});
}

static sr_tensor record_scatter(sr_tensor y, sr_tensor index, sr_tensor weight, int64_t n) {
    const sum_attr attr = {n};
    return sr_op_record_one(&sr_op_scatter_sum, &attr, (sr_tensor[]){y, index, weight});
}

static sr_tensor record_dot(sr_tensor x, sr_tensor y, sr_tensor index) {
    return sr_op_record_one(&sr_op_gather_dot, NULL, (sr_tensor[]){x, y, index});
}

// ---- gather_sum: x, index, weight -> y ----

static sr_status gather_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[0], *index = &node->in[1];
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    out[0] = *x;
    out[0].dim[1] = index->dim[1];
    SR_TRY(expect_index(node, 1, 2, &out[0]));
    return expect_extents(node, x->dim[1], index);
}

static sr_status gather_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(request, SR_KERNEL_gather_sum, (sum_shapes){&node->in[0], &node->in[2]});
}

static void gather_derivative(sr_context *context, const sr_node_view *node,
                              const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_tensor *in = node->input;
    if (wanted[0])
        grad_in[0] = record_scatter(grad_out[0], in[1], in[2], node->in[0].dim[1]);
    if (wanted[2])
        grad_in[2] = record_dot(in[0], grad_out[0], in[1]);
}

const sr_op sr_op_gather_sum = {
    SR_OP_HEAD,
    .name = "gather_sum",
    .help = "weighted sums of rows of x that are selected by an index",
    .inputs = 3,
    .input_name = {"x", "index", "weight"},
    .required = 3,
    .outputs = 1,
    .infer = gather_infer,
    .lower = gather_lower,
    .derivative = gather_derivative,
    .keeps_inputs = 7u,
    .stops = 2u, // index
};

// ---- scatter_sum: y, index, weight -> x ----

static sr_status scatter_infer(const sr_node_view *node, sr_info *out) {
    const sum_attr *a = node->attr;
    SR_TRY(sr_op_expect_activation(node, 0, "y", 4));
    SR_TRY(expect_index(node, 1, 2, &node->in[0]));
    SR_TRY(expect_extents(node, a->n, &node->in[1]));
    out[0] = node->in[0];
    out[0].dim[1] = a->n;
    return SR_OK;
}

static sr_status scatter_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(request, SR_KERNEL_scatter_sum, (sum_shapes){&node->out[0], &node->in[2]});
}

static void scatter_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_tensor *in = node->input;
    if (wanted[0])
        grad_in[0] = record_sum(grad_out[0], in[1], in[2]);
    if (wanted[2])
        grad_in[2] = record_dot(grad_out[0], in[0], in[1]);
}

const sr_op sr_op_scatter_sum = {
    SR_OP_HEAD,
    .name = "scatter_sum",
    .help = "for each row of x, the weighted sum of the rows of y whose index names it",
    .inputs = 3,
    .input_name = {"y", "index", "weight"},
    .required = 3,
    .outputs = 1,
    .attr_size = sizeof(sum_attr),
    .fields = fields,
    .infer = scatter_infer,
    .lower = scatter_lower,
    .derivative = scatter_derivative,
    .keeps_inputs = 7u,
    .stops = 2u, // index
};

// ---- gather_dot: x, y, index -> weight ----

static sr_status dot_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    SR_TRY(expect_rows(node, 1, 13u));
    SR_TRY(expect_index(node, 2, -1, &node->in[1]));
    SR_TRY(expect_extents(node, node->in[0].dim[1], &node->in[2]));
    out[0] = node->in[2];
    out[0].dtype = sr_op_parameter_dtype(node->in[0].dtype);
    return SR_OK;
}

static sr_status dot_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(request, SR_KERNEL_gather_dot, (sum_shapes){&node->in[0], &node->out[0]});
}

static void dot_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_tensor *in = node->input;
    if (wanted[0])
        grad_in[0] = record_scatter(in[1], in[2], grad_out[0], node->in[0].dim[1]);
    if (wanted[1])
        grad_in[1] = record_sum(in[0], in[2], grad_out[0]);
}

const sr_op sr_op_gather_dot = {
    SR_OP_HEAD,
    .name = "gather_dot",
    .help = "inner products of rows of x that are selected by an index with rows of y",
    .inputs = 3,
    .input_name = {"x", "y", "index"},
    .required = 3,
    .outputs = 1,
    .infer = dot_infer,
    .lower = dot_lower,
    .derivative = dot_derivative,
    .keeps_inputs = 7u,
    .stops = 4u, // index
};

sr_tensor sr_gather_sum(sr_tensor x, sr_tensor index, sr_tensor weight) {
    return record_sum(x, index, weight);
}
