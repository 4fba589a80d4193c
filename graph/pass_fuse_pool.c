// SPDX-License-Identifier: Apache-2.0
// Fusion (pass_fuse.c) of batch norm with ReLU and the max pooling that alone reads it, as in the
// first layers of ResNet, whose largest tensor is then never in memory:
//
//   maxpool2d(batchnorm_infer_relu(x)) -> batchnorm_infer_relu_maxpool(x)
//   maxpool2d(batchnorm_train_relu(x)) -> batchnorm_train_relu_maxpool(x)
//   batchnorm_relu_grad(x, maxpool2d_grad(dy, index))
//                                      -> batchnorm_relu_maxpool_grad(x, dy, index)
//
// The last two together or not at all. The kernels have the bits of those that they replace, in one
// class. They are used where the device has them in another class than "reference", as in
// pass_prologue.c: there they would only put the tensor into the workspace.
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/pass_fuse_internal.h"

// The node of this operator that alone reads a value, by its input k; otherwise NULL.
static sr_program_node *reader_of(const sr_fusion *f, uint32_t value, const sr_op *op, int k) {
    if (!sr_fusion_inner(f, value))
        return NULL;
    for (size_t i = f->p->values[value].node + 1; i < f->p->node_count; i++) {
        sr_program_node *node = &f->p->nodes[i];
        if (node->op == op && node->input[k] == value)
            return node;
    }
    return NULL;
}

// Whether a gradient is that of this batch norm in training.
static bool is_gradient_of(const sr_fusion *f, const sr_program_node *gradient,
                           const sr_program_node *norm) {
    const uint32_t inputs[] = {norm->input[0], gradient->input[1], norm->input[2],
                               norm->input[3], norm->output[1],    norm->output[2]};
    return memcmp(gradient->input, inputs, sizeof inputs) == 0 &&
           memcmp(f->p->attrs + gradient->attr, f->p->attrs + norm->attr, norm->op->attr_size) == 0;
}

// The attributes of the joined operators; false without memory.
static bool add_attributes(sr_fusion *f, const sr_program_node *norm, const sr_program_node *pool,
                           sr_program_node *joined) {
    sr_program *p = f->p;
    f->status = sr_program_add_attrs(p, sr_attr_room(joined->op), &joined->attr);
    if (f->status == SR_OK)
        sr_op_join_maxpool(p->attrs + norm->attr, p->attrs + pool->attr, p->attrs + joined->attr);
    return f->status == SR_OK;
}

// Puts a joined node where one was that it replaces, beside 'other'.
static void put(sr_fusion *f, const sr_program_node *joined, sr_program_node *place,
                const sr_program_node *other) {
    for (int k = 0; k < joined->op->outputs; k++)
        f->p->values[joined->output[k]].node = (uint32_t)(place - f->p->nodes);
    sr_fusion_remove(f, other);
    *place = *joined;
}

// Whether a joined node has such a kernel, of the class of what it replaces.
static bool is_taken(const sr_fusion *f, const sr_program_node *joined, const sr_program_node *of) {
    sr_view_arrays arrays = {0};
    sr_node_view view;
    sr_kernel_request request;
    return sr_fusion_has_class_of(f, joined, of) &&
           sr_node_request(f->context, joined, &arrays, &view, &request) == SR_OK &&
           f->context->takes_prologue(&request);
}

static void join_infer(sr_fusion *f, const sr_program_node *pool, sr_program_node *norm) {
    const uint32_t *in = norm->input;
    sr_program_node joined = *norm;
    joined.op = &sr_op_batchnorm_infer_relu_maxpool;
    memcpy(joined.input, (const uint32_t[]){in[0], in[2], in[3], in[4], in[5]},
           5 * sizeof *joined.input);
    joined.output[0] = pool->output[0];
    const size_t attributes = f->p->attr_count;
    if (!add_attributes(f, norm, pool, &joined))
        return;
    if (is_taken(f, &joined, norm))
        put(f, &joined, norm, pool);
    else
        f->p->attr_count = attributes;
}

static void join_train(sr_fusion *f, const sr_program_node *pool, sr_program_node *norm) {
    const sr_program_node *unpool = reader_of(f, pool->output[1], &sr_op_maxpool2d_grad, 1);
    sr_program_node *gradient =
        unpool ? reader_of(f, unpool->output[0], &sr_op_batchnorm_relu_grad, 1) : NULL;
    if (!gradient || !is_gradient_of(f, gradient, norm))
        return;
    const uint32_t *in = norm->input, *out = norm->output;
    sr_program_node forward = *norm, backward = *gradient;
    forward.op = &sr_op_batchnorm_train_relu_maxpool;
    memcpy(forward.input, (const uint32_t[]){in[0], in[2], in[3]}, 3 * sizeof *forward.input);
    memcpy(forward.output, (const uint32_t[]){pool->output[0], out[1], out[2], pool->output[1]},
           4 * sizeof *forward.output);
    backward.op = &sr_op_batchnorm_relu_maxpool_grad;
    memcpy(
        backward.input,
        (const uint32_t[]){in[0], unpool->input[0], pool->output[1], in[2], in[3], out[1], out[2]},
        7 * sizeof *backward.input);
    const size_t attributes = f->p->attr_count;
    if (!add_attributes(f, norm, pool, &forward))
        return;
    backward.attr = forward.attr;
    if (!is_taken(f, &forward, norm) || !is_taken(f, &backward, gradient)) {
        f->p->attr_count = attributes;
        return;
    }
    put(f, &forward, norm, pool);
    put(f, &backward, gradient, unpool);
}

// A batch norm that adds a tensor, or whose signs are wanted, keeps its y.
void sr_fuse_pool(sr_fusion *f, const sr_program_node *pool) {
    const uint32_t y = pool->input[0];
    sr_program_node *norm = sr_fusion_inner(f, y);
    if (!norm || norm->output[0] != y || norm->input[1] != SR_REF_NONE ||
        f->p->values[pool->output[1]].kept)
        return;
    const bool indexed = f->uses[pool->output[1]] > 0;
    if (norm->op == &sr_op_batchnorm_infer_relu && norm->output[1] == SR_REF_NONE && !indexed)
        join_infer(f, pool, norm);
    else if (norm->op == &sr_op_batchnorm_train_relu && norm->output[3] == SR_REF_NONE)
        join_train(f, pool, norm);
}
