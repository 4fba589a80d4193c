// SPDX-License-Identifier: Apache-2.0
// Softmax, cross-entropy with label smoothing (Szegedy et al. 2016), and counts of correct
// predictions. The loss is differentiable once.
#include "graph/ops/op_internal.h"

typedef struct xent_attr {
    double smoothing;
} xent_attr;

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
    .infer = xent_grad_infer,
    .lower = xent_grad_lower,
};

// ---- softmax: logits -> prob ----

static sr_status softmax_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "logits", 2));
    out[0] = probabilities(&node->in[0]);
    return SR_OK;
}

static sr_status softmax_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_softmax, 0.0);
}

const sr_op sr_op_softmax = {
    SR_OP_HEAD,
    .name = "softmax",
    .help = "probabilities of the classes; not differentiable",
    .inputs = 1,
    .input_name = {"logits"},
    .required = 1,
    .outputs = 1,
    .infer = softmax_infer,
    .lower = softmax_lower,
};

sr_tensor sr_softmax(sr_tensor logits) {
    return sr_op_unary(&sr_op_softmax, NULL, logits);
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
    .help = "number of labels that are the best class, and among the five best",
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
