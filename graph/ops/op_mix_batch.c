// SPDX-License-Identifier: Apache-2.0
// mix_batch: mixup (Zhang et al. 2018) or CutMix (Yun et al. 2019) of a lane's samples with a
// permutation of them, drawn by counter as in dropout. Gradients end here: the samples are data,
// and nothing before the network's input is learnt.
#include "graph/ops/op_internal.h"

typedef struct mix_attr {
    double mixup, cutmix, probability;
    uint32_t scope, reserved;
} mix_attr;

static const sr_attr_field fields[] = {SR_ATTR(mix_attr, mixup, 0, 1e300),
                                       SR_ATTR(mix_attr, cutmix, 0, 1e300),
                                       SR_ATTR(mix_attr, probability, 0, 1),
                                       SR_ATTR(mix_attr, scope, 0, UINT32_MAX),
                                       {0}};

enum { X = 0, LABELS, KEY, INPUTS };

static sr_status check_attributes(const sr_node_view *node) {
    const mix_attr *a = node->attr;
    if (!(a->mixup >= 0.0 && a->cutmix >= 0.0))
        return SR_FAIL(SR_E_SHAPE, "%s: alpha %g of mixup and %g of cutmix must be at least 0",
                       node->op->name, a->mixup, a->cutmix);
    if (!(a->probability >= 0.0 && a->probability <= 1.0))
        return SR_FAIL(SR_E_SHAPE, "%s: probability %g must lie between 0 and 1", node->op->name,
                       a->probability);
    return SR_OK;
}

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[X], *labels = &node->in[LABELS], *key = &node->in[KEY];
    char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, X, "x", 4));
    if (labels->dtype != SR_I32 || labels->rank != 1 || labels->dim[0] != x->dim[0])
        return SR_FAIL(SR_E_SHAPE, "%s: labels %s must be i32 [%lld] to match %s", node->op->name,
                       sr_info_text(labels, left), (long long)x->dim[0], sr_info_text(x, right));
    if (key->dtype != SR_I32 || key->rank != 1 || key->dim[0] != 4)
        return SR_FAIL(SR_E_SHAPE, "%s: key %s must be i32 [4] (seed low, seed high, step, lane)",
                       node->op->name, sr_info_text(key, left));
    SR_TRY(check_attributes(node));
    out[0] = *x;
    out[1] = *labels;
    out[2] = sr_op_info(sr_op_parameter_dtype(x->dtype), 1, x->dim);
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    const mix_attr *a = node->attr;
    const int64_t *dim = node->in[X].dim;
    const sr_mix_params p = {.n = dim[0],
                             .h = dim[1],
                             .w = dim[2],
                             .c = dim[3],
                             .mixup = a->mixup,
                             .cutmix = a->cutmix,
                             .probability = a->probability,
                             .scope = a->scope};
    return sr_op_lower(request, SR_KERNEL_mix_batch, &p, sizeof p);
}

const sr_op sr_op_mix_batch = {
    SR_OP_HEAD,
    .name = "mix_batch",
    .help = "mixup or cutmix of a lane's samples with a permutation of them",
    .inputs = INPUTS,
    .input_name = {"x", "labels", "key"},
    .required = INPUTS,
    .outputs = 3,
    .attr_size = sizeof(mix_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .stops = 7u,
};

sr_mixed sr_mix_batch(sr_tensor x, sr_tensor labels, sr_tensor key, sr_mix_opts opts) {
    const mix_attr attr = {.mixup = opts.mixup,
                           .cutmix = opts.cutmix,
                           .probability = opts.probability,
                           .scope = opts.scope};
    sr_tensor out[3] = {SR_NONE, SR_NONE, SR_NONE};
    sr_op_record(&sr_op_mix_batch, &attr, (sr_tensor[]){x, labels, key}, out);
    return (sr_mixed){.x = out[0], .partner = out[1], .weight = out[2]};
}
