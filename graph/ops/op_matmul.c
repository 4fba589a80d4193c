// SPDX-License-Identifier: Apache-2.0
// Batched matrix products, as torch.matmul of tensors with at least two dimensions: all dimensions
// before the last two are batch dimensions, which broadcast. The gradients are products of the same
// kind, summed over the dimensions along which their input was broadcast.
#include "graph/ops/op_internal.h"

typedef struct matmul_attr {
    double alpha;
    int32_t transpose[2]; // of a, of b
} matmul_attr;

static const sr_attr_field fields[] = {SR_ATTR(matmul_attr, alpha, -1e300, 1e300),
                                       SR_ATTR_ARRAY(matmul_attr, transpose, 0, SR_ATTR_FLAG),
                                       {0}};

static const char *const names[2] = {"a", "b"};

// Rows (0) or columns (1) of input i, transposed where the attributes say so.
static int64_t extent_of(const sr_node_view *node, int i, int which) {
    const matmul_attr *attr = node->attr;
    const sr_info *in = &node->in[i];
    return in->dim[in->rank - 2 + (which ^ attr->transpose[i])];
}

// Extent of batch dimension d of the result, counted from the last one.
static int64_t batch_extent(const sr_info *in, int d) {
    return d < in->rank - 2 ? in->dim[in->rank - 3 - d] : 1;
}

static sr_status refuse(const sr_node_view *node, const char *rule) {
    char a[SR_INFO_TEXT], b[SR_INFO_TEXT];
    const matmul_attr *attr = node->attr;
    return SR_FAIL(SR_E_SHAPE, "%s: a %s%s and b %s%s: %s", node->op->name,
                   sr_info_text(&node->in[0], a), attr->transpose[0] ? ", transposed," : "",
                   sr_info_text(&node->in[1], b), attr->transpose[1] ? ", transposed" : "", rule);
}

static sr_status matmul_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *a = &node->in[0], *b = &node->in[1];
    for (int i = 0; i < 2; i++) {
        char text[SR_INFO_TEXT];
        SR_TRY(sr_op_expect_activation(node, i, names[i], -1));
        if (node->in[i].rank < 2)
            return SR_FAIL(SR_E_SHAPE, "%s: %s %s needs at least two dimensions", node->op->name,
                           names[i], sr_info_text(&node->in[i], text));
    }
    if (a->dtype != b->dtype)
        return refuse(node, "the dtypes must be equal");
    if (extent_of(node, 0, 1) != extent_of(node, 1, 0))
        return refuse(node, "a must have as many columns as b has rows");
    out[0] = a->rank > b->rank ? *a : *b;
    const int rank = out[0].rank;
    for (int d = 0; d < rank - 2; d++) {
        const int64_t x = batch_extent(a, d), y = batch_extent(b, d);
        if (x != y && x != 1 && y != 1)
            return refuse(node, "dimensions before the last two must be equal, or 1");
        out[0].dim[rank - 3 - d] = x == 1 ? y : x;
    }
    out[0].dim[rank - 2] = extent_of(node, 0, 0);
    out[0].dim[rank - 1] = extent_of(node, 1, 1);
    return SR_OK;
}

// Fills the strides of an input's matrices along the batch dimensions; returns their number.
static int64_t set_steps(const sr_info *in, int64_t *step) {
    int64_t count = 1;
    for (int d = 0; d < SR_MATMUL_DIMS; d++) {
        const int64_t extent = batch_extent(in, d);
        step[SR_MATMUL_DIMS - 1 - d] = extent == 1 ? 0 : count;
        count *= extent;
    }
    return count;
}

static sr_status matmul_lower(const sr_node_view *node, sr_kernel_request *request) {
    _Static_assert(SR_MATMUL_DIMS == SR_MAX_RANK - 2, "dimensions of batches");
    const matmul_attr *attr = node->attr;
    sr_matmul_params p = {.rows = extent_of(node, 0, 0),
                          .terms = extent_of(node, 0, 1),
                          .columns = extent_of(node, 1, 1),
                          .alpha = attr->alpha,
                          .transpose_a = attr->transpose[0],
                          .transpose_b = attr->transpose[1]};
    p.a_count = set_steps(&node->in[0], p.a_step);
    p.b_count = set_steps(&node->in[1], p.b_step);
    for (int d = 0; d < SR_MATMUL_DIMS; d++)
        p.dim[SR_MATMUL_DIMS - 1 - d] = batch_extent(&node->out[0], d);
    return sr_op_lower(request, SR_KERNEL_matmul, &p, sizeof p);
}

static sr_tensor record(sr_tensor a, bool transpose_a, sr_tensor b, bool transpose_b,
                        double alpha) {
    return sr_matmul(
        a, b,
        (sr_matmul_opts){.transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = alpha});
}

// With c = a b: da = g b^T and db = a^T g; the gradient of a transposed input is transposed, too.
static void matmul_derivative(sr_context *context, const sr_node_view *node,
                              const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const matmul_attr *attr = node->attr;
    const bool ta = attr->transpose[0], tb = attr->transpose[1];
    const sr_tensor a = node->input[0], b = node->input[1], g = grad_out[0];
    sr_tensor grad[2] = {SR_NONE, SR_NONE};
    if (wanted[0])
        grad[0] = ta ? record(b, tb, g, true, attr->alpha) : record(g, false, b, !tb, attr->alpha);
    if (wanted[1])
        grad[1] = tb ? record(g, true, a, ta, attr->alpha) : record(a, !ta, g, false, attr->alpha);
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            grad_in[i] = sr_op_shaped_like(grad[i], &node->in[i]);
}

static void matmul_cost(const sr_node_view *node, double *flops, double *bytes) {
    const double out = (double)sr_info_count(&node->out[0]);
    const double elements =
        out + (double)sr_info_count(&node->in[0]) + (double)sr_info_count(&node->in[1]);
    *flops = 2.0 * out * (double)extent_of(node, 0, 1);
    *bytes = elements * (double)sr_dtype_size(node->in[0].dtype);
}

const sr_op sr_op_matmul = {
    SR_OP_HEAD,
    .name = "matmul",
    .help = "alpha a b, batched matrix product",
    .inputs = 2,
    .input_name = {"a", "b"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(matmul_attr),
    .fields = fields,
    .infer = matmul_infer,
    .lower = matmul_lower,
    .derivative = matmul_derivative,
    .keeps_inputs = 3u,
    .cost = matmul_cost,
};

// Where b is one matrix, the batches of a are further rows, so that the gradient of b is one
// product.
sr_tensor sr_matmul(sr_tensor a, sr_tensor b, sr_matmul_opts opts) {
    const matmul_attr attr = {.alpha = opts.alpha == 0 ? 1 : opts.alpha,
                              .transpose = {opts.transpose_a, opts.transpose_b}};
    sr_info in[2];
    if (!sr_op_argument(a, "matmul: a", &in[0]) || !sr_op_argument(b, "matmul: b", &in[1]))
        return sr_op_failed();
    const int64_t terms = in[1].dim[opts.transpose_b ? 1 : 0];
    if (in[1].rank != 2 || in[0].rank <= 2 || opts.transpose_a || sr_op_channels(&in[0]) != terms)
        return sr_op_binary(&sr_op_matmul, &attr, a, b);
    sr_info shape = in[0];
    shape.dim[shape.rank - 1] = in[1].dim[opts.transpose_b ? 0 : 1];
    const sr_tensor rows = sr_reshape(a, 2, (const int64_t[]){sr_op_rows(&in[0]), terms});
    return sr_reshape(sr_op_binary(&sr_op_matmul, &attr, rows, b), shape.rank, shape.dim);
}
