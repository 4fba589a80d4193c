// SPDX-License-Identifier: Apache-2.0
// Fusion (pass_fuse.c) of normalisations over groups of channels, layer norm among them, with the
// sums of residual networks:
//
//   groupnorm(add(a, b))               -> add_groupnorm(a, b), which writes the sum, too
//   groupnorm(add(a, drop_path(b)))    -> add_groupnorm(a, b, key)
//   add(groupnorm_grad(x, dy), z)      -> groupnorm_add_grad(x, dy, z)
//
// The joined node is where the first of both was, so what the other one reads must be there.

#include "graph/ops/op_internal.h"
#include "graph/pass_fuse_internal.h"

// The first node behind 'place' that reads a value, if that is of this operator and no variable is
// updated before it; otherwise NULL. A later reader is left alone: what it writes would be alive
// for longer.
static sr_program_node *reader_of(const sr_fusion *f, uint32_t value, const sr_op *op,
                                  const sr_program_node *place) {
    for (size_t j = (size_t)(place - f->p->nodes) + 1; j < f->p->node_count; j++) {
        sr_program_node *node = &f->p->nodes[j];
        if (node->op->updates)
            return NULL;
        for (int k = 0; !f->gone[j] && k < node->op->inputs; k++)
            if (node->input[k] == value)
                return node->op == op ? node : NULL;
    }
    return NULL;
}

// ---- Forward ----

// The attributes of the joined operator; false without memory.
static bool add_attributes(sr_fusion *f, const sr_program_node *norm, const sr_program_node *drop,
                           sr_program_node *joined) {
    sr_program *p = f->p;
    f->status = sr_program_add_attrs(p, sr_attr_room(joined->op), &joined->attr);
    if (f->status == SR_OK)
        sr_op_join_groupnorm(p->attrs + norm->attr, drop ? p->attrs + drop->attr : NULL,
                             p->attrs + joined->attr);
    return f->status == SR_OK;
}

// Joins sum and norm, and the drop_path that writes term 'dropped' of the sum, if that is not -1.
static bool join(sr_fusion *f, sr_program_node *sum, const sr_program_node *norm, int dropped) {
    const sr_program_node *drop = dropped < 0 ? NULL : sr_fusion_inner(f, sum->input[dropped]);
    sr_program_node joined = *sum;
    joined.op = &sr_op_add_groupnorm;
    joined.input[2] = SR_REF_NONE;
    if (drop) {
        joined.input[0] = sum->input[1 - dropped];
        joined.input[1] = drop->input[0];
        joined.input[2] = drop->input[1];
    }
    for (int k = 1; k < norm->op->inputs; k++)
        joined.input[2 + k] = norm->input[k];
    for (int k = 0; k < norm->op->outputs; k++)
        joined.output[1 + k] = norm->output[k];
    const size_t attributes = f->p->attr_count;
    if (!add_attributes(f, norm, drop, &joined))
        return false;
    if (!sr_fusion_has_class_of(f, &joined, norm)) {
        f->p->attr_count = attributes;
        return false;
    }
    for (int k = 1; k < joined.op->outputs; k++)
        f->p->values[joined.output[k]].node = (uint32_t)(sum - f->p->nodes);
    if (drop)
        sr_fusion_remove(f, drop);
    sr_fusion_remove(f, norm);
    *sum = joined;
    return true;
}

// Whether drop_path writes a term of a sum, which nothing else reads; its samples have whole rows.
static bool is_dropped(const sr_fusion *f, const sr_program_node *sum, int term) {
    const sr_program_node *node = sr_fusion_inner(f, sum->input[term]);
    return node && node->op == &sr_op_drop_path && f->p->values[node->input[0]].info.rank > 1;
}

void sr_fuse_sum_norm(sr_fusion *f, sr_program_node *sum) {
    const uint32_t s = sum->output[0];
    const sr_program_node *norm =
        sr_fusion_is_sum(f, sum) ? reader_of(f, s, &sr_op_groupnorm, sum) : NULL;
    if (!norm || norm->input[0] != s || !sr_fusion_is_before(f, norm->input[1], sum) ||
        !sr_fusion_is_before(f, norm->input[2], sum))
        return;
    for (int term = 1; term >= 0; term--)
        if (is_dropped(f, sum, term) && join(f, sum, norm, term))
            return;
    (void)join(f, sum, norm, -1);
}

// ---- Backward ----

void sr_fuse_norm_sum(sr_fusion *f, sr_program_node *gradient) {
    const uint32_t dx = gradient->output[0];
    const sr_program_node *sum =
        sr_fusion_inner(f, dx) ? reader_of(f, dx, &sr_op_add, gradient) : NULL;
    if (!sum || !sr_fusion_is_sum(f, sum))
        return;
    const uint32_t z = sum->input[sum->input[0] == dx ? 1 : 0];
    if (!sr_fusion_is_before(f, z, gradient))
        return;
    sr_program_node joined = *gradient;
    joined.op = &sr_op_groupnorm_add_grad;
    joined.input[2] = z;
    for (int k = 2; k < gradient->op->inputs; k++)
        joined.input[k + 1] = gradient->input[k];
    joined.output[0] = sum->output[0];
    if (!sr_fusion_has_class_of(f, &joined, gradient))
        return;
    f->p->values[joined.output[0]].node = (uint32_t)(gradient - f->p->nodes);
    sr_fusion_remove(f, sum);
    *gradient = joined;
}
