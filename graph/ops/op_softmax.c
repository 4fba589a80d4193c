// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm, cross-entropy with label smoothing (Szegedy et al. 2016), and counts
// of correct predictions. The cross-entropy is differentiable once.
#include <stdio.h>

#include "graph/ops/op_internal.h"

typedef struct xent_attr {
    double smoothing;
} xent_attr;

static const sr_attr_field xent_fields[] = {SR_ATTR(xent_attr, smoothing, 0, 1), {0}};

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel,
                       double smoothing) {
    const sr_xent_params p = {
        .n = node->in[0].dim[0], .k = node->in[0].dim[1], .smoothing = smoothing};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// Labels are i32 [N] for rows [N,K].
static sr_status expect_labels(const sr_node_view *node, int input) {
    const sr_info *labels = &node->in[input], *rows = &node->in[0];
    if (labels->dtype == SR_I32 && labels->rank == 1 && labels->dim[0] == rows->dim[0])
        return SR_OK;
    char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
    return SR_FAIL(SR_E_SHAPE, "%s: labels %s must be i32 [%lld] to match %s", node->op->name,
                   sr_info_text(labels, left), (long long)rows->dim[0], sr_info_text(rows, right));
}

static sr_info probabilities(const sr_info *logits) {
    sr_info prob = *logits;
    prob.dtype = sr_op_parameter_dtype(logits->dtype);
    return prob;
}

// ---- softmax_xent: logits, labels -> loss, prob ----

static sr_status xent_infer(const sr_node_view *node, sr_info *out) {
    const xent_attr *a = node->attr;
    SR_TRY(sr_op_expect_activation(node, 0, "logits", 2));
    SR_TRY(expect_labels(node, 1));
    if (!(a->smoothing >= 0.0 && a->smoothing <= 1.0))
        return SR_FAIL(SR_E_SHAPE, "%s: smoothing %g must lie between 0 and 1", node->op->name,
                       a->smoothing);
    out[1] = probabilities(&node->in[0]);
    out[0] = sr_op_info(out[1].dtype, 1, node->in[0].dim);
    return SR_OK;
}

static sr_status xent_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_softmax_xent, ((const xent_attr *)node->attr)->smoothing);
}

typedef struct xent_grad_attr {
    double smoothing;
    int32_t dtype, reserved; // of the logits
} xent_grad_attr;

static const sr_attr_field xent_grad_fields[] = {
    SR_ATTR(xent_grad_attr, smoothing, 0, 1), SR_ATTR_TYPE(xent_grad_attr, dtype), {0}};

static void xent_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const xent_grad_attr attr = {.smoothing = ((const xent_attr *)node->attr)->smoothing,
                                 .dtype = (int32_t)node->in[0].dtype};
    if (wanted[0] && !sr_is_none(grad_out[0]))
        grad_in[0] = sr_op_record_one(&sr_op_softmax_xent_grad, &attr,
                                      (sr_tensor[]){node->output[1], node->input[1], grad_out[0]});
}

const sr_op sr_op_softmax_xent = {
    SR_OP_HEAD,
    .name = "softmax_xent",
    .help = "cross-entropy of softmax with labels, per sample",
    .inputs = 2,
    .input_name = {"logits", "labels"},
    .required = 2,
    .outputs = 2,
    .attr_size = sizeof(xent_attr),
    .fields = xent_fields,
    .infer = xent_infer,
    .lower = xent_lower,
    .derivative = xent_derivative,
    .keeps_inputs = 2u,
    .keeps_outputs = 2u,
    .stops = 2u, // labels
    .once = true,
    .hidden = 2u, // prob
};

sr_tensor sr_softmax_cross_entropy(sr_tensor logits, sr_tensor labels, double smoothing) {
    const xent_attr attr = {smoothing};
    sr_tensor out[2] = {SR_NONE, SR_NONE};
    sr_op_record(&sr_op_softmax_xent, &attr, (sr_tensor[]){logits, labels}, out);
    return out[0];
}

// ---- softmax_xent_grad: prob, labels, dloss -> dlogits ----

static sr_status xent_grad_infer(const sr_node_view *node, sr_info *out) {
    const sr_dtype dtype = (sr_dtype)((const xent_grad_attr *)node->attr)->dtype;
    const sr_info *prob = &node->in[0];
    SR_TRY(sr_op_expect_activation(node, 0, "prob", 2));
    SR_TRY(expect_labels(node, 1));
    SR_TRY(sr_op_expect_parameter(node, 2, "dloss", dtype, 1, prob->dim));
    SR_TRY(sr_op_expect_parameter(node, 0, "prob", dtype, 2, prob->dim));
    out[0] = *prob;
    out[0].dtype = dtype;
    return SR_OK;
}

static sr_status xent_grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_softmax_xent_grad,
                 ((const xent_grad_attr *)node->attr)->smoothing);
}

const sr_op sr_op_softmax_xent_grad = {
    SR_OP_HEAD,
    .name = "softmax_xent_grad",
    .help = "gradient of softmax_xent with respect to the logits",
    .inputs = 3,
    .input_name = {"prob", "labels", "dloss"},
    .required = 3,
    .outputs = 1,
    .attr_size = sizeof(xent_grad_attr),
    .fields = xent_grad_fields,
    .infer = xent_grad_infer,
    .lower = xent_grad_lower,
};

// ---- softmax, log_softmax: x -> y ----
// Of rows along the last dimension. Their gradients are formed from y.

static sr_status rows_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, node->op->input_name[0], -1));
    for (int i = 1; i < node->inputs; i++)
        SR_TRY(sr_op_expect_equal(node, 0, i));
    if (node->in[0].rank < 1)
        return SR_FAIL(SR_E_SHAPE, "%s: %s is a scalar, expected at least one dimension",
                       node->op->name, node->op->input_name[0]);
    out[0] = node->in[0];
    return SR_OK;
}

static sr_status lower_rows(const sr_node_view *node, sr_kernel_request *request,
                            sr_kernel_id kernel) {
    const sr_rows_params p = {.rows = sr_op_rows(&node->in[0]),
                              .channels = sr_op_channels(&node->in[0])};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

#define LOWER_ROWS(name)                                                                           \
    static sr_status name##_lower(const sr_node_view *node, sr_kernel_request *request) {          \
        return lower_rows(node, request, SR_KERNEL_##name);                                        \
    }
LOWER_ROWS(softmax)
LOWER_ROWS(softmax_grad)
LOWER_ROWS(log_softmax)
LOWER_ROWS(log_softmax_grad)
LOWER_ROWS(logsumexp)

static void softmax_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_op *gradient =
        node->op == &sr_op_softmax ? &sr_op_softmax_grad : &sr_op_log_softmax_grad;
    if (wanted[0])
        grad_in[0] = sr_op_binary(gradient, NULL, node->output[0], grad_out[0]);
}

const sr_op sr_op_softmax = {
    SR_OP_HEAD,
    .name = "softmax",
    .help = "exp(x) / sum of exp(x), over the last dimension",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = rows_infer,
    .lower = softmax_lower,
    .derivative = softmax_derivative,
    .keeps_outputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
};

const sr_op sr_op_log_softmax = {
    SR_OP_HEAD,
    .name = "log_softmax",
    .help = "x - log(sum of exp(x)), over the last dimension",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = rows_infer,
    .lower = log_softmax_lower,
    .derivative = softmax_derivative,
    .keeps_outputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
};

// Along a dimension: as the last one, which changes places with it.
static sr_tensor along(const sr_op *op, sr_tensor x, int axis) {
    sr_info info;
    char text[SR_INFO_TEXT];
    int order[SR_MAX_RANK];
    (void)snprintf(text, sizeof text, "%s: x", op->name);
    if (!sr_op_argument(x, text, &info))
        return sr_op_failed();
    if (axis < 0 || axis >= info.rank)
        return sr_op_refused(
            SR_FAIL(SR_E_SHAPE, "axis %d of x %s", axis, sr_info_text(&info, text)), op->name);
    const int last = info.rank - 1;
    if (axis == last)
        return sr_op_unary(op, NULL, x);
    for (int d = 0; d < info.rank; d++)
        order[d] = d == axis ? last : d == last ? axis : d;
    return sr_permute(sr_op_unary(op, NULL, sr_permute(x, order)), order);
}

sr_tensor sr_softmax(sr_tensor x, int axis) {
    return along(&sr_op_softmax, x, axis);
}

sr_tensor sr_log_softmax(sr_tensor x, int axis) {
    return along(&sr_op_log_softmax, x, axis);
}

// ---- softmax_grad, log_softmax_grad: y, dy -> dx ----

// Sums over the last dimension, which stays.
static sr_tensor sum_last(const sr_node_view *node, sr_tensor x) {
    return sr_sum(x, (sr_axes){.count = 1, .axis = {node->in[0].rank - 1}, .keep = true});
}

// dx = y (dy - s), s = sum of y dy: with g, the gradient of dx, that of y is g (dy - s) - dy t, t =
// sum of y g, and that of dy is y (g - t).
static void softmax_grad_derivative(sr_context *context, const sr_node_view *node,
                                    const sr_tensor *grad_out, const bool *wanted,
                                    sr_tensor *grad_in) {
    (void)context;
    const sr_tensor y = node->input[0], dy = node->input[1], g = grad_out[0];
    if (wanted[0]) {
        const sr_tensor s = sum_last(node, sr_mul(y, dy)), t = sum_last(node, sr_mul(y, g));
        grad_in[0] = sr_sub(sr_mul(g, sr_sub(dy, s)), sr_mul(dy, t));
    }
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_softmax_grad, NULL, y, g);
}

const sr_op sr_op_softmax_grad = {
    SR_OP_HEAD,
    .name = "softmax_grad",
    .help = "gradient of softmax: y (dy - sum of y dy)",
    .inputs = 2,
    .input_name = {"y", "dy"},
    .required = 2,
    .outputs = 1,
    .infer = rows_infer,
    .lower = softmax_grad_lower,
    .derivative = softmax_grad_derivative,
    .keeps_inputs = 3u,
    .in_place = SR_IN_PLACE(0, 0) | SR_IN_PLACE(0, 1),
};

// dx = dy - exp(y) s, s = sum of dy: with g, the gradient of dx, that of y is -g exp(y) s, and that
// of dy is g - sum of g exp(y).
static void log_softmax_grad_derivative(sr_context *context, const sr_node_view *node,
                                        const sr_tensor *grad_out, const bool *wanted,
                                        sr_tensor *grad_in) {
    (void)context;
    const sr_tensor g = grad_out[0], weighted = sr_mul(g, sr_exp_op(node->input[0]));
    if (wanted[0])
        grad_in[0] = sr_scale(sr_mul(weighted, sum_last(node, node->input[1])), -1.0, 0.0);
    if (wanted[1])
        grad_in[1] = sr_sub(g, sum_last(node, weighted));
}

const sr_op sr_op_log_softmax_grad = {
    SR_OP_HEAD,
    .name = "log_softmax_grad",
    .help = "gradient of log_softmax: dy - exp(y) sum of dy",
    .inputs = 2,
    .input_name = {"y", "dy"},
    .required = 2,
    .outputs = 1,
    .infer = rows_infer,
    .lower = log_softmax_grad_lower,
    .derivative = log_softmax_grad_derivative,
    .keeps_inputs = 3u,
    .in_place = SR_IN_PLACE(0, 0) | SR_IN_PLACE(0, 1),
};

// ---- logsumexp: x -> y ----
// Its gradient is computed in the dtype of parameters: probabilities of many classes are below the
// normal numbers of f16.

static sr_status logsumexp_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(rows_infer(node, out));
    out[0].dim[--out[0].rank] = 0;
    return SR_OK;
}

static void logsumexp_derivative(sr_context *context, const sr_node_view *node,
                                 const sr_tensor *grad_out, const bool *wanted,
                                 sr_tensor *grad_in) {
    (void)context;
    const sr_dtype dtype = node->in[0].dtype, wide = sr_op_parameter_dtype(dtype);
    sr_info column = node->in[0];
    column.dim[column.rank - 1] = 1;
    if (!wanted[0])
        return;
    const sr_tensor x = sr_op_as_type(node->input[0], wide), g = sr_op_as_type(grad_out[0], wide);
    grad_in[0] = sr_op_as_type(
        sr_mul(sr_op_unary(&sr_op_softmax, NULL, x), sr_reshape(g, column.rank, column.dim)),
        dtype);
}

const sr_op sr_op_logsumexp = {
    SR_OP_HEAD,
    .name = "logsumexp",
    .help = "log(sum of exp(x)) over the last dimension",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .infer = logsumexp_infer,
    .lower = logsumexp_lower,
    .derivative = logsumexp_derivative,
    .keeps_inputs = 1u,
};

sr_tensor sr_logsumexp(sr_tensor x, sr_axes over) {
    sr_reduction r;
    if (!sr_op_reduction(x, "logsumexp", &over, &r))
        return sr_op_failed();
    return sr_reshape(sr_op_unary(&sr_op_logsumexp, NULL, sr_op_reduced_rows(x, &r)), r.result.rank,
                      r.result.dim);
}

// ---- topk_hits: logits, labels -> hits[2] ----

static sr_status hits_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "logits", 2));
    SR_TRY(expect_labels(node, 1));
    out[0] = sr_op_info(SR_F32, 1, (const int64_t[]){2});
    return SR_OK;
}

static sr_status hits_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_topk_hits, 0.0);
}

const sr_op sr_op_topk_hits = {
    SR_OP_HEAD,
    .name = "topk_hits",
    .help = "numbers of samples whose label is the best class, and among the five best",
    .inputs = 2,
    .input_name = {"logits", "labels"},
    .required = 2,
    .outputs = 1,
    .infer = hits_infer,
    .lower = hits_lower,
    .stops = 3u,
};

sr_tensor sr_topk_hits(sr_tensor logits, sr_tensor labels) {
    return sr_op_binary(&sr_op_topk_hits, NULL, logits, labels);
}
