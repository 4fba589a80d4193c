// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation over the derivative rules of a recording (reverse accumulation,
// Linnainmaa 1970).
//
// Every rule records ordinary nodes, so forward and backward are one program: planned together,
// pruned together, differentiable again. If a value has several users, their gradients are added in
// the reverse order of the uses. Nothing is computed here.
#ifndef SR_OPS_PLAIN
#define SR_OPS_PLAIN // recorded nodes get the line of the node or of the call
#endif
#include "autograd/gradients.h"

#include <stdio.h>
#include <string.h>

#include "graph/recording_internal.h"

typedef struct walk {
    sr_context *context;
    uint32_t nodes, values, variables;               // of the recording when the walk began
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

// Whether the gradient of an output flows into input k.
static bool passes(const walk *w, const sr_node *node, int k) {
    return !(node->op->stops >> k & 1) && reaches(w, node->input[k]);
}

static void mark_reaching(walk *w) {
    for (uint32_t i = 0; i < w->nodes; i++) {
        const sr_node *node = &w->context->recording.nodes[i];
        bool any = false;
        for (int k = 0; k < node->op->inputs; k++)
            any = any || passes(w, node, k);
        for (int k = 0; any && k < node->op->outputs; k++) {
            const uint32_t ref = node->first_output + (uint32_t)k;
            w->value_reaches[ref] = sr_dtype_is_float(w->context->recording.values[ref].info.dtype);
        }
    }
}

static void accumulate(walk *w, uint32_t ref, sr_tensor more) {
    sr_tensor *grad = grad_of(w, ref);
    *grad = sr_is_none(*grad) ? more : sr_add(*grad, more);
}

// Whether a node has a rule for these gradients; otherwise an error sticks.
static bool has_rule(sr_context *context, const sr_node *node, const sr_tensor *grad_out) {
    if (!node->op->derivative) {
        sr_context_stick(context, SR_FAIL(SR_E_UNSUPPORTED, "%s:%d: %s has no derivative rule",
                                          node->file, node->line, node->op->name));
        return false;
    }
    for (int i = 0; i < node->op->outputs; i++) {
        if ((node->op->hidden >> i & 1) && !sr_is_none(grad_out[i])) {
            sr_context_stick(context, SR_FAIL(SR_E_UNSUPPORTED,
                                              "%s:%d: output %d of %s has no derivative rule",
                                              node->file, node->line, i, node->op->name));
            return false;
        }
    }
    return true;
}

// Adds the gradients of one node to those of its inputs.
static void step_back(walk *w, uint32_t index) {
    sr_context *context = w->context;
    sr_node node = context->recording.nodes[index]; // a copy: recording moves the array
    sr_tensor grad_out[SR_OP_MAX_OUTPUTS], grad_in[SR_OP_MAX_INPUTS] = {{0}};
    bool wanted[SR_OP_MAX_INPUTS] = {false}, any_out = false, any_in = false;
    for (int i = 0; i < node.op->outputs; i++) {
        uint32_t ref = node.first_output + (uint32_t)i;
        grad_out[i] = reaches(w, ref) ? w->value_grad[ref] : SR_NONE;
        any_out = any_out || !sr_is_none(grad_out[i]);
    }
    for (int i = 0; i < node.op->inputs; i++) {
        wanted[i] = passes(w, &node, i);
        any_in = any_in || wanted[i];
    }
    if (!any_out || !any_in || !has_rule(context, &node, grad_out))
        return;
    sr_view_arrays arrays;
    sr_node_view view;
    unsigned char attr[SR_OP_ATTR_BYTES];
    sr_context_view(context, index, &arrays, &view);
    memcpy(attr, view.attr, node.op->attr_size); // a copy, too
    view.attr = attr;
    sr_at(node.file, node.line);
    context->source = index + 1;
    node.op->derivative(context, &view, grad_out, wanted, grad_in);
    for (int i = 0; i < node.op->inputs; i++)
        if (wanted[i] && !sr_is_none(grad_in[i]))
            accumulate(w, node.input[i], grad_in[i]);
    context->source = 0;
}

// Whether dy has the shape of y. The rule of an addition, for example, would pass on any other
// shape unnoticed.
static bool gradient_fits(sr_context *context, uint32_t y, uint32_t dy) {
    const sr_info *have = sr_context_info(context, dy), *want = sr_context_info(context, y);
    if (memcmp(have, want, sizeof *have) == 0)
        return true;
    char left[96], right[96];
    sr_context_refuse(context, SR_E_SHAPE, "sr_gradients: dy is %s, y is %s: they must be equal",
                      sr_info_text(have, left), sr_info_text(want, right));
    return false;
}

// A tensor of y's or x's shape whose every element is 'value'.
static sr_tensor filled(sr_context *context, uint32_t ref, double value) {
    sr_info info = *sr_context_info(context, ref);
    sr_info scalar = {.dtype = info.dtype == SR_F64 ? SR_F64 : SR_F32};
    float narrow = (float)value;
    sr_tensor s = info.dtype == SR_F64 ? sr_constant(context, &scalar, &value)
                                       : sr_constant(context, &scalar, &narrow);
    if (!(ref & SR_REF_VARIABLE) && context->recording.values[ref].node != SR_REF_NONE)
        context->source = context->recording.values[ref].node + 1;
    s = sr_fill_by(s, info.dtype, info.rank, info.dim);
    context->source = 0;
    return s;
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

// The ref of a float tensor; SR_REF_NONE and an error that sticks otherwise. 'index' (-1: y) is for
// the message.
static uint32_t float_ref(sr_context *context, sr_tensor tensor, int index) {
    char what[48] = "sr_gradients: y", text[96];
    const char *fault = sr_context_fault(context, tensor);
    const sr_info *info = NULL;
    uint32_t ref = SR_REF_NONE;
    if (!fault) {
        ref = sr_context_ref(context, tensor, what);
        info = sr_context_info(context, ref);
        if (sr_dtype_is_float(info->dtype))
            return ref;
    }
    if (index >= 0)
        (void)snprintf(what, sizeof what, "sr_gradients: xs[%d]", index);
    if (fault)
        sr_context_refuse(context, SR_E_ARGUMENT, "%s: %s", what, fault);
    else
        sr_context_refuse(context, SR_E_ARGUMENT, "%s is %s: only floats have gradients", what,
                          sr_info_text(info, text));
    return SR_REF_NONE;
}

static bool mark_xs(walk *w, const sr_tensor *xs, int count) {
    for (int i = 0; i < count; i++) {
        uint32_t ref = float_ref(w->context, xs[i], i);
        if (ref == SR_REF_NONE)
            return false;
        if (ref & SR_REF_VARIABLE)
            w->variable_reaches[ref & ~SR_REF_VARIABLE] = 1;
        else
            w->value_reaches[ref] = 1;
    }
    return true;
}

static void run_walk(walk *w, uint32_t y, sr_tensor dy, const sr_tensor *xs, int count,
                     sr_tensor *grads) {
    sr_context *context = w->context;
    if (!mark_xs(w, xs, count))
        return;
    mark_reaching(w);
    if (reaches(w, y)) {
        *grad_of(w, y) = sr_is_absent(dy) ? filled(context, y, 1) : dy;
        const char *file = sr_call_file();
        const int line = sr_call_line();
        for (uint32_t i = w->nodes; i-- > 0 && context->failure.status == SR_OK;)
            step_back(w, i);
        sr_at(file, line);
    }
    for (int i = 0; i < count && context->failure.status == SR_OK; i++) {
        const uint32_t ref = sr_context_ref(context, xs[i], "sr_gradients: xs");
        sr_tensor *grad = grad_of(w, ref);
        if (sr_is_none(*grad))
            *grad = filled(context, ref, 0);
        grads[i] = *grad;
    }
}

void sr_gradients(sr_tensor y, sr_tensor dy, const sr_tensor *xs, int count, sr_tensor *grads) {
    sr_context *context = sr_context_for(y);
    for (int i = 0; i < count; i++)
        grads[i] = sr_context_none(context);
    if (!context) {
        sr_context_refuse(NULL, SR_E_ARGUMENT,
                          "sr_gradients: y: a tensor is missing, and there is "
                          "no context");
        return;
    }
    if (context->failure.status != SR_OK)
        return;
    const bool ones = sr_is_absent(dy);
    const uint32_t ref = float_ref(context, y, -1);
    const uint32_t dy_ref = ones ? SR_REF_NONE : sr_context_ref(context, dy, "sr_gradients: dy");
    if (context->failure.status != SR_OK ||
        sr_recording_repeats_gradients(context, ref, dy_ref, xs, count, grads) ||
        (!ones && !gradient_fits(context, ref, dy_ref)))
        return;
    walk w = {.context = context,
              .nodes = (uint32_t)context->recording.node_count,
              .values = (uint32_t)context->recording.value_count,
              .variables = (uint32_t)context->variable_count};
    sr_status status = allocate(&w);
    if (status != SR_OK) {
        sr_context_refuse_status(context, status, "sr_gradients");
        return;
    }
    sr_gradient_span_notes notes;
    sr_gradient_span_begin(context, ref, dy_ref, &notes);
    run_walk(&w, ref, dy, xs, count, grads);
    sr_gradient_span_end(context, &notes, xs, count, grads);
}
