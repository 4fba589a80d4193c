// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over all but the last dimension (Ioffe & Szegedy 2015): training form with
// the lane's statistics, its gradient, and the form with given statistics; each also with ReLU,
// which graph/pass_fuse.c makes of two operators. channel_dot: the sums that are the gradients of
// the factors and shifts of channels.
//
// The training form is differentiable once. The infer form is affine in x, and its rule uses the
// infer form, channel_dot and channel_sum; the rule of channel_dot uses the infer form. So both are
// differentiable to any order. Products in channel_dot are not rounded to T, unlike those of mul.
#include "graph/ops/op_internal.h"

typedef struct batchnorm_attr {
    double eps;
} batchnorm_attr;

static const sr_attr_field fields[] = {SR_ATTR(batchnorm_attr, eps, 0, 1e300), {0}};

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel) {
    const batchnorm_attr *a = node->attr;
    const sr_batchnorm_params p = {
        .rows = sr_op_rows(&node->in[0]), .channels = sr_op_channels(&node->in[0]), .eps = a->eps};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

sr_status sr_op_expect_rows(const sr_node_view *node) {
    SR_TRY(sr_op_expect_activation(node, 0, node->op->input_name[0], -1));
    if (node->in[0].rank < 2) {
        char text[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s needs at least two dimensions", node->op->name,
                       node->op->input_name[0], sr_info_text(&node->in[0], text));
    }
    return SR_OK;
}

sr_status sr_op_expect_eps(const sr_node_view *node, double eps) {
    if (!(eps >= 0.0))
        return SR_FAIL(SR_E_SHAPE, "%s: eps %g must be at least 0", node->op->name, eps);
    return SR_OK;
}

sr_status sr_op_expect_channels(const sr_node_view *node, int first) {
    const sr_info *x = &node->in[0];
    for (int i = first; i < node->inputs; i++)
        SR_TRY(sr_op_expect_vector(node, i, "a per-channel input", x->dtype, sr_op_channels(x)));
    return SR_OK;
}

sr_info sr_op_channel_info(const sr_info *x) {
    const int64_t channels = sr_op_channels(x);
    return sr_op_info(sr_op_parameter_dtype(x->dtype), 1, &channels);
}

sr_info sr_op_signs_info(const sr_info *x) {
    sr_info signs = *x;
    signs.dtype = SR_U8;
    signs.dim[x->rank - 1] = SR_SIGN_BYTES(sr_op_channels(x));
    return signs;
}

static sr_status expect_rows(const sr_node_view *node) {
    SR_TRY(sr_op_expect_rows(node));
    return sr_op_expect_eps(node, ((const batchnorm_attr *)node->attr)->eps);
}

// y = gamma (x - mean) / sqrt(var + eps) + beta
static sr_tensor record_infer(sr_tensor x, sr_tensor gamma, sr_tensor beta, sr_tensor mean,
                              sr_tensor var, double eps) {
    const batchnorm_attr attr = {eps};
    return sr_op_record_one(&sr_op_batchnorm_infer, &attr,
                            (sr_tensor[]){x, gamma, beta, mean, var});
}

// ---- batchnorm_train: x, gamma, beta -> y, mean, var ----

static sr_status train_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_rows(node));
    SR_TRY(sr_op_expect_channels(node, 1));
    out[0] = node->in[0];
    out[1] = out[2] = sr_op_channel_info(&node->in[0]);
    return SR_OK;
}

static sr_status train_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_train);
}

// d mean / d x = 1 / M, d var / d x = 2 (x - mean) / M.
sr_tensor sr_op_statistics_gradient(sr_context *context, const sr_node_view *node, sr_tensor mean,
                                    double rows, sr_tensor dmean, sr_tensor dvar) {
    const sr_info *x = &node->in[0];
    const int64_t channels = sr_op_channels(x);
    const double inverse = 1.0 / rows;
    const sr_tensor one = sr_op_constant(context, x->dtype, channels, 1.0);
    sr_tensor gamma, bias = SR_NONE;
    if (!sr_is_none(dmean))
        bias = sr_scale(dmean, inverse, 0.0);
    if (sr_is_none(dvar))
        gamma = sr_op_constant(context, x->dtype, channels, 0.0);
    else
        gamma = sr_scale(dvar, 2.0 * inverse, 0.0);
    return record_infer(node->input[0], gamma, bias, mean, one, 0.0);
}

static void train_derivative(sr_context *context, const sr_node_view *node,
                             const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    if (!sr_is_none(grad_out[0])) {
        const sr_tensor inputs[] = {node->input[0], grad_out[0], node->input[1], node->output[1],
                                    node->output[2]};
        sr_tensor grads[3];
        sr_op_record(&sr_op_batchnorm_grad, node->attr, inputs, grads);
        for (int i = 0; i < 3; i++)
            if (wanted[i])
                grad_in[i] = grads[i];
    }
    if (wanted[0] && !(sr_is_none(grad_out[1]) && sr_is_none(grad_out[2]))) {
        const sr_tensor extra =
            sr_op_statistics_gradient(context, node, node->output[1],
                                      (double)sr_op_rows(&node->in[0]), grad_out[1], grad_out[2]);
        grad_in[0] = sr_is_none(grad_in[0]) ? extra : sr_add(grad_in[0], extra);
    }
}

const sr_op sr_op_batchnorm_train = {
    SR_OP_HEAD,
    .name = "batchnorm_train",
    .help = "batch normalisation with the statistics of this batch",
    .inputs = 3,
    .input_name = {"x", "gamma", "beta"},
    .required = 1,
    .outputs = 3,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = train_infer,
    .lower = train_lower,
    .derivative = train_derivative,
    .keeps_inputs = 3u,  // x, gamma
    .keeps_outputs = 6u, // mean, var
    .in_place = SR_IN_PLACE(0, 0),
    .again = &sr_op_batchnorm_infer,
    .once = true,
};

sr_batchnorm_out sr_batchnorm_train(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps) {
    const batchnorm_attr attr = {eps};
    sr_tensor out[3] = {SR_NONE, SR_NONE, SR_NONE};
    sr_op_record(&sr_op_batchnorm_train, &attr, (sr_tensor[]){x, gamma, beta}, out);
    return (sr_batchnorm_out){.y = out[0], .mean = out[1], .var = out[2]};
}

// ---- batchnorm_grad: x, dy, gamma, mean, var -> dx, dgamma, dbeta ----

static sr_status grad_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_rows(node));
    SR_TRY(sr_op_expect_equal(node, 0, 1));
    SR_TRY(sr_op_expect_channels(node, 2));
    out[0] = node->in[0];
    out[1] = out[2] = sr_op_channel_info(&node->in[0]);
    return SR_OK;
}

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_grad);
}

const sr_op sr_op_batchnorm_grad = {
    SR_OP_HEAD,
    .name = "batchnorm_grad",
    .help = "gradients of batchnorm_train",
    .inputs = 5,
    .input_name = {"x", "dy", "gamma", "mean", "var"},
    .required = 2,
    .outputs = 3,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = grad_infer,
    .lower = grad_lower,
    .in_place = SR_IN_PLACE(0, 1),
};

// ---- batchnorm_infer: x, gamma, beta, mean, var -> y ----

sr_status sr_op_infer_normalized(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_rows(node));
    if (!sr_op_present(node, 3) || !sr_op_present(node, 4))
        return SR_FAIL(SR_E_SHAPE, "%s: mean and var must be given", node->op->name);
    SR_TRY(sr_op_expect_channels(node, 1));
    out[0] = node->in[0];
    return SR_OK;
}

static sr_status given_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_infer_normalized(node, out));
    return sr_op_expect_eps(node, ((const batchnorm_attr *)node->attr)->eps);
}

static sr_status given_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_infer);
}

// v[C] gamma / sqrt(var + eps): this operator on one row.
static sr_tensor scaled_vector(sr_context *context, const sr_node_view *node, sr_tensor v,
                               sr_tensor gamma) {
    const double eps = ((const batchnorm_attr *)node->attr)->eps;
    const int64_t row[2] = {1, sr_op_channels(&node->in[0])};
    const sr_tensor zero = sr_op_constant(context, node->in[0].dtype, row[1], 0.0);
    const sr_tensor scaled =
        record_infer(sr_reshape(v, 2, row), gamma, SR_NONE, zero, node->input[4], eps);
    return sr_reshape(scaled, 1, &row[1]);
}

// With s = 1 / sqrt(var + eps):
//   dx = gamma s dy, dgamma = s sum dy (x - mean), dbeta = sum dy, dmean = -gamma s sum dy,
//   dvar = -1/2 gamma s^3 sum dy (x - mean).
// Sums are over the unmodified dy, so that nothing is rounded to T before it is added.
static void given_derivative(sr_context *context, const sr_node_view *node,
                             const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    const double eps = ((const batchnorm_attr *)node->attr)->eps;
    const sr_tensor x = node->input[0], gamma = node->input[1], mean = node->input[3],
                    var = node->input[4], dy = grad_out[0];
    sr_tensor sum = SR_NONE, product = SR_NONE;
    if (wanted[2] || wanted[3])
        sum = sr_channel_sum(dy);
    if (wanted[1] || wanted[4])
        product = sr_channel_dot(dy, x, mean);
    if (wanted[0]) {
        const sr_tensor zero =
            sr_op_constant(context, node->in[0].dtype, sr_op_channels(&node->in[0]), 0.0);
        grad_in[0] = record_infer(dy, gamma, SR_NONE, zero, var, eps);
    }
    if (wanted[1])
        grad_in[1] = scaled_vector(context, node, product, SR_NONE);
    if (wanted[2])
        grad_in[2] = sum;
    if (wanted[3])
        grad_in[3] = sr_scale(scaled_vector(context, node, sum, gamma), -1.0, 0.0);
    if (wanted[4]) {
        sr_tensor v = scaled_vector(context, node, product, gamma);
        for (int i = 0; i < 2; i++)
            v = scaled_vector(context, node, v, SR_NONE);
        grad_in[4] = sr_scale(v, -0.5, 0.0);
    }
}

const sr_op sr_op_batchnorm_infer = {
    SR_OP_HEAD,
    .name = "batchnorm_infer",
    .help = "batch normalisation with given statistics",
    .inputs = 5,
    .input_name = {"x", "gamma", "beta", "mean", "var"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = given_infer,
    .lower = given_lower,
    .derivative = given_derivative,
    .keeps_inputs = 1u | 2u | 8u | 16u, // all but beta
    .in_place = SR_IN_PLACE(0, 0),
};

sr_tensor sr_batchnorm_infer(sr_tensor x, sr_tensor gamma, sr_tensor beta, sr_tensor mean,
                             sr_tensor var, double eps) {
    return record_infer(x, gamma, beta, mean, var, eps);
}

// ---- With ReLU ----

// Inputs 'first' to 'end' - 1 have x's shape, those behind are of channels; mean and var, the last
// two, must be given with 'statistics'.
static sr_status expect_relu(const sr_node_view *node, int first, int end, bool statistics) {
    SR_TRY(expect_rows(node));
    for (int i = first; i < end; i++)
        if (sr_op_present(node, i))
            SR_TRY(sr_op_expect_equal(node, 0, i));
    if (statistics &&
        !(sr_op_present(node, node->inputs - 2) && sr_op_present(node, node->inputs - 1)))
        return SR_FAIL(SR_E_SHAPE, "%s: mean and var must be given", node->op->name);
    return sr_op_expect_channels(node, end);
}

// Also of two batch norms, of which the second one's statistics are given.
static sr_status train_relu_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_relu(node, 1, 2, node->op == &sr_op_batchnorm_train_pair_relu));
    out[0] = node->in[0];
    out[1] = out[2] = sr_op_channel_info(&node->in[0]);
    out[3] = sr_op_signs_info(&node->in[0]);
    return SR_OK;
}

static sr_status train_relu_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_train_relu);
}

const sr_op sr_op_batchnorm_train_relu = {
    SR_OP_HEAD,
    .name = "batchnorm_train_relu",
    .help = "max(batchnorm_train + z, 0), and where it is above 0",
    .inputs = 4,
    .input_name = {"x", "z", "gamma", "beta"},
    .required = 1,
    .outputs = 4,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = train_relu_infer,
    .lower = train_relu_lower,
    .in_place = SR_IN_PLACE(0, 0) | SR_IN_PLACE(0, 1),
    .again = &sr_op_batchnorm_infer_relu,
};

static sr_status train_pair_relu_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_train_pair_relu);
}

const sr_op sr_op_batchnorm_train_pair_relu = {
    SR_OP_HEAD,
    .name = "batchnorm_train_pair_relu",
    .help = "max(batchnorm_train + batchnorm_infer of z, 0), and where it is above 0",
    .inputs = 8,
    .input_name = {"x", "z", "gamma", "beta", "z_gamma", "z_beta", "z_mean", "z_var"},
    .required = 2,
    .outputs = 4,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = train_relu_infer,
    .lower = train_pair_relu_lower,
    .in_place = SR_IN_PLACE(0, 1),
};

static sr_status infer_relu_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_relu(node, 1, 2, true));
    out[0] = node->in[0];
    out[1] = sr_op_signs_info(&node->in[0]);
    return SR_OK;
}

static sr_status infer_relu_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_infer_relu);
}

const sr_op sr_op_batchnorm_infer_relu = {
    SR_OP_HEAD,
    .name = "batchnorm_infer_relu",
    .help = "max(batchnorm_infer + z, 0), and where it is above 0",
    .inputs = 6,
    .input_name = {"x", "z", "gamma", "beta", "mean", "var"},
    .required = 1,
    .outputs = 2,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = infer_relu_infer,
    .lower = infer_relu_lower,
    .in_place = SR_IN_PLACE(0, 0) | SR_IN_PLACE(0, 1),
};

static sr_status relu_grad_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_relu(node, 1, 2, true));
    out[0] = node->in[0];
    out[1] = out[2] = sr_op_channel_info(&node->in[0]);
    return SR_OK;
}

static sr_status relu_grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_relu_grad);
}

const sr_op sr_op_batchnorm_relu_grad = {
    SR_OP_HEAD,
    .name = "batchnorm_relu_grad",
    .help = "gradients of batchnorm_train_relu without z",
    .inputs = 6,
    .input_name = {"x", "dy", "gamma", "beta", "mean", "var"},
    .required = 2,
    .outputs = 3,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = relu_grad_infer,
    .lower = relu_grad_lower,
    .in_place = SR_IN_PLACE(0, 1),
};

static sr_status add_relu_grad_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_relu(node, 2, 4, true));
    const sr_info *signs = &node->in[1], want = sr_op_signs_info(&node->in[0]);
    if (signs->dtype != want.dtype || !sr_op_same_shape(signs, &want)) {
        char text[SR_INFO_TEXT], expected[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: signs are %s, expected %s", node->op->name,
                       sr_info_text(signs, text), sr_info_text(&want, expected));
    }
    out[0] = out[1] = node->in[0];
    out[2] = out[3] = sr_op_channel_info(&node->in[0]);
    return SR_OK;
}

static sr_status add_relu_grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_batchnorm_add_relu_grad);
}

const sr_op sr_op_batchnorm_add_relu_grad = {
    SR_OP_HEAD,
    .name = "batchnorm_add_relu_grad",
    .help = "dz = a + b where y > 0, else 0, and batchnorm_grad of it; signs: where y > 0",
    .inputs = 7,
    .input_name = {"x", "signs", "a", "b", "gamma", "mean", "var"},
    .required = 3,
    .outputs = 4,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .infer = add_relu_grad_infer,
    .lower = add_relu_grad_lower,
    .in_place = SR_IN_PLACE(0, 2) | SR_IN_PLACE(0, 3),
};

// ---- channel_dot: a, b, shift -> s ----

static sr_status dot_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *a = &node->in[0];
    SR_TRY(sr_op_expect_rows(node));
    SR_TRY(sr_op_expect_equal(node, 0, 1));
    SR_TRY(sr_op_expect_vector(node, 2, "shift", a->dtype, sr_op_channels(a)));
    out[0] = sr_op_channel_info(a);
    return SR_OK;
}

static sr_status dot_lower(const sr_node_view *node, sr_kernel_request *request) {
    const sr_rows_params p = {.rows = sr_op_rows(&node->in[0]),
                              .channels = sr_op_channels(&node->in[0])};
    return sr_op_lower(request, SR_KERNEL_channel_dot, &p, sizeof p);
}

// g (x - shift), channel by channel
static sr_tensor scaled(sr_context *context, const sr_node_view *node, sr_tensor x, sr_tensor shift,
                        sr_tensor g) {
    const sr_info *a = &node->in[0];
    const int64_t channels = sr_op_channels(a);
    const sr_tensor one = sr_op_constant(context, a->dtype, channels, 1.0);
    if (sr_is_none(shift))
        shift = sr_op_constant(context, a->dtype, channels, 0.0);
    return record_infer(x, g, SR_NONE, shift, one, 0.0);
}

static void dot_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    const sr_tensor a = node->input[0], b = node->input[1], g = grad_out[0];
    if (wanted[0])
        grad_in[0] = scaled(context, node, b, node->input[2], g);
    if (wanted[1])
        grad_in[1] = scaled(context, node, a, SR_NONE, g);
    if (wanted[2])
        grad_in[2] = sr_scale(sr_mul(g, sr_channel_sum(a)), -1.0, 0.0);
}

const sr_op sr_op_channel_dot = {
    SR_OP_HEAD,
    .name = "channel_dot",
    .help = "sum of a (b - shift) over all but the last dimension",
    .input_name = {"a", "b", "shift"},
    .inputs = 3,
    .required = 2,
    .outputs = 1,
    .infer = dot_infer,
    .lower = dot_lower,
    .derivative = dot_derivative,
    .keeps_inputs = 7u,
};

sr_tensor sr_channel_dot(sr_tensor a, sr_tensor b, sr_tensor shift) {
    return sr_op_record_one(&sr_op_channel_dot, NULL, (sr_tensor[]){a, b, shift});
}
