// SPDX-License-Identifier: Apache-2.0
// Nearest upsampling by an integer factor, and its gradient; both linear, each the other's
// derivative.
#include "graph/ops/op_internal.h"

// Keeps products of sizes and factors within int64_t.
#define MAX_FACTOR 4096

typedef struct upsample_attr {
    int32_t factor_h, factor_w;
} upsample_attr;

static const sr_attr_field fields[] = {SR_ATTR(upsample_attr, factor_h, 1, SR_ATTR_SIDE),
                                       SR_ATTR(upsample_attr, factor_w, 1, SR_ATTR_SIDE),
                                       {0}};

static sr_status expect_factor(const sr_node_view *node) {
    const upsample_attr *a = node->attr;
    SR_TRY(sr_op_expect_activation(node, 0, "input", 4));
    if (a->factor_h < 1 || a->factor_w < 1 || a->factor_h > MAX_FACTOR || a->factor_w > MAX_FACTOR)
        return SR_FAIL(SR_E_SHAPE, "%s: factor %dx%d must be 1 to %d", node->op->name, a->factor_h,
                       a->factor_w, MAX_FACTOR);
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel,
                       const sr_info *x, const sr_info *y) {
    const upsample_attr *a = node->attr;
    const sr_pool_params p = {.n = x->dim[0],
                              .h = x->dim[1],
                              .w = x->dim[2],
                              .c = x->dim[3],
                              .p = y->dim[1],
                              .q = y->dim[2],
                              .window_h = a->factor_h,
                              .window_w = a->factor_w,
                              .stride_h = a->factor_h,
                              .stride_w = a->factor_w};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_status up_infer(const sr_node_view *node, sr_info *out) {
    const upsample_attr *a = node->attr;
    SR_TRY(expect_factor(node));
    out[0] = node->in[0];
    out[0].dim[1] *= a->factor_h;
    out[0].dim[2] *= a->factor_w;
    return SR_OK;
}

static sr_status up_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_upsample2d, &node->in[0], &node->out[0]);
}

static void up_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                          const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_unary(&sr_op_upsample2d_grad, node->attr, grad_out[0]);
}

const sr_op sr_op_upsample2d = {
    SR_OP_HEAD,
    .name = "upsample2d",
    .help = "nearest upsampling by an integer factor",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(upsample_attr),
    .fields = fields,
    .infer = up_infer,
    .lower = up_lower,
    .derivative = up_derivative,
};

static sr_status grad_infer(const sr_node_view *node, sr_info *out) {
    const upsample_attr *a = node->attr;
    SR_TRY(expect_factor(node));
    out[0] = node->in[0];
    if (out[0].dim[1] % a->factor_h != 0 || out[0].dim[2] % a->factor_w != 0) {
        char text[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: dy %s must be a multiple of the factor %dx%d",
                       node->op->name, sr_info_text(&out[0], text), a->factor_h, a->factor_w);
    }
    out[0].dim[1] /= a->factor_h;
    out[0].dim[2] /= a->factor_w;
    return SR_OK;
}

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_upsample2d_grad, &node->out[0], &node->in[0]);
}

static void grad_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_unary(&sr_op_upsample2d, node->attr, grad_out[0]);
}

const sr_op sr_op_upsample2d_grad = {
    SR_OP_HEAD,
    .name = "upsample2d_grad",
    .help = "gradient of upsample2d: the sum over the copies",
    .inputs = 1,
    .input_name = {"dy"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(upsample_attr),
    .fields = fields,
    .infer = grad_infer,
    .lower = grad_lower,
    .derivative = grad_derivative,
};

sr_tensor sr_upsample2d(sr_tensor x, int factor) {
    const upsample_attr attr = {factor, factor};
    return sr_op_unary(&sr_op_upsample2d, &attr, x);
}
