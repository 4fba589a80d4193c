// SPDX-License-Identifier: Apache-2.0
// Updates of variables in place: SGD with momentum, as torch.optim.SGD, and the exponential moving
// average of parameters. They have no outputs and no gradient.
#include "graph/ops/op_internal.h"

static sr_status expect_update(const sr_node_view *node, int tensors) {
    const sr_info *hyper = &node->in[tensors];
    char text[SR_INFO_TEXT];
    for (int i = 0; i < tensors; i++) {
        if (node->in[i].dtype != SR_F32)
            return SR_FAIL(SR_E_SHAPE, "%s: input %s must be f32", node->op->name,
                           sr_info_text(&node->in[i], text));
        SR_TRY(sr_op_expect_equal(node, 0, i));
    }
    if (hyper->dtype != SR_F32 || hyper->rank != 1 || hyper->dim[0] != 8)
        return SR_FAIL(SR_E_SHAPE, "%s: hyper %s must be f32 [8]", node->op->name,
                       sr_info_text(hyper, text));
    return SR_OK;
}

// ---- sgd: p, m, g, hyper ----

static sr_status sgd_infer(const sr_node_view *node, sr_info *out) {
    (void)out;
    return expect_update(node, 3);
}

static sr_status sgd_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_sgd);
}

const sr_op sr_op_sgd = {
    SR_OP_HEAD,
    .name = "sgd",
    .help = "SGD step of p and its momentum m from gradient g, in place",
    .inputs = 4,
    .input_name = {"p", "m", "g", "hyper"},
    .required = 4,
    .outputs = 0,
    .infer = sgd_infer,
    .lower = sgd_lower,
    .updates = 3u,
    .stops = 15u,
};

void sr_sgd_update(sr_tensor p, sr_tensor m, sr_tensor g, sr_tensor hyper) {
    sr_op_record(&sr_op_sgd, NULL, (sr_tensor[]){p, m, g, hyper}, NULL);
}

// ---- ema: e, p, hyper ----

static sr_status ema_infer(const sr_node_view *node, sr_info *out) {
    (void)out;
    return expect_update(node, 2);
}

static sr_status ema_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_ema);
}

const sr_op sr_op_ema = {
    SR_OP_HEAD,
    .name = "ema",
    .help = "moving average e of p, in place",
    .inputs = 3,
    .input_name = {"e", "p", "hyper"},
    .required = 3,
    .outputs = 0,
    .infer = ema_infer,
    .lower = ema_lower,
    .updates = 1u,
    .stops = 7u,
};

void sr_ema_update(sr_tensor e, sr_tensor p, sr_tensor hyper) {
    sr_op_record(&sr_op_ema, NULL, (sr_tensor[]){e, p, hyper}, NULL);
}
