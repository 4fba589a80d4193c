// SPDX-License-Identifier: Apache-2.0
// Fully connected layer and its two gradients; like convolution, each is a derivative of the
// others. Rows are all dimensions but the last one, as in torch.nn.Linear.
#include "graph/ops/op_internal.h"

static sr_status lower(sr_kernel_request *request, sr_kernel_id kernel, int64_t n, int64_t c,
                       int64_t k) {
    const sr_linear_params p = {.n = n, .c = c, .k = k};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// A matrix product: every element of the output is a sum of 'terms' products.
static void product_cost(const sr_node_view *node, int64_t terms, double *flops, double *bytes) {
    const double out = (double)sr_info_count(&node->out[0]);
    *flops = 2.0 * out * (double)terms;
    *bytes = out * (double)sr_dtype_size(node->out[0].dtype);
    for (int i = 0; i < 2; i++)
        *bytes += (double)sr_info_count(&node->in[i]) * (double)sr_dtype_size(node->in[i].dtype);
}

static void row_cost(const sr_node_view *node, double *flops, double *bytes) {
    product_cost(node, sr_op_channels(&node->in[0]), flops, bytes);
}

static void column_cost(const sr_node_view *node, double *flops, double *bytes) {
    product_cost(node, sr_op_rows(&node->in[0]), flops, bytes);
}

// Rows of a float tensor.
static sr_status expect_rows(const sr_node_view *node, int input) {
    const char *name = node->op->input_name[input];
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, input, name, -1));
    if (node->in[input].rank < 2)
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s needs at least two dimensions", node->op->name, name,
                       sr_info_text(&node->in[input], text));
    return SR_OK;
}

// The same rows with another number of channels.
static sr_info with_channels(const sr_info *rows, int64_t channels) {
    sr_info out = *rows;
    out.dim[out.rank - 1] = channels;
    return out;
}

static sr_status expect_matrix(const sr_node_view *node, sr_dtype activation) {
    const sr_info *w = &node->in[1];
    char text[SR_INFO_TEXT];
    if (w->rank != 2 || w->dtype != sr_op_parameter_dtype(activation))
        return SR_FAIL(SR_E_SHAPE, "%s: w %s must be %s [K, C]", node->op->name,
                       sr_info_text(w, text), sr_dtype_name(sr_op_parameter_dtype(activation)));
    return SR_OK;
}

static sr_status mismatch(const sr_node_view *node, const char *a, const char *b,
                          const char *rule) {
    char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
    return SR_FAIL(SR_E_SHAPE, "%s: %s %s and %s %s: %s", node->op->name, a,
                   sr_info_text(&node->in[0], left), b, sr_info_text(&node->in[1], right), rule);
}

// ---- linear: x, w, bias -> y ----

static sr_status forward_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[0], *w = &node->in[1];
    SR_TRY(expect_rows(node, 0));
    SR_TRY(expect_matrix(node, x->dtype));
    if (w->dim[1] != sr_op_channels(x))
        return mismatch(node, "x", "w", "the last dimensions must be equal");
    SR_TRY(sr_op_expect_vector(node, 2, "bias", x->dtype, w->dim[0]));
    out[0] = with_channels(x, w->dim[0]);
    return SR_OK;
}

static sr_status forward_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(request, SR_KERNEL_linear, sr_op_rows(&node->in[0]), node->in[1].dim[1],
                 node->in[1].dim[0]);
}

static void forward_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_linear_dx, NULL, grad_out[0], node->input[1]);
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_linear_dw, NULL, node->input[0], grad_out[0]);
    if (wanted[2])
        grad_in[2] = sr_channel_sum(grad_out[0]);
}

const sr_op sr_op_linear = {
    SR_OP_HEAD,
    .name = "linear",
    .help = "y[...,K] = x[...,C] w[K,C]^T + bias[K]",
    .inputs = 3,
    .input_name = {"x", "w", "bias"},
    .required = 2,
    .outputs = 1,
    .infer = forward_infer,
    .lower = forward_lower,
    .derivative = forward_derivative,
    .keeps_inputs = 3u,
    .cost = row_cost,
};

// ---- linear_dx: dy, w -> dx ----

static sr_status dx_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *dy = &node->in[0], *w = &node->in[1];
    SR_TRY(expect_rows(node, 0));
    SR_TRY(expect_matrix(node, dy->dtype));
    if (w->dim[0] != sr_op_channels(dy))
        return mismatch(node, "dy", "w", "dy must have as many columns as w has rows");
    out[0] = with_channels(dy, w->dim[1]);
    return SR_OK;
}

static sr_status dx_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(request, SR_KERNEL_linear_dx, sr_op_rows(&node->in[0]), node->in[1].dim[1],
                 node->in[1].dim[0]);
}

static void dx_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                          const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_linear(grad_out[0], node->input[1], SR_NONE);
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_linear_dw, NULL, grad_out[0], node->input[0]);
}

const sr_op sr_op_linear_dx = {
    SR_OP_HEAD,
    .name = "linear_dx",
    .help = "gradient of linear with respect to x: dy w",
    .inputs = 2,
    .input_name = {"dy", "w"},
    .required = 2,
    .outputs = 1,
    .infer = dx_infer,
    .lower = dx_lower,
    .derivative = dx_derivative,
    .keeps_inputs = 3u,
    .cost = row_cost,
};

// ---- linear_dw: x, dy -> dw ----

static sr_status dw_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[0], *dy = &node->in[1];
    SR_TRY(expect_rows(node, 0));
    SR_TRY(expect_rows(node, 1));
    const int64_t channels = sr_op_channels(x);
    const sr_info rows = with_channels(dy, channels);
    if (!sr_op_same_shape(x, &rows) || x->dtype != dy->dtype)
        return mismatch(node, "x", "dy",
                        "the dtypes and all but the last dimensions must be equal");
    out[0] = sr_op_info(sr_op_parameter_dtype(x->dtype), 2,
                        (const int64_t[]){sr_op_channels(dy), channels});
    return SR_OK;
}

static sr_status dw_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(request, SR_KERNEL_linear_dw, sr_op_rows(&node->in[0]),
                 sr_op_channels(&node->in[0]), sr_op_channels(&node->in[1]));
}

static void dw_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                          const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_linear_dx, NULL, node->input[1], grad_out[0]);
    if (wanted[1])
        grad_in[1] = sr_linear(node->input[0], grad_out[0], SR_NONE);
}

const sr_op sr_op_linear_dw = {
    SR_OP_HEAD,
    .name = "linear_dw",
    .help = "gradient of linear with respect to w: dy^T x",
    .inputs = 2,
    .input_name = {"x", "dy"},
    .required = 2,
    .outputs = 1,
    .infer = dw_infer,
    .lower = dw_lower,
    .derivative = dw_derivative,
    .keeps_inputs = 3u,
    .cost = column_cost,
};

sr_tensor sr_linear(sr_tensor x, sr_tensor w, sr_tensor bias) {
    return sr_op_record_one(&sr_op_linear, NULL, (sr_tensor[]){x, w, bias});
}
