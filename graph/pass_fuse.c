// SPDX-License-Identifier: Apache-2.0
// Fusion: a value that one operator writes and one other reads never goes to memory, where one
// kernel computes both. With batchnorm for batchnorm_train or _infer:
//
//   relu(batchnorm(x))           -> batchnorm_relu(x)
//   relu(add(batchnorm(x), z))   -> batchnorm_relu(x, z)
//   batchnorm_train_relu(x, batchnorm_train(z))
//                                -> batchnorm_train_pair_relu(x, z), batchnorm_moments(z)
//   relu(add(a, b))              -> add_relu(a, b)
//   batchnorm_grad(x, relu_grad(y, dy)), y = batchnorm_relu(x)
//                                -> batchnorm_relu_grad(x, dy)
//   batchnorm_grad(x, relu_grad(y, [add(a, b) or] a)), y = batchnorm_relu(..)
//                                -> batchnorm_add_relu_grad(x, signs, a, b), which writes what
//                                   relu_grad does, too; signs: bits that batchnorm_relu writes
//                                   beside y then
//   relu_grad(y, add(a, b))      -> add_relu_grad(y, a, b)
//
// and normalisations over groups of channels with sums before or behind them (pass_fuse_norm.c),
// and then max pooling with what these are for batch norm (pass_fuse_pool.c).
//
// Such a kernel rounds where the two would write a value, or rounding commutes with what follows,
// so this is bit-neutral. Those of batch norm are made where they are in the numerics class of the
// batch norm that they replace. This pass is for devices that run launches one by one; on a CPU
// such operators run block by block, while the value is in the cache (pass_chain.c).
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/pass_fuse_internal.h"
#include "kernels/base/memory.h"

enum { FEW = 2 }; // uses; more do not matter

static void use(sr_fusion *f, uint32_t value) {
    if (value != SR_REF_NONE && f->uses[value] < FEW)
        f->uses[value]++;
}

static void count_uses(sr_fusion *f) {
    const sr_program *p = f->p;
    for (size_t i = 0; i < p->node_count; i++)
        for (int k = 0; k < p->nodes[i].op->inputs; k++)
            use(f, p->nodes[i].input[k]);
    for (size_t t = 0; t < p->target_count; t++)
        use(f, p->targets[t].value);
}

// The node that writes a value, if that is such a sum which exactly one node reads; otherwise NULL.
static sr_program_node *inner_sum(const sr_fusion *f, uint32_t value) {
    sr_program_node *sum = sr_fusion_inner(f, value);
    return sum && sr_fusion_is_sum(f, sum) ? sum : NULL;
}

// ---- Forward ----

// Makes a batch norm with ReLU normalise z, too, where that is the result of another one, of which
// the statistics remain.
static void join_second(sr_fusion *f, sr_program_node *norm) {
    const uint32_t z = norm->input[1];
    sr_program_node *second = z == SR_REF_NONE ? NULL : sr_fusion_inner(f, z);
    if (!second || second->op != &sr_op_batchnorm_train || second->output[0] != z ||
        memcmp(f->p->attrs + second->attr, f->p->attrs + norm->attr, norm->op->attr_size) != 0)
        return;
    const uint32_t *of = second->input, *statistics = second->output + 1;
    const sr_program_node moments = sr_moments_of(second, f->moments);
    sr_program_node pair = *norm;
    pair.op = &sr_op_batchnorm_train_pair_relu;
    const uint32_t inputs[] = {norm->input[0], of[0], norm->input[2], norm->input[3],
                               of[1],          of[2], statistics[0],  statistics[1]};
    memcpy(pair.input, inputs, sizeof inputs);
    if (sr_fusion_has_class_of(f, &pair, norm) && sr_fusion_has_class_of(f, &moments, second)) {
        *norm = pair;
        *second = moments;
    }
}

// Makes the batch norm that writes 'value', if one does, that kernel which adds z, if given, and
// has the result of 'relu'.
static bool join_batchnorm(sr_fusion *f, uint32_t value, uint32_t z, sr_program_node *relu) {
    sr_program_node *norm = sr_fusion_inner(f, value);
    const bool trains = norm && norm->op == &sr_op_batchnorm_train;
    if (!norm || !sr_fusion_is_before(f, z, norm) || norm->output[0] != value ||
        (!trains && norm->op != &sr_op_batchnorm_infer))
        return false;
    sr_program_node joined = *norm;
    joined.op = trains ? &sr_op_batchnorm_train_relu : &sr_op_batchnorm_infer_relu;
    joined.input[1] = z;
    for (int k = 1; k < norm->op->inputs; k++)
        joined.input[k + 1] = norm->input[k];
    joined.output[0] = relu->output[0];
    if (!sr_fusion_has_class_of(f, &joined, norm))
        return false;
    f->p->values[joined.output[0]].node = (uint32_t)(norm - f->p->nodes);
    *norm = joined;
    sr_fusion_remove(f, relu);
    if (trains)
        join_second(f, norm);
    return true;
}

static void take_terms(sr_program_node *node, int k, const sr_op *op, const sr_program_node *sum) {
    node->op = op;
    node->input[k] = sum->input[0];
    node->input[k + 1] = sum->input[1];
}

static void fuse_relu(sr_fusion *f, sr_program_node *relu) {
    const sr_program_node *sum = inner_sum(f, relu->input[0]);
    if (join_batchnorm(f, relu->input[0], SR_REF_NONE, relu) || !sum)
        return;
    if (!join_batchnorm(f, sum->input[0], sum->input[1], relu) &&
        !join_batchnorm(f, sum->input[1], sum->input[0], relu))
        take_terms(relu, 0, &sr_op_add_relu, sum);
    sr_fusion_remove(f, sum);
}

// ---- Backward ----

// The batch norm with ReLU that writes a value, or NULL.
static sr_program_node *norm_relu_of(const sr_fusion *f, uint32_t y) {
    const uint32_t writer = f->p->values[y].node;
    sr_program_node *n = writer == SR_REF_NONE ? NULL : &f->p->nodes[writer];
    return n && (n->op == &sr_op_batchnorm_train_relu ||
                 n->op == &sr_op_batchnorm_train_pair_relu || n->op == &sr_op_batchnorm_infer_relu)
               ? n
               : NULL;
}

// Makes a batch norm with ReLU write the signs of its y, its last output, if it does not yet; false
// if no kernel of its class can. There is room for one more value for each node.
static bool write_signs(sr_fusion *f, sr_program_node *norm) {
    sr_program *p = f->p;
    const int last = norm->op->outputs - 1;
    sr_program_node more = *norm;
    if (norm->output[last] != SR_REF_NONE)
        return true;
    more.output[last] = (uint32_t)p->value_count;
    p->values[p->value_count++] =
        (sr_program_value){.info = sr_op_signs_info(&p->values[norm->output[0]].info),
                           .node = (uint32_t)(norm - p->nodes)};
    if (!sr_fusion_has_class_of(f, &more, norm)) {
        p->value_count--;
        return false;
    }
    *norm = more;
    return true;
}

// The batch norm's gradient of dz that may take the place of the node before it.
static sr_program_node *gradient_of(const sr_fusion *f, uint32_t dz, const sr_program_node *place) {
    for (size_t j = (size_t)(place - f->p->nodes) + 1; j < f->p->node_count; j++) {
        sr_program_node *node = &f->p->nodes[j];
        if (node->op->updates)
            return NULL;
        if (f->gone[j] || node->op != &sr_op_batchnorm_grad || node->input[1] != dz)
            continue;
        bool there = true;
        for (int k = 0; k < node->op->inputs; k++)
            there &= k == 1 || sr_fusion_is_before(f, node->input[k], place);
        if (there)
            return node;
    }
    return NULL;
}

// Whether y is the batch norm of a gradient's x, with ReLU alone; *beta: its shift.
static bool is_plain(const sr_fusion *f, uint32_t y, const sr_program_node *gradient,
                     uint32_t *beta) {
    const sr_program_node *n = norm_relu_of(f, y);
    if (!n)
        return false;
    const bool trains = n->op == &sr_op_batchnorm_train_relu;
    const uint32_t *statistics = trains ? n->output + 1 : n->input + 4;
    *beta = n->input[3];
    return n->input[0] == gradient->input[0] && n->input[1] == SR_REF_NONE &&
           n->input[2] == gradient->input[2] && statistics[0] == gradient->input[3] &&
           statistics[1] == gradient->input[4] &&
           memcmp(f->p->attrs + n->attr, f->p->attrs + gradient->attr, n->op->attr_size) == 0;
}

// Puts the joined node, which writes the outputs of 'gradient' from output 'first' on, where 'relu'
// is.
static bool put_gradient(sr_fusion *f, sr_program_node *relu, sr_program_node *gradient,
                         sr_program_node *joined, int first) {
    joined->attr = gradient->attr;
    joined->recorded = gradient->recorded;
    for (int k = 0; k < gradient->op->outputs; k++)
        joined->output[first + k] = gradient->output[k];
    if (!sr_fusion_has_class_of(f, joined, gradient))
        return false;
    for (int k = first; k < joined->op->outputs; k++)
        f->p->values[joined->output[k]].node = (uint32_t)(relu - f->p->nodes);
    sr_fusion_remove(f, gradient);
    sr_fusion_note(f, relu);
    *relu = *joined;
    return true;
}

static bool join_gradient(sr_fusion *f, sr_program_node *relu, const sr_program_node *sum) {
    const uint32_t y = relu->input[0], dy = relu->input[1], dz = relu->output[0];
    sr_program_node *gradient = gradient_of(f, dz, relu);
    uint32_t beta;
    if (!gradient)
        return false;
    const uint32_t x = gradient->input[0], gamma = gradient->input[2];
    const uint32_t mean = gradient->input[3], var = gradient->input[4];
    if (sr_fusion_inner(f, dz) && is_plain(f, y, gradient, &beta)) {
        sr_program_node joined = {.op = &sr_op_batchnorm_relu_grad,
                                  .input = {x, dy, gamma, beta, mean, var}};
        return put_gradient(f, relu, gradient, &joined, 0);
    }
    sr_program_node *norm = norm_relu_of(f, y);
    if (!norm || !write_signs(f, norm))
        return false;
    sr_program_node joined = {.op = &sr_op_batchnorm_add_relu_grad,
                              .input = {x, norm->output[norm->op->outputs - 1],
                                        sum ? sum->input[0] : dy, sum ? sum->input[1] : SR_REF_NONE,
                                        gamma, mean, var},
                              .output = {dz}};
    if (!put_gradient(f, relu, gradient, &joined, 1))
        return false;
    if (sum)
        sr_fusion_remove(f, sum);
    return true;
}

static void fuse_relu_grad(sr_fusion *f, sr_program_node *relu) {
    const sr_program_node *sum = inner_sum(f, relu->input[1]);
    if (join_gradient(f, relu, sum) || !sum)
        return;
    take_terms(relu, 1, &sr_op_add_relu_grad, sum);
    sr_fusion_remove(f, sum);
}

// No node is moved across an update of a variable.
static void fuse(sr_fusion *f) {
    for (size_t i = 0; i < f->p->node_count && !f->p->nodes[i].op->updates; i++) {
        sr_program_node *node = &f->p->nodes[i];
        if (f->gone[i])
            continue;
        if (node->op == &sr_op_relu)
            fuse_relu(f, node);
        else if (node->op == &sr_op_relu_grad)
            fuse_relu_grad(f, node);
        else if (node->op == &sr_op_add)
            sr_fuse_sum_norm(f, node);
        else if (node->op == &sr_op_groupnorm_grad)
            sr_fuse_norm_sum(f, node);
    }
}

// Removes what nothing reads any more: a result of ReLU that was computed again for its gradient.
static void remove_unread(sr_fusion *f) {
    for (size_t i = 0; i < f->p->node_count; i++) {
        const sr_program_node *node = &f->p->nodes[i];
        bool is_read = node->op->updates != 0;
        for (int k = 0; k < node->op->outputs; k++)
            is_read |= node->output[k] != SR_REF_NONE &&
                       (f->uses[node->output[k]] > 0 || f->p->values[node->output[k]].kept);
        if (!is_read)
            sr_fusion_remove(f, node);
    }
}

static void fuse_pools(sr_fusion *f) {
    for (size_t i = 0; i < f->p->node_count && !f->p->nodes[i].op->updates; i++)
        if (!f->gone[i] && f->p->nodes[i].op == &sr_op_maxpool2d)
            sr_fuse_pool(f, &f->p->nodes[i]);
}

// Joins or removes nodes by one walk over those that there are.
static void walk_nodes(sr_fusion *f, void (*walk)(sr_fusion *f)) {
    memset(f->uses, 0, f->p->value_capacity);
    memset(f->gone, 0, f->p->node_count * sizeof *f->gone);
    count_uses(f);
    walk(f);
    sr_program_remove(f->p, f->gone);
}

// A value that is gone has no use, and so no memory; its node is the first one, to be a valid
// number.
void sr_program_remove(sr_program *p, const bool *gone) {
    size_t count = 0;
    for (size_t v = 0; v < p->value_count; v++)
        if (p->values[v].node != SR_REF_NONE)
            p->values[v].node = 0;
    for (size_t i = 0; i < p->node_count; i++) {
        if (gone[i])
            continue;
        p->nodes[count] = p->nodes[i];
        for (int k = 0; k < p->nodes[count].op->outputs; k++)
            if (p->nodes[count].output[k] != SR_REF_NONE)
                p->values[p->nodes[count].output[k]].node = (uint32_t)count;
        count++;
    }
    p->node_count = count;
}

sr_status sr_pass_fuse(const sr_context *context) {
    sr_program *p = context->recording.program;
    void *joined = p->joined, *values = p->values;
    SR_TRY(sr_grow(&joined, &p->joined_capacity, p->joined_count + 2 * p->node_count + 1,
                   sizeof *p->joined, "program"));
    p->joined = joined;
    SR_TRY(sr_grow(&values, &p->value_capacity, p->value_count + p->node_count + 1,
                   sizeof *p->values, "program"));
    p->values = values;
    uint32_t moments;
    SR_TRY(sr_add_moments_attr(p, &moments));
    sr_arena arena;
    sr_arena_init(&arena);
    sr_fusion f = {.context = context,
                   .p = p,
                   .moments = moments,
                   .uses = sr_arena_alloc(&arena, p->value_capacity),
                   .gone = sr_arena_alloc(&arena, (p->node_count + 1) * sizeof *f.gone)};
    const sr_status status = f.uses && f.gone ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK) {
        walk_nodes(&f, fuse);
        walk_nodes(&f, remove_unread);
        walk_nodes(&f, fuse_pools);
    }
    sr_arena_release(&arena);
    return status == SR_OK ? f.status : status;
}
