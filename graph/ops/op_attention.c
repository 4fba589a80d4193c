// SPDX-License-Identifier: Apache-2.0
// Multi-head attention (Vaswani et al. 2017) without the softmax in memory: the gradients compute
// its rows again from log sum exp (Dao et al. 2022).
#include <math.h>

#include "graph/ops/op_internal.h"

typedef struct attention_attr {
    double scale;
    int32_t heads, reserved;
} attention_attr;

static const sr_attr_field fields[] = {SR_ATTR(attention_attr, scale, -1e300, 1e300),
                                       SR_ATTR(attention_attr, heads, 1, SR_ATTR_SIDE),
                                       {0}};

// Inputs of both gradients.
enum { Q, K, V, Y, LSE, DY, BIAS, GRADIENT_INPUTS };

static sr_attention_params params_of(const sr_node_view *node, int bias) {
    const attention_attr *a = node->attr;
    const sr_info *q = &node->in[Q];
    return (sr_attention_params){.batches = q->dim[0],
                                 .queries = q->dim[1],
                                 .keys = node->in[K].dim[1],
                                 .heads = a->heads,
                                 .depth = q->dim[2] / a->heads,
                                 .biases = sr_op_present(node, bias) ? node->in[bias].dim[0] : 0,
                                 .scale = a->scale};
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel,
                       int bias) {
    const sr_attention_params p = params_of(node, bias);
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// ---- Shapes ----

static sr_status expect_keys(const sr_node_view *node, int input, const char *name) {
    const sr_info *q = &node->in[Q], *x = &node->in[input], *k = &node->in[K];
    char text[SR_INFO_TEXT], other[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, input, name, 3));
    if (x->dtype != q->dtype || x->dim[0] != q->dim[0] || x->dim[2] != q->dim[2])
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s must match q %s in dtype, batch and channels",
                       node->op->name, name, sr_info_text(x, text), sr_info_text(q, other));
    if (x->dim[1] != k->dim[1])
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s must have the tokens of k %s", node->op->name, name,
                       sr_info_text(x, text), sr_info_text(k, other));
    return SR_OK;
}

static sr_status expect_bias(const sr_node_view *node, int input) {
    const attention_attr *a = node->attr;
    const sr_info *q = &node->in[Q], *bias = &node->in[input];
    char text[SR_INFO_TEXT], other[SR_INFO_TEXT];
    if (!sr_op_present(node, input))
        return SR_OK;
    if (bias->dtype != sr_op_parameter_dtype(q->dtype) || bias->rank != 4 ||
        bias->dim[1] != a->heads || bias->dim[2] != q->dim[1] ||
        bias->dim[3] != node->in[K].dim[1]) {
        return SR_FAIL(SR_E_SHAPE,
                       "%s: bias %s must be %s [G, %d, %lld, %lld]: heads, queries and keys",
                       node->op->name, sr_info_text(bias, text),
                       sr_dtype_name(sr_op_parameter_dtype(q->dtype)), a->heads,
                       (long long)q->dim[1], (long long)node->in[K].dim[1]);
    }
    if (q->dim[0] % bias->dim[0] != 0)
        return SR_FAIL(SR_E_SHAPE, "%s: the first dimension of bias %s must divide that of q %s",
                       node->op->name, sr_info_text(bias, text), sr_info_text(q, other));
    return SR_OK;
}

static sr_status expect_tokens(const sr_node_view *node, int bias) {
    const attention_attr *a = node->attr;
    const sr_info *q = &node->in[Q];
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, Q, "q", 3));
    if (a->heads < 1 || q->dim[2] % a->heads != 0)
        return SR_FAIL(SR_E_SHAPE, "%s: q %s: %d heads must divide the channels", node->op->name,
                       sr_info_text(q, text), a->heads);
    SR_TRY(expect_keys(node, K, "k"));
    SR_TRY(expect_keys(node, V, "v"));
    return expect_bias(node, bias);
}

static sr_info lse_info(const sr_node_view *node) {
    const attention_attr *a = node->attr;
    const sr_info *q = &node->in[Q];
    return sr_op_info(sr_op_parameter_dtype(q->dtype), 3,
                      (const int64_t[]){q->dim[0], a->heads, q->dim[1]});
}

// Products of queries and keys, and weighted sums, 'products' in all; bytes of all arguments.
static void cost(const sr_node_view *node, double products, double *flops, double *bytes) {
    const sr_info *q = &node->in[Q];
    *flops = 2 * products * (double)sr_info_count(q) * (double)node->in[K].dim[1];
    *bytes = 0;
    for (int i = 0; i < node->inputs; i++)
        if (sr_op_present(node, i))
            *bytes +=
                (double)sr_info_count(&node->in[i]) * (double)sr_dtype_size(node->in[i].dtype);
    for (int i = 0; i < node->op->outputs; i++)
        *bytes += (double)sr_info_count(&node->out[i]) * (double)sr_dtype_size(node->out[i].dtype);
}

// ---- attention: q, k, v, bias -> y, lse ----

static sr_status attention_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_tokens(node, 3));
    out[0] = node->in[Q];
    out[1] = lse_info(node);
    return SR_OK;
}

static sr_status attention_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_attention, 3);
}

static void attention_cost(const sr_node_view *node, double *flops, double *bytes) {
    cost(node, 2, flops, bytes);
}

static void attention_derivative(sr_context *context, const sr_node_view *node,
                                 const sr_tensor *grad_out, const bool *wanted,
                                 sr_tensor *grad_in) {
    (void)context;
    const sr_tensor in[GRADIENT_INPUTS] = {node->input[0],  node->input[1],  node->input[2],
                                           node->output[0], node->output[1], grad_out[0],
                                           node->input[3]};
    sr_tensor out[3] = {SR_NONE, SR_NONE, SR_NONE};
    if (wanted[Q] || wanted[K] || wanted[V]) {
        sr_op_record(&sr_op_attention_grad, node->attr, in, out);
        for (int i = 0; i < 3; i++)
            grad_in[i] = wanted[i] ? out[i] : SR_NONE;
    }
    if (wanted[3])
        grad_in[3] = sr_op_record_one(&sr_op_attention_bias_grad, node->attr, in);
}

const sr_op sr_op_attention = {
    SR_OP_HEAD,
    .name = "attention",
    .help = "softmax(scale q k^T + bias) v of each head",
    .inputs = 4,
    .input_name = {"q", "k", "v", "bias"},
    .required = 3,
    .outputs = 2,
    .attr_size = sizeof(attention_attr),
    .fields = fields,
    .infer = attention_infer,
    .lower = attention_lower,
    .derivative = attention_derivative,
    .keeps_inputs = 15u,
    .keeps_outputs = 3u,
    .once = true,
    .hidden = 2u, // lse
    .cost = attention_cost,
};

sr_tensor sr_attention(sr_tensor q, sr_tensor k, sr_tensor v, sr_tensor bias, sr_attention_opts o) {
    sr_info info;
    attention_attr attr = {.scale = o.scale, .heads = o.heads == 0 ? 1 : o.heads};
    sr_tensor out[2] = {SR_NONE, SR_NONE};
    if (!sr_op_argument(q, "attention: q", &info))
        return sr_op_failed();
    if (attr.scale == 0.0 && info.rank == 3)
        attr.scale = 1 / sqrt((double)info.dim[2] / attr.heads);
    sr_op_record(&sr_op_attention, &attr, (sr_tensor[]){q, k, v, bias}, out);
    return out[0];
}

// ---- attention_grad: q, k, v, y, lse, dy, bias -> dq, dk, dv ----

static sr_status expect_gradient(const sr_node_view *node) {
    const sr_info lse = lse_info(node);
    SR_TRY(expect_tokens(node, BIAS));
    SR_TRY(sr_op_expect_equal(node, Y, Q));
    SR_TRY(sr_op_expect_equal(node, DY, Q));
    return sr_op_expect_parameter(node, LSE, "lse", node->in[Q].dtype, 3, lse.dim);
}

static sr_status grad_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_gradient(node));
    for (int i = 0; i < 3; i++)
        out[i] = node->in[i];
    return SR_OK;
}

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_attention_grad, BIAS);
}

// Scores and gradients of weights are computed for the queries and again for the keys.
static void grad_cost(const sr_node_view *node, double *flops, double *bytes) {
    cost(node, 7, flops, bytes);
}

const sr_op sr_op_attention_grad = {
    SR_OP_HEAD,
    .name = "attention_grad",
    .help = "gradients of attention with respect to q, k and v",
    .inputs = GRADIENT_INPUTS,
    .input_name = {"q", "k", "v", "y", "lse", "dy", "bias"},
    .required = BIAS,
    .outputs = 3,
    .attr_size = sizeof(attention_attr),
    .fields = fields,
    .infer = grad_infer,
    .lower = grad_lower,
    .cost = grad_cost,
};

// ---- attention_bias_grad: q, k, v, y, lse, dy, bias -> dbias ----

static sr_status bias_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_gradient(node));
    out[0] = node->in[BIAS];
    return SR_OK;
}

static sr_status bias_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_attention_bias_grad, BIAS);
}

static void bias_cost(const sr_node_view *node, double *flops, double *bytes) {
    cost(node, 2, flops, bytes);
}

const sr_op sr_op_attention_bias_grad = {
    SR_OP_HEAD,
    .name = "attention_bias_grad",
    .help = "gradient of attention with respect to the bias",
    .inputs = GRADIENT_INPUTS,
    .input_name = {"q", "k", "v", "y", "lse", "dy", "bias"},
    .required = GRADIENT_INPUTS,
    .outputs = 1,
    .attr_size = sizeof(attention_attr),
    .fields = fields,
    .infer = bias_infer,
    .lower = bias_lower,
    .cost = bias_cost,
};
