// SPDX-License-Identifier: Apache-2.0
// leaky_relu: x where x > 0, else slope x (Maas, Hannun & Ng 2013).
#include "graph/ops/op_internal.h"

typedef struct leaky_attr {
    double slope;
} leaky_attr;

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel) {
    const sr_scale_params p = {.count = sr_info_count(&node->in[0]),
                               .alpha = ((const leaky_attr *)node->attr)->slope};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_status leaky_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_leaky_relu);
}

static void leaky_derivative(sr_context *context, const sr_node_view *node,
                             const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_leaky_relu_grad, node->attr, node->input[0], grad_out[0]);
}

const sr_op sr_op_leaky_relu = {
    SR_OP_HEAD,
    .name = "leaky_relu",
    .help = "x where x > 0, else slope x",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(leaky_attr),
    .infer = sr_op_infer_like,
    .lower = leaky_lower,
    .derivative = leaky_derivative,
    .keeps_inputs = 1u,
    .in_place = SR_IN_PLACE(0, 0),
};

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_leaky_relu_grad);
}

// Linear in dy; the dependence on x is zero almost everywhere.
static void grad_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[1])
        grad_in[1] = sr_op_binary(&sr_op_leaky_relu_grad, node->attr, node->input[0], grad_out[0]);
}

const sr_op sr_op_leaky_relu_grad = {
    SR_OP_HEAD,
    .name = "leaky_relu_grad",
    .help = "dy where x > 0, else slope dy",
    .inputs = 2,
    .input_name = {"x", "dy"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(leaky_attr),
    .infer = sr_op_infer_like,
    .lower = grad_lower,
    .derivative = grad_derivative,
    .keeps_inputs = 1u,
    .in_place = SR_IN_PLACE(0, 1),
    .stops = 1u, // x: zero almost everywhere
};

sr_tensor sr_leaky_relu(sr_tensor x, double slope) {
    const leaky_attr attr = {slope};
    return sr_op_unary(&sr_op_leaky_relu, &attr, x);
}
