// SPDX-License-Identifier: Apache-2.0
// What joining operators asks of a program, and what it leaves (pass_fuse_internal.h).
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/pass_fuse_internal.h"
#include "kernels/base/memory.h"

sr_program_node *sr_fusion_inner(const sr_fusion *f, uint32_t value) {
    const sr_program_value *v = &f->p->values[value];
    return v->node == SR_REF_NONE || v->kept || f->uses[value] != 1 ? NULL : &f->p->nodes[v->node];
}

bool sr_fusion_is_sum(const sr_fusion *f, const sr_program_node *node) {
    const sr_program_value *values = f->p->values;
    return node->op == &sr_op_add &&
           sr_op_same_shape(&values[node->input[0]].info, &values[node->output[0]].info) &&
           sr_op_same_shape(&values[node->input[1]].info, &values[node->output[0]].info);
}

bool sr_fusion_is_before(const sr_fusion *f, uint32_t value, const sr_program_node *node) {
    const uint32_t writer = value == SR_REF_NONE ? SR_REF_NONE : f->p->values[value].node;
    return writer == SR_REF_NONE || writer < node - f->p->nodes;
}

bool sr_fusion_has_class_of(const sr_fusion *f, const sr_program_node *node,
                            const sr_program_node *of) {
    const sr_kernel_entry *entry[2];
    const sr_program_node *const nodes[2] = {node, of};
    for (int i = 0; i < 2; i++) {
        sr_view_arrays arrays = {0};
        sr_node_view view;
        sr_kernel_request request;
        if (sr_node_request(f->context, nodes[i], &arrays, &view, &request) != SR_OK)
            return false;
        entry[i] = sr_kernel_find(&request);
    }
    return entry[0] && entry[1] && strcmp(entry[0]->numerics_class, entry[1]->numerics_class) == 0;
}

sr_program_node sr_moments_of(const sr_program_node *norm, uint32_t attr) {
    sr_program_node moments = *norm;
    moments.op = &sr_op_batchnorm_moments;
    moments.attr = attr;
    moments.output[0] = norm->output[1];
    moments.output[1] = norm->output[2];
    return moments;
}

sr_status sr_program_add_attrs(sr_program *p, size_t bytes, uint32_t *attr) {
    void *attrs = p->attrs;
    SR_TRY(sr_grow(&attrs, &p->attr_capacity, p->attr_count + bytes, 1, "program"));
    p->attrs = attrs;
    *attr = (uint32_t)p->attr_count;
    memset(p->attrs + p->attr_count, 0, bytes);
    p->attr_count += bytes;
    return SR_OK;
}

sr_status sr_add_moments_attr(sr_program *p, uint32_t *attr) {
    const int64_t lanes = 1;
    SR_TRY(sr_program_add_attrs(p, sizeof lanes, attr));
    memcpy(p->attrs + *attr, &lanes, sizeof lanes);
    return SR_OK;
}

// There is room for each node once, and once more.
void sr_fusion_note(sr_fusion *f, const sr_program_node *node) {
    f->p->joined[f->p->joined_count++] = node->recorded;
}

void sr_fusion_remove(sr_fusion *f, const sr_program_node *node) {
    f->gone[node - f->p->nodes] = true;
    sr_fusion_note(f, node);
}
