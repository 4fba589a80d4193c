// SPDX-License-Identifier: Apache-2.0
// Convolutions of 1x1 of what batch norm with ReLU gives, and the gradients of their filters.
// graph/pass_prologue.c makes them; they have no derivative.
#include "graph/ops/op_internal.h"

typedef struct norm_linear_attr {
    double eps; // as in batch norm, whose attributes these are
} norm_linear_attr;

static const sr_attr_field fields[] = {SR_ATTR(norm_linear_attr, eps, 0, 1e300), {0}};

// x, gamma, beta, mean, var
static sr_status expect_norm(const sr_node_view *node) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    SR_TRY(sr_op_expect_eps(node, ((const norm_linear_attr *)node->attr)->eps));
    if (!sr_op_present(node, 3) || !sr_op_present(node, 4))
        return SR_FAIL(SR_E_SHAPE, "%s: mean and var must be given", node->op->name);
    for (int i = 1; i <= 4; i++)
        SR_TRY(sr_op_expect_vector(node, i, "a per-channel input", node->in[0].dtype,
                                   sr_op_channels(&node->in[0])));
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel,
                       int64_t filters) {
    const sr_norm_linear_params p = {.n = sr_op_rows(&node->in[0]),
                                     .c = sr_op_channels(&node->in[0]),
                                     .k = filters,
                                     .eps = ((const norm_linear_attr *)node->attr)->eps};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static double operations(const sr_node_view *node, int64_t filters) {
    return 2.0 * (double)sr_info_count(&node->in[0]) * (double)filters;
}

// ---- batchnorm_relu_linear: x, gamma, beta, mean, var, w, bias -> y ----

static sr_status forward_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[0], *w = &node->in[5];
    SR_TRY(expect_norm(node));
    if (!sr_op_present(node, 5) || w->rank != 4 || w->dtype != sr_op_parameter_dtype(x->dtype) ||
        w->dim[1] != x->dim[3] || w->dim[2] != 1 || w->dim[3] != 1) {
        char text[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: w %s must be %s [K, %lld, 1, 1]", node->op->name,
                       sr_info_text(w, text), sr_dtype_name(sr_op_parameter_dtype(x->dtype)),
                       (long long)x->dim[3]);
    }
    SR_TRY(sr_op_expect_vector(node, 6, "bias", x->dtype, w->dim[0]));
    out[0] = *x;
    out[0].dim[3] = w->dim[0];
    return SR_OK;
}

static sr_status forward_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_relu_linear, node->in[5].dim[0]);
}

static void forward_cost(const sr_node_view *node, double *flops, double *bytes) {
    (void)bytes;
    *flops = operations(node, node->in[5].dim[0]);
}

const sr_op sr_op_batchnorm_relu_linear = {
    SR_OP_HEAD,
    .name = "batchnorm_relu_linear",
    .help = "convolution of max(batchnorm_infer, 0) with w[K,C,1,1], plus bias[K]",
    .inputs = 7,
    .input_name = {"x", "gamma", "beta", "mean", "var", "w", "bias"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(norm_linear_attr),
    .fields = fields,
    .infer = forward_infer,
    .lower = forward_lower,
    .cost = forward_cost,
};

// ---- batchnorm_relu_linear_dw: x, gamma, beta, mean, var, dy -> dw ----

static sr_status dw_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[0], *dy = &node->in[5];
    SR_TRY(expect_norm(node));
    if (!sr_op_present(node, 5) || dy->rank != 4 || dy->dtype != x->dtype ||
        sr_op_rows(dy) != sr_op_rows(x)) {
        char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: x %s and dy %s must have the same dtype and pixels",
                       node->op->name, sr_info_text(x, left), sr_info_text(dy, right));
    }
    out[0] = (sr_info){
        .dtype = sr_op_parameter_dtype(x->dtype), .rank = 4, .dim = {dy->dim[3], x->dim[3], 1, 1}};
    return SR_OK;
}

static sr_status dw_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_relu_linear_dw, node->in[5].dim[3]);
}

static void dw_cost(const sr_node_view *node, double *flops, double *bytes) {
    (void)bytes;
    *flops = operations(node, node->in[5].dim[3]);
}

const sr_op sr_op_batchnorm_relu_linear_dw = {
    SR_OP_HEAD,
    .name = "batchnorm_relu_linear_dw",
    .help = "gradient of batchnorm_relu_linear with respect to w",
    .inputs = 6,
    .input_name = {"x", "gamma", "beta", "mean", "var", "dy"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(norm_linear_attr),
    .fields = fields,
    .infer = dw_infer,
    .lower = dw_lower,
    .cost = dw_cost,
};
