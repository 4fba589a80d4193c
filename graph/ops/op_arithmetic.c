// SPDX-License-Identifier: Apache-2.0
// add, sub, mul of equal tensors; scale by attributes. Differentiable to any order.
#include "graph/ops/op_internal.h"

// ---- add ----

static sr_status add_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_add);
}

static void add_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    (void)node;
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            grad_in[i] = grad_out[0];
}

const sr_op sr_op_add = {
    SR_OP_HEAD,
    .name = "add",
    .help = "a + b",
    .inputs = 2,
    .input_name = {"a", "b"},
    .required = 2,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = add_lower,
    .derivative = add_derivative,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_add(sr_tensor a, sr_tensor b) {
    return sr_op_binary(&sr_op_add, NULL, a, b);
}

// ---- sub ----

static sr_status sub_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_sub);
}

static void sub_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    (void)node;
    if (wanted[0])
        grad_in[0] = grad_out[0];
    if (wanted[1])
        grad_in[1] = sr_scale(grad_out[0], -1.0, 0.0);
}

const sr_op sr_op_sub = {
    SR_OP_HEAD,
    .name = "sub",
    .help = "a - b",
    .inputs = 2,
    .input_name = {"a", "b"},
    .required = 2,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = sub_lower,
    .derivative = sub_derivative,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_sub(sr_tensor a, sr_tensor b) {
    return sr_op_binary(&sr_op_sub, NULL, a, b);
}

// ---- mul ----

static sr_status mul_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_mul);
}

static void mul_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            grad_in[i] = sr_mul(grad_out[0], node->input[1 - i]);
}

const sr_op sr_op_mul = {
    SR_OP_HEAD,
    .name = "mul",
    .help = "a b, elementwise",
    .inputs = 2,
    .input_name = {"a", "b"},
    .required = 2,
    .outputs = 1,
    .infer = sr_op_infer_like,
    .lower = mul_lower,
    .derivative = mul_derivative,
    .keeps_inputs = 3u,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_mul(sr_tensor a, sr_tensor b) {
    return sr_op_binary(&sr_op_mul, NULL, a, b);
}

// ---- scale ----

typedef struct scale_attr {
    double alpha, beta;
} scale_attr;

static sr_status scale_lower(const sr_node_view *node, sr_kernel_request *request) {
    const scale_attr *a = node->attr;
    const sr_scale_params p = {
        .count = sr_info_count(&node->in[0]), .alpha = a->alpha, .beta = a->beta};
    return sr_op_lower(request, SR_KERNEL_scale, &p, sizeof p);
}

static void scale_derivative(sr_context *context, const sr_node_view *node,
                             const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_scale(grad_out[0], ((const scale_attr *)node->attr)->alpha, 0.0);
}

const sr_op sr_op_scale = {
    SR_OP_HEAD,
    .name = "scale",
    .help = "alpha x + beta",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(scale_attr),
    .infer = sr_op_infer_like,
    .lower = scale_lower,
    .derivative = scale_derivative,
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_scale(sr_tensor x, double alpha, double beta) {
    const scale_attr attr = {alpha, beta};
    return sr_op_unary(&sr_op_scale, &attr, x);
}
