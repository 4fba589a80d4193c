// SPDX-License-Identifier: Apache-2.0
// Operators over a group of lanes, each of which has a part of the rows: lane_sum, and batch
// normalisation with the statistics of all of them.
//
// Batch normalisation of a group is batchnorm_moments, whose results are those of all lanes, and
// batchnorm_group, which applies them. The rule of batchnorm_group has the gradient of x that flows
// through the statistics, too: with the sums of all lanes it is that of batchnorm_train on all
// rows. The loss is the sum over lanes, so lane_sum is its own gradient.
#include "graph/ops/op_internal.h"

#define MOST_LANES 65536 // so that rows times lanes is an int64_t

typedef struct lanes_attr {
    int64_t lanes;
} lanes_attr;

typedef struct sums_attr {
    double eps;
} sums_attr;

typedef struct group_attr {
    double eps;
    int64_t lanes;
} group_attr;

static const sr_attr_field lanes_fields[] = {SR_ATTR(lanes_attr, lanes, 1, MOST_LANES), {0}};
static const sr_attr_field sums_fields[] = {SR_ATTR(sums_attr, eps, 0, 1e300), {0}};
static const sr_attr_field group_fields[] = {
    SR_ATTR(group_attr, eps, 0, 1e300), SR_ATTR(group_attr, lanes, 1, MOST_LANES), {0}};

static sr_status expect_lanes(const sr_node_view *node, int64_t lanes) {
    if (lanes < 1 || lanes > MOST_LANES)
        return SR_FAIL(SR_E_SHAPE, "%s: lanes %lld must be between 1 and %d", node->op->name,
                       (long long)lanes, MOST_LANES);
    return SR_OK;
}

static sr_status expect_group(const sr_node_view *node) {
    const group_attr *a = node->attr;
    SR_TRY(sr_op_expect_eps(node, a->eps));
    return expect_lanes(node, a->lanes);
}

// ---- lane_sum: x -> y ----

static sr_status sum_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[0];
    char text[SR_INFO_TEXT];
    if (x->dtype != SR_F32 && x->dtype != SR_F64)
        return SR_FAIL(SR_E_SHAPE, "%s: x %s must be f32 or f64 (sr_cast converts)", node->op->name,
                       sr_info_text(x, text));
    SR_TRY(expect_lanes(node, ((const lanes_attr *)node->attr)->lanes));
    out[0] = *x;
    return SR_OK;
}

// A copy: the sum of one lane.
static sr_status sum_lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_cast);
}

static void sum_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = sr_op_unary(&sr_op_lane_sum, node->attr, grad_out[0]);
}

const sr_op sr_op_lane_sum = {
    SR_OP_HEAD,
    .name = "lane_sum",
    .help = "sum of x over the lanes of a group",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(lanes_attr),
    .fields = lanes_fields,
    .infer = sum_infer,
    .lower = sum_lower,
    .derivative = sum_derivative,
    .join = SR_JOIN_SUM,
    .join_lanes = offsetof(lanes_attr, lanes),
};

sr_tensor sr_lane_sum(sr_tensor x, int64_t lanes) {
    const lanes_attr attr = {lanes};
    if (lanes == 1 && !sr_is_none(x))
        return x;
    return sr_op_unary(&sr_op_lane_sum, &attr, x);
}

// ---- batchnorm_moments: x -> mean, var ----

static sr_status moments_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_rows(node));
    SR_TRY(expect_lanes(node, ((const lanes_attr *)node->attr)->lanes));
    out[0] = out[1] = sr_op_channel_info(&node->in[0]);
    return SR_OK;
}

static sr_status moments_lower(const sr_node_view *node, sr_kernel_request *request) {
    const sr_rows_params p = {.rows = sr_op_rows(&node->in[0]),
                              .channels = sr_op_channels(&node->in[0])};
    return sr_op_lower(request, SR_KERNEL_batchnorm_moments, &p, sizeof p);
}

static void moments_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    const int64_t lanes = ((const lanes_attr *)node->attr)->lanes;
    sr_tensor sum[2] = {SR_NONE, SR_NONE};
    if (!wanted[0])
        return;
    for (int i = 0; i < 2; i++)
        if (!sr_is_none(grad_out[i]))
            sum[i] = sr_lane_sum(grad_out[i], lanes);
    const double rows = (double)sr_op_rows(&node->in[0]) * (double)lanes;
    grad_in[0] = sr_op_statistics_gradient(context, node, node->output[0], rows, sum[0], sum[1]);
}

const sr_op sr_op_batchnorm_moments = {
    SR_OP_HEAD,
    .name = "batchnorm_moments",
    .help = "mean and biased variance over all but the last dimension, of all lanes of a group",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 2,
    .attr_size = sizeof(lanes_attr),
    .fields = lanes_fields,
    .infer = moments_infer,
    .lower = moments_lower,
    .derivative = moments_derivative,
    .join = SR_JOIN_MOMENTS,
    .join_lanes = offsetof(lanes_attr, lanes),
    .keeps_inputs = 1u,
    .keeps_outputs = 1u, // mean
};

// ---- batchnorm_group: x, gamma, beta, mean, var -> y ----

static sr_status group_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_infer_normalized(node, out));
    return expect_group(node);
}

static sr_status lower(const sr_node_view *node, double eps, sr_kernel_request *request,
                       sr_kernel_id kernel) {
    const sr_batchnorm_params p = {
        .rows = sr_op_rows(&node->in[0]), .channels = sr_op_channels(&node->in[0]), .eps = eps};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_status group_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, ((const group_attr *)node->attr)->eps, request, SR_KERNEL_batchnorm_infer);
}

static void group_derivative(sr_context *context, const sr_node_view *node,
                             const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const group_attr *a = node->attr;
    const sums_attr sums = {a->eps};
    const sr_tensor x = node->input[0], gamma = node->input[1], mean = node->input[3],
                    var = node->input[4], dy = grad_out[0];
    sr_tensor own[2] = {SR_NONE, SR_NONE}; // dgamma and dbeta of this lane
    sr_op_record(&sr_op_batchnorm_sums, &sums, (sr_tensor[]){x, dy, mean, var}, own);
    if (wanted[0]) {
        const sr_tensor dgamma = sr_lane_sum(own[0], a->lanes);
        const sr_tensor dbeta = sr_lane_sum(own[1], a->lanes);
        grad_in[0] = sr_op_record_one(&sr_op_batchnorm_dx, a,
                                      (sr_tensor[]){x, dy, gamma, mean, var, dgamma, dbeta});
    }
    for (int i = 0; i < 2; i++)
        if (wanted[1 + i])
            grad_in[1 + i] = own[i];
}

const sr_op sr_op_batchnorm_group = {
    SR_OP_HEAD,
    .name = "batchnorm_group",
    .help = "batch normalisation of one lane with the statistics of its group",
    .inputs = 5,
    .input_name = {"x", "gamma", "beta", "mean", "var"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(group_attr),
    .fields = group_fields,
    .infer = group_infer,
    .lower = group_lower,
    .derivative = group_derivative,
    .keeps_inputs = 1u | 2u | 8u | 16u, // all but beta
    .stops = 8u | 16u, // mean and var: what flows through them is part of the gradient of x
    .in_place = SR_IN_PLACE(0, 0),
    .again = &sr_op_batchnorm_group,
    .once = true,
};

sr_batchnorm_out sr_batchnorm_group(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps,
                                    int64_t lanes) {
    const lanes_attr all = {lanes};
    const group_attr group = {eps, lanes};
    sr_tensor moments[2] = {SR_NONE, SR_NONE};
    sr_op_record(&sr_op_batchnorm_moments, &all, &x, moments);
    const sr_tensor y = sr_op_record_one(&sr_op_batchnorm_group, &group,
                                         (sr_tensor[]){x, gamma, beta, moments[0], moments[1]});
    return (sr_batchnorm_out){.y = y, .mean = moments[0], .var = moments[1]};
}

// ---- batchnorm_sums: x, dy, mean, var -> dgamma, dbeta ----

static sr_status sums_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_rows(node));
    SR_TRY(sr_op_expect_equal(node, 0, 1));
    SR_TRY(sr_op_expect_channels(node, 2));
    out[0] = out[1] = sr_op_channel_info(&node->in[0]);
    return sr_op_expect_eps(node, ((const sums_attr *)node->attr)->eps);
}

static sr_status sums_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, ((const sums_attr *)node->attr)->eps, request, SR_KERNEL_batchnorm_sums);
}

const sr_op sr_op_batchnorm_sums = {
    SR_OP_HEAD,
    .name = "batchnorm_sums",
    .help = "gradients of gamma and beta of batchnorm_group, of one lane",
    .inputs = 4,
    .input_name = {"x", "dy", "mean", "var"},
    .required = 4,
    .outputs = 2,
    .attr_size = sizeof(sums_attr),
    .fields = sums_fields,
    .infer = sums_infer,
    .lower = sums_lower,
};

// ---- batchnorm_dx: x, dy, gamma, mean, var, dgamma, dbeta -> dx ----

static sr_status dx_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_rows(node));
    SR_TRY(sr_op_expect_equal(node, 0, 1));
    for (int i = 3; i < node->inputs; i++)
        if (!sr_op_present(node, i))
            return SR_FAIL(SR_E_SHAPE, "%s: %s must be given", node->op->name,
                           node->op->input_name[i]);
    SR_TRY(sr_op_expect_channels(node, 2));
    out[0] = node->in[0];
    return expect_group(node);
}

static sr_status dx_lower(const sr_node_view *node, sr_kernel_request *request) {
    const group_attr *a = node->attr;
    const int64_t rows = sr_op_rows(&node->in[0]);
    const sr_batchnorm_dx_params p = {.rows = rows,
                                      .channels = sr_op_channels(&node->in[0]),
                                      .eps = a->eps,
                                      .count = rows * a->lanes};
    return sr_op_lower(request, SR_KERNEL_batchnorm_dx, &p, sizeof p);
}

const sr_op sr_op_batchnorm_dx = {
    SR_OP_HEAD,
    .name = "batchnorm_dx",
    .help = "gradient of x of batchnorm_group, with dgamma and dbeta of all lanes",
    .inputs = 7,
    .input_name = {"x", "dy", "gamma", "mean", "var", "dgamma", "dbeta"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(group_attr),
    .fields = group_fields,
    .infer = dx_infer,
    .lower = dx_lower,
    .in_place = SR_IN_PLACE(0, 1),
};
