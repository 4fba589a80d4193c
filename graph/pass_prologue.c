// SPDX-License-Identifier: Apache-2.0
// Prologues: a convolution of 1x1 normalises and clips what it reads itself, where the device has a
// kernel that does. With y = relu(batchnorm(x)), batchnorm_train or _infer,
//
//   conv2d(y, w)      -> batchnorm_relu_linear(x, w)
//   conv2d_dw(y, dy)  -> batchnorm_relu_linear_dw(x, dy)
//
// and where nothing reads y any more, batchnorm_train becomes batchnorm_moments, and nothing is
// left of batchnorm_infer.
//
// Other than those of pass_fuse.c these kernels have bits of their own, as another numerics class
// computes the product. So whether one takes the place of a convolution follows from its shape and
// from what computes y: not from who else reads y, what is recomputed, or how many lanes there are.
// (Behind a cut y is memory, and its convolutions are as they were.)
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/plan_internal.h"

typedef struct prologues {
    const sr_context *context;
    sr_program *p;
    uint32_t *uses;   // of values by nodes and targets
    bool *taken;      // nodes whose y a convolution computes itself
    bool *gone;       // nodes
    uint32_t moments; // attributes of batchnorm_moments
} prologues;

// The nodes and the values of a relu(batchnorm(x)).
typedef struct norm {
    const sr_program_node *node, *relu; // relu: NULL, it is a part of the node
    uint32_t x, gamma, beta, mean, var;
} norm;

static const sr_program_node *writer_of(const sr_program *p, uint32_t value) {
    const uint32_t node = value == SR_REF_NONE ? SR_REF_NONE : p->values[value].node;
    return node == SR_REF_NONE ? NULL : &p->nodes[node];
}

static bool find_norm(const sr_program *p, uint32_t y, norm *out) {
    const sr_program_node *relu = writer_of(p, y), *n = relu;
    if (relu && relu->op == &sr_op_relu)
        n = writer_of(p, relu->input[0]);
    else
        relu = NULL;
    const bool trains = n && n->op == (relu ? &sr_op_batchnorm_train : &sr_op_batchnorm_train_relu);
    if (!trains && !(n && n->op == (relu ? &sr_op_batchnorm_infer : &sr_op_batchnorm_infer_relu)))
        return false;
    const int gamma = relu ? 1 : 2; // behind what is added
    const uint32_t *statistics = trains ? n->output + 1 : n->input + gamma + 2;
    *out = (norm){.node = n,
                  .relu = relu,
                  .x = n->input[0],
                  .gamma = n->input[gamma],
                  .beta = n->input[gamma + 1],
                  .mean = statistics[0],
                  .var = statistics[1]};
    return (relu || n->input[1] == SR_REF_NONE) &&
           n->output[0] == (relu ? relu->input[0] : y); // not a statistic
}

static sr_status request_of(const prologues *w, const sr_program_node *node,
                            sr_kernel_request *request) {
    sr_view_arrays arrays = {0};
    sr_node_view view;
    return sr_node_request(w->context, node, &arrays, &view, request);
}

static const sr_kernel_entry *entry_of(const prologues *w, const sr_program_node *node) {
    sr_kernel_request request;
    return request_of(w, node, &request) == SR_OK ? sr_kernel_find(&request) : NULL;
}

static bool is_pointwise(const prologues *w, const sr_program_node *node) {
    sr_kernel_request request;
    const sr_conv_params *p = (const void *)request.params;
    if ((node->op != &sr_op_conv2d && node->op != &sr_op_conv2d_dw) ||
        request_of(w, node, &request) != SR_OK)
        return false;
    return p->r == 1 && p->s == 1 && p->stride_h == 1 && p->stride_w == 1 && p->groups == 1 &&
           p->p == p->h && p->q == p->w && p->pad_top == 0 && p->pad_left == 0;
}

bool sr_is_faster_kernel(const sr_kernel_request *request) {
    const sr_kernel_entry *entry = sr_kernel_find(request);
    return entry && !sr_kernel_is_reference(entry);
}

static void take_prologue(const prologues *w, sr_program_node *node) {
    const bool forward = node->op == &sr_op_conv2d;
    sr_kernel_request request;
    norm n;
    if (!is_pointwise(w, node) || !find_norm(w->p, node->input[0], &n))
        return;
    sr_program_node joined = *node;
    joined.op = forward ? &sr_op_batchnorm_relu_linear : &sr_op_batchnorm_relu_linear_dw;
    joined.attr = n.node->attr;
    const uint32_t inputs[] = {n.x, n.gamma, n.beta, n.mean, n.var, node->input[1]};
    memcpy(joined.input, inputs, sizeof inputs);
    joined.input[6] = forward ? node->input[2] : SR_REF_NONE;
    if (request_of(w, &joined, &request) != SR_OK || !w->context->takes_prologue(&request))
        return;
    *node = joined;
    w->taken[n.node - w->p->nodes] = true;
    if (n.relu)
        w->taken[n.relu - w->p->nodes] = true;
}

// ---- What nothing reads any more ----

static void count_uses(const prologues *w) {
    const sr_program *p = w->p;
    for (size_t i = 0; i < p->node_count; i++)
        for (int k = 0; k < p->nodes[i].op->inputs; k++)
            if (p->nodes[i].input[k] != SR_REF_NONE)
                w->uses[p->nodes[i].input[k]]++;
    for (size_t t = 0; t < p->target_count; t++)
        w->uses[p->targets[t].value]++;
}

static bool is_read(const prologues *w, uint32_t value) {
    return w->uses[value] > 0 || w->p->values[value].kept;
}

// Its statistics alone, if their bits are the same.
static void leave_moments(const prologues *w, sr_program_node *node) {
    const sr_program_node moments = sr_moments_of(node, w->moments);
    const sr_kernel_entry *before = entry_of(w, node), *after = entry_of(w, &moments);
    if (before && after && strcmp(before->numerics_class, after->numerics_class) == 0)
        *node = moments;
}

static void remove_unread(const prologues *w) {
    for (size_t i = w->p->node_count; i-- > 0;) {
        sr_program_node *node = &w->p->nodes[i];
        if (!w->taken[i] || is_read(w, node->output[0]))
            continue;
        if (node->op == &sr_op_batchnorm_train || node->op == &sr_op_batchnorm_train_relu) {
            leave_moments(w, node);
            continue;
        }
        for (int k = 0; k < node->op->inputs; k++)
            if (node->input[k] != SR_REF_NONE)
                w->uses[node->input[k]]--;
        w->gone[i] = true;
        w->p->joined[w->p->joined_count++] = node->recorded;
    }
    sr_program_remove(w->p, w->gone);
}

// Room for the nodes that may be removed, and the attributes of batchnorm_moments.
static sr_status make_room(prologues *w) {
    sr_program *p = w->p;
    void *joined = p->joined;
    SR_TRY(sr_grow(&joined, &p->joined_capacity, p->joined_count + p->node_count + 1,
                   sizeof *p->joined, "program"));
    p->joined = joined;
    return sr_add_moments_attr(p, &w->moments);
}

// No node is moved across an update of a variable.
static void take_prologues(const prologues *w) {
    for (size_t i = 0; i < w->p->node_count && !w->p->nodes[i].op->updates; i++)
        take_prologue(w, &w->p->nodes[i]);
    count_uses(w);
    remove_unread(w);
}

sr_status sr_pass_prologue(const sr_context *context) {
    sr_program *p = context->recording.program;
    sr_arena arena;
    sr_arena_init(&arena);
    prologues w = {.context = context,
                   .p = p,
                   .uses = sr_arena_alloc(&arena, (p->value_count + 1) * sizeof *w.uses),
                   .taken = sr_arena_alloc(&arena, (p->node_count + 1) * sizeof *w.taken),
                   .gone = sr_arena_alloc(&arena, (p->node_count + 1) * sizeof *w.gone)};
    sr_status status = w.uses && w.taken && w.gone ? make_room(&w) : SR_E_MEMORY;
    if (status == SR_OK)
        take_prologues(&w);
    sr_arena_release(&arena);
    return status;
}
