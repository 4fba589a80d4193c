// SPDX-License-Identifier: Apache-2.0
// random_normal: standard normal draws by counter (Salmon et al. 2011), a function of key, scope
// and element alone. Gradients end here.
#include "graph/ops/op_internal.h"

typedef struct random_attr {
    int64_t dim[SR_MAX_RANK];
    int32_t rank, dtype;
    uint32_t scope, reserved;
} random_attr;

static const sr_attr_field fields[] = {SR_ATTR_ARRAY(random_attr, dim, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(random_attr, rank, 0, SR_MAX_RANK),
                                       SR_ATTR_TYPE(random_attr, dtype),
                                       SR_ATTR(random_attr, scope, 0, UINT32_MAX),
                                       {0}};

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const random_attr *a = node->attr;
    const sr_info *key = &node->in[0];
    char text[SR_INFO_TEXT];
    if (key->dtype != SR_I32 || key->rank != 1 || key->dim[0] != 4)
        return SR_FAIL(SR_E_SHAPE, "%s: key %s must be i32 [4] (seed low, seed high, step, lane)",
                       node->op->name, sr_info_text(key, text));
    if (!sr_dtype_is_float((sr_dtype)a->dtype) || a->rank < 0 || a->rank > SR_MAX_RANK)
        return SR_FAIL(SR_E_SHAPE, "%s: draws are floats of at most %d dimensions", node->op->name,
                       SR_MAX_RANK);
    out[0] = sr_op_info((sr_dtype)a->dtype, a->rank, a->dim);
    if (sr_info_count(&out[0]) < 1)
        return SR_FAIL(SR_E_SHAPE, "%s: %s has no elements", node->op->name,
                       sr_info_text(&out[0], text));
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    const random_attr *a = node->attr;
    const sr_dropout_params p = {.count = sr_info_count(&node->out[0]), .scope = a->scope};
    return sr_op_lower(request, SR_KERNEL_random_normal, &p, sizeof p);
}

const sr_op sr_op_random_normal = {
    SR_OP_HEAD,
    .name = "random_normal",
    .help = "standard normal draws, a function of key, scope and element",
    .inputs = 1,
    .input_name = {"key"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(random_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .stops = 1u,
};

sr_tensor sr_random_normal(sr_tensor key, sr_dtype dtype, int rank, const int64_t *dim,
                           uint32_t scope) {
    random_attr attr = {.rank = rank, .dtype = (int32_t)dtype, .scope = scope};
    for (int i = 0; i < rank && i < SR_MAX_RANK; i++)
        attr.dim[i] = dim[i];
    return sr_op_unary(&sr_op_random_normal, &attr, key);
}
