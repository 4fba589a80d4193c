// SPDX-License-Identifier: Apache-2.0
// Normalisation over groups of neighbouring channels: layer norm (Ba et al. 2016), group norm (Wu &
// He 2018), instance norm (Ulyanov et al. 2016) and RMSNorm (Zhang & Sennrich 2019) are one
// operator: a sample is an entry of the first dimension with its pixels, or each row is a sample.
#include "graph/ops/op_internal.h"

typedef struct groupnorm_attr {
    double eps;
    int32_t groups;
    int32_t of_rows;   // 1: each row is a sample
    int32_t uncentred; // 1: the mean is taken as 0
    int32_t reserved;
} groupnorm_attr;

#define NORM_FIELDS                                                                                \
    SR_ATTR(groupnorm_attr, eps, 0, 1e300), SR_ATTR(groupnorm_attr, groups, 1, SR_ATTR_EXTENT),    \
        SR_ATTR(groupnorm_attr, of_rows, 0, SR_ATTR_FLAG),                                         \
        SR_ATTR(groupnorm_attr, uncentred, 0, SR_ATTR_FLAG)
static const sr_attr_field fields[] = {NORM_FIELDS, {0}};

static sr_groupnorm_params params_of(const sr_node_view *node) {
    const groupnorm_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    const int64_t rows = sr_op_rows(x), samples = a->of_rows ? rows : x->dim[0];
    return (sr_groupnorm_params){.samples = samples,
                                 .pixels = rows / samples,
                                 .channels = sr_op_channels(x),
                                 .groups = a->groups,
                                 .eps = a->eps,
                                 .uncentred = a->uncentred};
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel) {
    const sr_groupnorm_params p = params_of(node);
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_status expect_groups(const sr_node_view *node) {
    const groupnorm_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    const int least = a->of_rows ? 1 : 2;
    char text[SR_INFO_TEXT];
    const char *name = node->op->input_name[0];
    SR_TRY(sr_op_expect_activation(node, 0, name, -1));
    if (x->rank < least)
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s needs at least %d dimensions", node->op->name, name,
                       sr_info_text(x, text), least);
    if (a->groups < 1 || sr_op_channels(x) % a->groups != 0)
        return SR_FAIL(SR_E_SHAPE,
                       "%s: the last dimension of %s %s must be a multiple of groups %d",
                       node->op->name, name, sr_info_text(x, text), (int)a->groups);
    if (!(a->eps >= 0.0))
        return SR_FAIL(SR_E_SHAPE, "%s: eps %g must be at least 0", node->op->name, a->eps);
    return SR_OK;
}

// The dtype and shape of a mean for each group of each sample.
static sr_info statistic_of(const sr_node_view *node) {
    const sr_groupnorm_params p = params_of(node);
    return sr_op_info(sr_op_parameter_dtype(node->in[0].dtype), 2,
                      (const int64_t[]){p.samples, p.groups});
}

static sr_status expect_channels(const sr_node_view *node, int input) {
    const sr_info *x = &node->in[0];
    return sr_op_expect_vector(node, input, node->op->input_name[input], x->dtype,
                               sr_op_channels(x));
}

// ---- groupnorm: x, gamma, beta -> y, mean, rstd ----

static sr_status groups_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(expect_groups(node));
    SR_TRY(expect_channels(node, 1));
    SR_TRY(expect_channels(node, 2));
    out[0] = node->in[0];
    out[1] = out[2] = statistic_of(node);
    return SR_OK;
}

static sr_status groups_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_groupnorm);
}

static void groups_derivative(sr_context *context, const sr_node_view *node,
                              const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    const sr_tensor inputs[] = {node->input[0], grad_out[0], node->input[1], node->output[1],
                                node->output[2]};
    sr_tensor grads[3];
    (void)context;
    sr_op_record(&sr_op_groupnorm_grad, node->attr, inputs, grads);
    for (int i = 0; i < 3; i++)
        if (wanted[i])
            grad_in[i] = grads[i];
}

const sr_op sr_op_groupnorm = {
    SR_OP_HEAD,
    .name = "groupnorm",
    .help = "normalisation over groups of channels of each sample, or of each row",
    .inputs = 3,
    .input_name = {"x", "gamma", "beta"},
    .required = 1,
    .outputs = 3,
    .attr_size = sizeof(groupnorm_attr),
    .fields = fields,
    .infer = groups_infer,
    .lower = groups_lower,
    .derivative = groups_derivative,
    .keeps_inputs = 3u,  // x, gamma
    .keeps_outputs = 6u, // mean, rstd
    .hidden = 6u,
    .in_place = SR_IN_PLACE(0, 0),
    .once = true,
};

// ---- groupnorm_grad: x, dy, gamma, mean, rstd -> dx, dgamma, dbeta ----

// Inputs before 'gamma' have x's shape; mean and rstd are behind it.
static sr_status infer_gradients(const sr_node_view *node, int gamma, sr_info *out) {
    SR_TRY(expect_groups(node));
    for (int i = 1; i < gamma; i++)
        SR_TRY(sr_op_expect_equal(node, 0, i));
    SR_TRY(expect_channels(node, gamma));
    const sr_info *x = &node->in[0], statistic = statistic_of(node);
    for (int i = gamma + 1; i < gamma + 3; i++)
        SR_TRY(sr_op_expect_parameter(node, i, node->op->input_name[i], x->dtype, statistic.rank,
                                      statistic.dim));
    const int64_t channels = sr_op_channels(x);
    out[0] = *x;
    out[1] = out[2] = sr_op_info(sr_op_parameter_dtype(x->dtype), 1, &channels);
    return SR_OK;
}

static sr_status grad_infer(const sr_node_view *node, sr_info *out) {
    return infer_gradients(node, 2, out);
}

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_groupnorm_grad);
}

const sr_op sr_op_groupnorm_grad = {
    SR_OP_HEAD,
    .name = "groupnorm_grad",
    .help = "gradients of groupnorm",
    .inputs = 5,
    .input_name = {"x", "dy", "gamma", "mean", "rstd"},
    .required = 2,
    .outputs = 3,
    .attr_size = sizeof(groupnorm_attr),
    .fields = fields,
    .infer = grad_infer,
    .lower = grad_lower,
    .in_place = SR_IN_PLACE(0, 1),
};

// ---- groupnorm_add_grad: x, dy, z, gamma, mean, rstd -> dx, dgamma, dbeta ----

static sr_status add_grad_infer(const sr_node_view *node, sr_info *out) {
    return infer_gradients(node, 3, out);
}

static sr_status add_grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_groupnorm_add_grad);
}

const sr_op sr_op_groupnorm_add_grad = {
    SR_OP_HEAD,
    .name = "groupnorm_add_grad",
    .help = "gradients of groupnorm, and z added to that of x",
    .inputs = 6,
    .input_name = {"x", "dy", "z", "gamma", "mean", "rstd"},
    .required = 3,
    .outputs = 3,
    .attr_size = sizeof(groupnorm_attr),
    .fields = fields,
    .infer = add_grad_infer,
    .lower = add_grad_lower,
    .in_place = SR_IN_PLACE(0, 1) | SR_IN_PLACE(0, 2),
};

// ---- add_groupnorm: a, b, key, gamma, beta -> s, y, mean, rstd ----

typedef struct add_groupnorm_attr {
    groupnorm_attr norm; // the first member, for functions of groupnorm
    sr_op_dropout_attr drop;
} add_groupnorm_attr;

static const sr_attr_field add_fields[] = {
    NORM_FIELDS,
    {.name = "probability",
     .type = SR_ATTR_F64,
     .offset = offsetof(add_groupnorm_attr, drop.probability),
     .count = 1,
     .low = 0,
     .high = 1},
    {.name = "scope",
     .type = SR_ATTR_U32,
     .offset = offsetof(add_groupnorm_attr, drop.scope),
     .count = 1,
     .low = 0,
     .high = UINT32_MAX},
    {0}};

enum { KEY = 2 }; // input

void sr_op_join_groupnorm(const void *norm, const void *drop, void *out) {
    add_groupnorm_attr *a = out;
    *a = (add_groupnorm_attr){.norm = *(const groupnorm_attr *)norm};
    if (drop)
        a->drop = *(const sr_op_dropout_attr *)drop;
}

static sr_status add_infer(const sr_node_view *node, sr_info *out) {
    const add_groupnorm_attr *a = node->attr;
    char text[SR_INFO_TEXT];
    SR_TRY(expect_groups(node));
    SR_TRY(sr_op_expect_equal(node, 0, 1));
    if (sr_op_present(node, KEY)) {
        SR_TRY(sr_op_expect_draws(node, KEY, a->drop.probability));
        if (node->in[0].rank < 2)
            return SR_FAIL(SR_E_SHAPE, "%s: a %s must have a dimension of samples", node->op->name,
                           sr_info_text(&node->in[0], text));
    }
    SR_TRY(expect_channels(node, 3));
    SR_TRY(expect_channels(node, 4));
    out[0] = out[1] = node->in[0];
    out[2] = out[3] = statistic_of(node);
    return SR_OK;
}

static sr_status add_lower(const sr_node_view *node, sr_kernel_request *request) {
    const add_groupnorm_attr *a = node->attr;
    sr_add_groupnorm_params p = {.norm = params_of(node)};
    if (sr_op_present(node, KEY)) {
        p.drop_rows = sr_op_rows(&node->in[0]) / node->in[0].dim[0];
        p.probability = a->drop.probability;
        p.scope = a->drop.scope;
    }
    return sr_op_lower(request, SR_KERNEL_add_groupnorm, &p, sizeof p);
}

const sr_op sr_op_add_groupnorm = {
    SR_OP_HEAD,
    .name = "add_groupnorm",
    .help = "a + b, or a + drop_path(b), and groupnorm of it",
    .inputs = 5,
    .input_name = {"a", "b", "key", "gamma", "beta"},
    .required = 2,
    .outputs = 4,
    .attr_size = sizeof(add_groupnorm_attr),
    .fields = add_fields,
    .infer = add_infer,
    .lower = add_lower,
    .in_place = SR_IN_PLACE(0, 0) | SR_IN_PLACE(0, 1),
};

// ---- Calls ----

static sr_tensor record(const groupnorm_attr *attr, sr_tensor x, sr_tensor gamma, sr_tensor beta) {
    sr_tensor out[3] = {SR_NONE, SR_NONE, SR_NONE};
    sr_op_record(&sr_op_groupnorm, attr, (sr_tensor[]){x, gamma, beta}, out);
    return out[0];
}

sr_tensor sr_layer_norm(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps) {
    const groupnorm_attr attr = {.eps = eps, .groups = 1, .of_rows = 1};
    return record(&attr, x, gamma, beta);
}

sr_tensor sr_rms_norm(sr_tensor x, sr_tensor gamma, double eps) {
    const groupnorm_attr attr = {.eps = eps, .groups = 1, .of_rows = 1, .uncentred = 1};
    return record(&attr, x, gamma, SR_NONE);
}

sr_tensor sr_group_norm(sr_tensor x, int groups, sr_tensor gamma, sr_tensor beta, double eps) {
    const groupnorm_attr attr = {.eps = eps, .groups = groups};
    return record(&attr, x, gamma, beta);
}

sr_tensor sr_instance_norm(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps) {
    sr_info info;
    if (!sr_op_argument(x, "instance_norm: x", &info))
        return sr_op_failed();
    const groupnorm_attr attr = {.eps = eps, .groups = (int32_t)sr_op_channels(&info)};
    return record(&attr, x, gamma, beta);
}
