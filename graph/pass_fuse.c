// SPDX-License-Identifier: Apache-2.0
// Fusion: a value that one operator writes and one other reads never goes to memory, where a
// formula computes both at once.
//
//   relu(add(a, b))             -> add_relu(a, b)
//   relu_grad(y, add(a, b))     -> add_relu_grad(y, a, b)
//
// Rounding commutes with what follows, so this is bit-neutral. It is for devices that run launches
// one by one; on a CPU such operators run block by block, while the value is in the cache
// (pass_chain.c).
#include "graph/ops/op_internal.h"
#include "graph/plan_internal.h"

enum { FEW = 2 }; // uses; more do not matter

typedef struct fusion {
    sr_program *p;
    uint8_t *uses; // of values by nodes and targets, at most FEW
    bool *gone;    // nodes
} fusion;

static void use(fusion *f, uint32_t value) {
    if (value != SR_REF_NONE && f->uses[value] < FEW)
        f->uses[value]++;
}

static void count_uses(fusion *f) {
    const sr_program *p = f->p;
    for (size_t i = 0; i < p->node_count; i++)
        for (int k = 0; k < p->nodes[i].op->inputs; k++)
            use(f, p->nodes[i].input[k]);
    for (size_t t = 0; t < p->target_count; t++)
        use(f, p->targets[t].value);
}

// Whether a node is a sum of two tensors of its result's shape, which nothing but one node reads.
static bool is_inner_sum(const fusion *f, uint32_t value) {
    const sr_program_value *v = &f->p->values[value];
    if (v->node == SR_REF_NONE || v->kept || f->uses[value] != 1)
        return false;
    const sr_program_node *sum = &f->p->nodes[v->node];
    return sum->op == &sr_op_add && sr_op_same_shape(&f->p->values[sum->input[0]].info, &v->info) &&
           sr_op_same_shape(&f->p->values[sum->input[1]].info, &v->info);
}

// Replaces input k of a node, a sum, by its terms.
static void take_terms(fusion *f, sr_program_node *node, int k, const sr_op *op) {
    const uint32_t value = node->input[k], sum = f->p->values[value].node;
    node->op = op;
    node->input[k] = f->p->nodes[sum].input[0];
    node->input[k + 1] = f->p->nodes[sum].input[1];
    f->gone[sum] = true;
}

static void fuse(fusion *f) {
    for (size_t i = 0; i < f->p->node_count; i++) {
        sr_program_node *node = &f->p->nodes[i];
        if (node->op == &sr_op_relu && is_inner_sum(f, node->input[0]))
            take_terms(f, node, 0, &sr_op_add_relu);
        else if (node->op == &sr_op_relu_grad && is_inner_sum(f, node->input[1]))
            take_terms(f, node, 1, &sr_op_add_relu_grad);
    }
}

// A value that is gone has no use, and so no memory; its node is the next one, to be a valid
// number.
static void remove_gone(fusion *f) {
    sr_program *p = f->p;
    size_t count = 0;
    for (size_t i = 0; i < p->node_count; i++) {
        if (f->gone[i]) {
            p->values[p->nodes[i].output[0]].node = (uint32_t)count;
            continue;
        }
        p->nodes[count] = p->nodes[i];
        for (int k = 0; k < p->nodes[count].op->outputs; k++)
            p->values[p->nodes[count].output[k]].node = (uint32_t)count;
        count++;
    }
    p->node_count = count;
}

sr_status sr_pass_fuse(sr_program *p) {
    sr_arena arena;
    sr_arena_init(&arena);
    fusion f = {.p = p,
                .uses = sr_arena_alloc(&arena, p->value_count + 1),
                .gone = sr_arena_alloc(&arena, (p->node_count + 1) * sizeof *f.gone)};
    const sr_status status = f.uses && f.gone ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK) {
        count_uses(&f);
        fuse(&f);
        remove_gone(&f);
    }
    sr_arena_release(&arena);
    return status;
}
