// SPDX-License-Identifier: Apache-2.0
// The reverse walk over the derivative rules of a record (reverse accumulation, Linnainmaa 1970).
//
// Every rule records ordinary nodes, so forward and backward are one program: planned together,
// pruned together, differentiable again. Where a value has several users their gradients are added
// in the reverse order of the uses. Nothing is computed here.
#include "autograd/gradients.h"

#include <string.h>

#include "graph/record_internal.h"

typedef struct walk {
    sr_context *context;
    uint32_t nodes, values, variables;               // of the record when the walk began
    unsigned char *value_reaches, *variable_reaches; // depends on one of the xs
    sr_tensor *value_grad, *variable_grad;
} walk;

static bool reaches(const walk *w, uint32_t ref) {
    if (ref == SR_REF_NONE)
        return false;
    return (ref & SR_REF_VARIABLE) ? w->variable_reaches[ref & ~SR_REF_VARIABLE]
                                   : w->value_reaches[ref];
}

static sr_tensor *grad_of(walk *w, uint32_t ref) {
    return (ref & SR_REF_VARIABLE) ? &w->variable_grad[ref & ~SR_REF_VARIABLE]
                                   : &w->value_grad[ref];
}

static void mark_reaching(walk *w) {
    for (uint32_t i = 0; i < w->nodes; i++) {
        const sr_node *node = &w->context->nodes[i];
        if (node->op->no_gradient || node->op->updates)
            continue;
        bool any = false;
        for (int k = 0; k < node->op->inputs; k++)
            any = any || reaches(w, node->input[k]);
        for (int k = 0; any && k < node->op->outputs; k++)
            w->value_reaches[node->first_output + (uint32_t)k] = 1;
    }
}

static void accumulate(walk *w, uint32_t ref, sr_tensor more) {
    sr_tensor *grad = grad_of(w, ref);
    *grad = sr_is_none(*grad) ? more : sr_add(*grad, more);
}

// Adds what one node passes on to its inputs.
static void step_back(walk *w, uint32_t index) {
    sr_context *context = w->context;
    sr_node node = context->nodes[index]; // a copy: recording moves the array
    sr_tensor grad_out[SR_OP_MAX_OUTPUTS], grad_in[SR_OP_MAX_INPUTS] = {{0}};
    bool wanted[SR_OP_MAX_INPUTS] = {false}, any_out = false, any_in = false;
    for (int i = 0; i < node.op->outputs; i++) {
        uint32_t ref = node.first_output + (uint32_t)i;
        grad_out[i] = reaches(w, ref) ? w->value_grad[ref] : SR_NONE;
        any_out = any_out || !sr_is_none(grad_out[i]);
    }
    for (int i = 0; i < node.op->inputs; i++) {
        wanted[i] = reaches(w, node.input[i]);
        any_in = any_in || wanted[i];
    }
    if (!any_out || !any_in || node.op->no_gradient)
        return;
    if (!node.op->derivative) {
        sr_context_stick(context, SR_FAIL(SR_E_UNSUPPORTED, "%s:%d: %s has no derivative rule",
                                          node.file, node.line, node.op->name));
        return;
    }
    sr_view_arrays arrays;
    sr_node_view view;
    unsigned char attr[SR_OP_ATTR_BYTES];
    sr_context_view(context, index, &arrays, &view);
    memcpy(attr, view.attr, node.op->attr_size); // likewise
    view.attr = attr;
    sr_at(node.file, node.line);
    node.op->derivative(context, &view, grad_out, wanted, grad_in);
    for (int i = 0; i < node.op->inputs; i++)
        if (wanted[i] && !sr_is_none(grad_in[i]))
            accumulate(w, node.input[i], grad_in[i]);
}

// dy in the shape of y. An addition, say, would hand on any other shape unseen.
static bool gradient_fits(sr_context *context, uint32_t y, sr_tensor dy) {
    if (sr_is_none(dy))
        return true;
    const uint32_t ref = sr_context_ref(context, dy, "sr_gradients");
    if (ref == SR_REF_NONE)
        return false;
    const sr_info *have = sr_context_info(context, ref), *want = sr_context_info(context, y);
    if (memcmp(have, want, sizeof *have) == 0)
        return true;
    char left[96], right[96];
    sr_context_stick(context,
                     SR_FAIL(SR_E_SHAPE, "sr_gradients: dy is %s, y is %s: they must be equal",
                             sr_info_text(have, left), sr_info_text(want, right)));
    return false;
}

static sr_tensor seed_gradient(sr_context *context, uint32_t y, sr_tensor dy) {
    if (!sr_is_none(dy))
        return dy;
    sr_info info = *sr_context_info(context, y);
    sr_info one_info = {.dtype = info.dtype == SR_F64 ? SR_F64 : SR_F32};
    double one = 1.0;
    float one_f = 1.0f;
    sr_tensor s = info.dtype == SR_F64 ? sr_constant(context, &one_info, &one)
                                       : sr_constant(context, &one_info, &one_f);
    return sr_fill_by(s, info.dtype, info.rank, info.dim);
}

static sr_status allocate(walk *w) {
    size_t values = w->values, variables = w->variables;
    unsigned char *block =
        sr_context_scratch(w->context, (values + variables) * (sizeof(sr_tensor) + 1) + 16);
    if (!block)
        return SR_E_MEMORY;
    w->value_grad = (sr_tensor *)(void *)block;
    w->variable_grad = w->value_grad + values;
    w->value_reaches = (unsigned char *)(w->variable_grad + variables);
    w->variable_reaches = w->value_reaches + values;
    return SR_OK;
}

static void run_walk(walk *w, uint32_t y, sr_tensor dy, const sr_tensor *xs, int count,
                     sr_tensor *grads) {
    sr_context *context = w->context;
    for (int i = 0; i < count; i++) {
        uint32_t ref = sr_context_ref(context, xs[i], "sr_gradients");
        if (ref == SR_REF_NONE)
            return;
        if (ref & SR_REF_VARIABLE)
            w->variable_reaches[ref & ~SR_REF_VARIABLE] = 1;
        else
            w->value_reaches[ref] = 1;
    }
    mark_reaching(w);
    if (reaches(w, y)) {
        *grad_of(w, y) = seed_gradient(context, y, dy);
        for (uint32_t i = w->nodes; i-- > 0 && context->status == SR_OK;)
            step_back(w, i);
    }
    for (int i = 0; i < count && context->status == SR_OK; i++)
        grads[i] = *grad_of(w, sr_context_ref(context, xs[i], "sr_gradients"));
}

void sr_gradients(sr_tensor y, sr_tensor dy, const sr_tensor *xs, int count, sr_tensor *grads) {
    for (int i = 0; i < count; i++)
        grads[i] = SR_NONE;
    sr_context *context = sr_context_of(y);
    if (!context || context->status != SR_OK)
        return;
    uint32_t ref = sr_context_ref(context, y, "sr_gradients");
    if (ref == SR_REF_NONE || !gradient_fits(context, ref, dy))
        return;
    walk w = {.context = context,
              .nodes = (uint32_t)context->node_count,
              .values = (uint32_t)context->value_count,
              .variables = (uint32_t)context->variable_count};
    sr_status status = allocate(&w);
    if (status != SR_OK) {
        sr_context_stick(context, status);
        return;
    }
    run_walk(&w, ref, dy, xs, count, grads);
}
