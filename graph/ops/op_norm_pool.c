// SPDX-License-Identifier: Apache-2.0
// Max pooling of what batch norm with ReLU gives, and the gradient of both. graph/pass_fuse_pool.c
// makes them; they have no derivative.
#include <string.h>

#include "graph/ops/op_pool_internal.h"

typedef struct norm_pool_attr {
    sr_pool_attr pool; // as in maxpool2d
    double eps;        // as in batch norm, whose attributes these are
} norm_pool_attr;

static const sr_attr_field fields[] = {SR_POOL_FIELDS, SR_ATTR(norm_pool_attr, eps, 0, 1e300), {0}};

void sr_op_join_maxpool(const void *norm, const void *pool, void *out) {
    norm_pool_attr *to = out;
    memcpy(&to->pool, pool, sizeof to->pool);
    memcpy(&to->eps, norm, sizeof to->eps);
}

// Inputs from 'channels' on are of channels; mean and var, the last two, must be given with
// 'statistics'.
static sr_status expect_norm(const sr_node_view *node, int channels, bool statistics) {
    const sr_info *x = &node->in[0];
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    SR_TRY(sr_op_expect_eps(node, ((const norm_pool_attr *)node->attr)->eps));
    if (statistics &&
        !(sr_op_present(node, node->inputs - 2) && sr_op_present(node, node->inputs - 1)))
        return SR_FAIL(SR_E_SHAPE, "%s: mean and var must be given", node->op->name);
    for (int i = channels; i < node->inputs; i++)
        SR_TRY(sr_op_expect_vector(node, i, "a per-channel input", x->dtype, sr_op_channels(x)));
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel) {
    const norm_pool_attr *a = node->attr;
    sr_norm_pool_params p = {.eps = a->eps};
    SR_TRY(sr_op_pool_params(node, &a->pool, &node->in[0], NULL, &p.pool));
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// ---- batchnorm_train_relu_maxpool: x, gamma, beta -> y, mean, var, index ----

static sr_status train_infer(const sr_node_view *node, sr_info *out) {
    const norm_pool_attr *a = node->attr;
    SR_TRY(expect_norm(node, 1, false));
    out[1] = out[2] = sr_op_channel_info(&node->in[0]);
    return sr_op_maxpool_infer(node, &a->pool, &node->in[0], &out[0], &out[3]);
}

static sr_status train_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_train_relu_maxpool);
}

const sr_op sr_op_batchnorm_train_relu_maxpool = {
    SR_OP_HEAD,
    .name = "batchnorm_train_relu_maxpool",
    .help = "maxpool2d of max(batchnorm_train, 0)",
    .inputs = 3,
    .input_name = {"x", "gamma", "beta"},
    .required = 1,
    .outputs = 4,
    .attr_size = sizeof(norm_pool_attr),
    .fields = fields,
    .infer = train_infer,
    .lower = train_lower,
};

// ---- batchnorm_infer_relu_maxpool: x, gamma, beta, mean, var -> y ----

static sr_status infer_infer(const sr_node_view *node, sr_info *out) {
    const norm_pool_attr *a = node->attr;
    sr_info index;
    SR_TRY(expect_norm(node, 1, true));
    return sr_op_maxpool_infer(node, &a->pool, &node->in[0], &out[0], &index);
}

static sr_status infer_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_infer_relu_maxpool);
}

const sr_op sr_op_batchnorm_infer_relu_maxpool = {
    SR_OP_HEAD,
    .name = "batchnorm_infer_relu_maxpool",
    .help = "maxpool2d of max(batchnorm_infer, 0)",
    .inputs = 5,
    .input_name = {"x", "gamma", "beta", "mean", "var"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(norm_pool_attr),
    .fields = fields,
    .infer = infer_infer,
    .lower = infer_lower,
};

// ---- batchnorm_relu_maxpool_grad: x, dy, index, gamma, beta, mean, var -> dx, dgamma, dbeta ----

static sr_status grad_infer(const sr_node_view *node, sr_info *out) {
    const norm_pool_attr *a = node->attr;
    const sr_info *x = &node->in[0], *dy = &node->in[1];
    sr_pool_params p;
    SR_TRY(expect_norm(node, 3, true));
    SR_TRY(sr_op_expect_activation(node, 1, "dy", 4));
    if (dy->dtype != x->dtype) {
        char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: x %s and dy %s must have the same dtype", node->op->name,
                       sr_info_text(x, left), sr_info_text(dy, right));
    }
    SR_TRY(sr_op_pool_params(node, &a->pool, x, dy, &p));
    SR_TRY(sr_op_expect_index(node, 2, dy));
    out[0] = *x;
    out[1] = out[2] = sr_op_channel_info(x);
    return SR_OK;
}

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_relu_maxpool_grad);
}

const sr_op sr_op_batchnorm_relu_maxpool_grad = {
    SR_OP_HEAD,
    .name = "batchnorm_relu_maxpool_grad",
    .help = "gradients of batchnorm_train_relu_maxpool",
    .inputs = 7,
    .input_name = {"x", "dy", "index", "gamma", "beta", "mean", "var"},
    .required = 3,
    .outputs = 3,
    .attr_size = sizeof(norm_pool_attr),
    .fields = fields,
    .infer = grad_infer,
    .lower = grad_lower,
};
