// SPDX-License-Identifier: Apache-2.0
// Steps that repeat: the recording of an earlier step is kept, and a call that records the same
// again only moves a cursor.
//
// A step is recorded over the recording of the last one. Each call is compared in full with the
// node at the cursor: operator, attributes, inputs, file and line. If all calls before it were
// equal, equal inputs are equal values, so the recorded shapes are right and nothing is inferred
// again. If a call differs, the step switches to one of a few other recordings with the same
// beginning (the phases of a step alternate), or what follows the cursor is discarded.
//
// What sr_gradients records is a function of the recording before it and of y, dy and xs, as
// derivative rules are functions of their arguments (op.h). If all of these repeat, so do its
// nodes, and no rule is called. A program is likewise a function of the recording and of the
// request (program.c). So a repeated step is found to be equal by comparison, without computing its
// hash.
#include <string.h>

#include "graph/recording_internal.h"
#include "kernels/device/device.h"

void sr_recording_release(sr_recording *record) {
    if (record->program)
        sr_program_release(record->program);
    sr_free(record->program);
    sr_free(record->nodes);
    sr_free(record->values);
    sr_free(record->attrs);
    for (int i = 0; i < SR_MAX_GRADIENT_SPANS; i++) {
        sr_free(record->spans[i].refs);
        sr_free(record->spans[i].constants);
    }
    *record = (sr_recording){0};
}

// The program must be built again, too, because compiling changed it.
static void forget_plan(sr_recording *record, const sr_plan *plan) {
    if (!record->program || record->program->plan != plan)
        return;
    record->program->plan = NULL;
    record->program->repeats = false;
}

void sr_recordings_forget_plan(sr_context *context, const sr_plan *plan) {
    forget_plan(&context->recording, plan);
    for (int i = 0; i < SR_OTHER_RECORDINGS; i++)
        forget_plan(&context->other_recordings[i], plan);
}

// Clears what ran, was kept or was lost in the last step, in the whole recording.
static void unmark(sr_recording *r) {
    for (size_t i = 0; i < r->node_stored; i++)
        r->nodes[i].executed = false;
    for (size_t i = 0; i < r->value_stored; i++) {
        r->values[i].keep = r->values[i].lost = false;
        r->values[i].memory = sr_address_none();
    }
    r->marked = false;
}

void sr_recording_rewind(sr_context *context) {
    sr_recording *r = &context->recording;
    if (r->marked)
        unmark(r);
    r->node_count = r->value_count = r->attr_count = 0;
    r->last_step = ++context->steps;
    context->noting = NULL;
}

// ---- Nodes and leaves ----

static bool same_node(const sr_recording *r, size_t index, const sr_op *op, const void *attr,
                      const uint32_t *ref) {
    const sr_node *node = &r->nodes[index];
    if (node->op != op || node->line != sr_call_line() || node->file != sr_call_file())
        return false;
    for (int i = 0; i < op->inputs; i++)
        if (node->input[i] != ref[i])
            return false;
    return op->attr_size == 0 || memcmp(r->attrs + node->attr, attr, op->attr_size) == 0;
}

bool sr_recording_repeats(sr_context *context, const sr_op *op, const void *attr,
                          const uint32_t *ref) {
    sr_recording *r = &context->recording;
    const size_t at = r->node_count;
    if (at >= r->node_stored || r->nodes[at].first_output != r->value_count ||
        !same_node(r, at, op, attr, ref))
        return false;
    r->node_count++;
    r->value_count += (size_t)op->outputs;
    r->attr_count = r->nodes[at].attr + sr_attr_room(op);
    context->stats.nodes_repeated++;
    return true;
}

bool sr_recording_repeats_leaf(sr_context *context, const sr_info *info, int slot) {
    sr_recording *r = &context->recording;
    if (r->value_count >= r->value_stored)
        return false;
    sr_value *value = &r->values[r->value_count];
    if (value->node != SR_REF_NONE || value->slot != slot ||
        memcmp(&value->info, info, sizeof *info) != 0)
        return false;
    value->memory = sr_address_none(); // of the earlier step
    r->value_count++;
    return true;
}

// ---- Steps that differ ----

static bool same_nodes(const sr_recording *a, const sr_recording *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const sr_node *x = &a->nodes[i], *y = &b->nodes[i];
        if (x->op != y->op || x->file != y->file || x->line != y->line ||
            x->first_output != y->first_output || x->attr != y->attr ||
            memcmp(x->input, y->input, (size_t)x->op->inputs * sizeof *x->input) != 0)
            return false;
    }
    return true;
}

static bool same_values(const sr_recording *a, const sr_recording *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const sr_value *x = &a->values[i], *y = &b->values[i];
        if (x->node != y->node || x->slot != y->slot ||
            memcmp(&x->info, &y->info, sizeof x->info) != 0)
            return false;
    }
    return true;
}

static bool same_beginning(const sr_recording *a, const sr_recording *b) {
    return b->node_stored >= a->node_count && b->value_stored >= a->value_count &&
           same_nodes(a, b, a->node_count) && same_values(a, b, a->value_count) &&
           (a->attr_count == 0 || memcmp(a->attrs, b->attrs, a->attr_count) == 0);
}

// Makes 'other' the recording of the step, with the same cursor.
static void take_over(sr_context *context, sr_recording *other) {
    const sr_recording from = context->recording;
    for (size_t i = 0; i < from.value_count; i++)
        other->values[i].memory = from.values[i].memory; // of this step's constants
    context->recording = *other;
    *other = from;
    context->recording.node_count = from.node_count;
    context->recording.value_count = from.value_count;
    context->recording.attr_count = from.attr_count;
    context->recording.last_step = context->steps;
}

// Discards what follows the cursor, and what was built from it.
static void cut_off(sr_recording *r) {
    int kept = 0;
    r->node_stored = r->node_count;
    r->value_stored = r->value_count;
    for (int i = 0; i < r->span_count; i++) {
        const sr_gradient_span span = r->spans[i];
        if (span.end_node > r->node_count || span.end_value > r->value_count)
            continue;
        r->spans[i] = r->spans[kept]; // its arrays are reused by the next one
        r->spans[kept++] = span;
    }
    r->span_count = kept;
    if (r->program &&
        (r->program->built_nodes > r->node_count || r->program->built_values > r->value_count))
        r->program->repeats = false;
}

// False when an error sticks.
static bool grow(sr_context *context, void **array, size_t *capacity, size_t need, size_t size) {
    const sr_status status = sr_grow(array, capacity, need, size, "recording of a step");
    sr_context_stick(context, status);
    return status == SR_OK;
}

static bool copy_array(sr_context *context, void **array, size_t *capacity, const void *from,
                       size_t count, size_t size) {
    if (!grow(context, array, capacity, count + 1, size))
        return false;
    if (count)
        memcpy(*array, from, count * size);
    return true;
}

// Copies the beginning of the step into the least recently used other recording and continues
// there, so that what follows the cursor is kept for a later step. An error sticks if memory is
// out.
static void branch(sr_context *context) {
    const sr_recording *from = &context->recording;
    sr_recording *to = &context->other_recordings[0];
    for (int i = 1; i < SR_OTHER_RECORDINGS; i++)
        if (context->other_recordings[i].last_step < to->last_step)
            to = &context->other_recordings[i];
    void *nodes = to->nodes, *values = to->values, *attrs = to->attrs;
    bool done = copy_array(context, &nodes, &to->node_capacity, from->nodes, from->node_count,
                           sizeof *from->nodes);
    to->nodes = nodes;
    done = done && copy_array(context, &values, &to->value_capacity, from->values,
                              from->value_count, sizeof *from->values);
    to->values = values;
    done =
        done && copy_array(context, &attrs, &to->attr_capacity, from->attrs, from->attr_count, 1);
    to->attrs = attrs;
    to->node_count = to->value_count = to->attr_count = 0;
    cut_off(to);
    if (!done)
        return;
    to->marked = false;
    take_over(context, to);
}

bool sr_recording_diverge(sr_context *context, const sr_op *op, const void *attr,
                          const uint32_t *ref, const sr_info *leaf, int slot) {
    sr_recording *r = &context->recording;
    if (r->node_count == r->node_stored && r->value_count == r->value_stored)
        return false; // the cursor is at the end
    for (int i = 0; i < SR_OTHER_RECORDINGS && !r->marked && !context->noting; i++) {
        sr_recording *other = &context->other_recordings[i];
        if (other->marked)
            unmark(other);
        if (other->last_step == 0 || !same_beginning(r, other))
            continue;
        take_over(context, other);
        if (op ? sr_recording_repeats(context, op, attr, ref)
               : sr_recording_repeats_leaf(context, leaf, slot))
            return true;
        take_over(context, other); // switch back: it differs, too
    }
    if (!r->marked && !context->noting)
        branch(context);
    cut_off(r);
    return false;
}

// ---- Gradients ----

static const sr_gradient_span *span_at_cursor(const sr_recording *r, uint32_t y, uint32_t dy,
                                              int count) {
    for (int i = 0; i < r->span_count; i++) {
        const sr_gradient_span *s = &r->spans[i];
        if (s->node == r->node_count && s->value == r->value_count && s->y == y && s->dy == dy &&
            s->count == (uint32_t)count && s->end_node <= r->node_stored &&
            s->end_value <= r->value_stored)
            return s;
    }
    return NULL;
}

static bool same_xs(const sr_context *context, const sr_gradient_span *span, const sr_tensor *xs) {
    for (uint32_t i = 0; i < span->count; i++) {
        if (sr_context_fault(context, xs[i]))
            return false;
        const uint32_t ref =
            xs[i].generation == 0 ? SR_REF_VARIABLE | (xs[i].slot - 1) : xs[i].slot;
        if (ref != span->refs[i])
            return false;
    }
    return true;
}

bool sr_recording_repeats_gradients(sr_context *context, uint32_t y, uint32_t dy,
                                    const sr_tensor *xs, int count, sr_tensor *grads) {
    sr_recording *r = &context->recording;
    const sr_gradient_span *span = span_at_cursor(r, y, dy, count);
    if (!span || context->noting || !same_xs(context, span, xs))
        return false;
    for (size_t i = 0; i < span->constant_count; i++) {
        const sr_gradient_constant *c = &span->constants[i];
        sr_address memory;
        sr_status status = sr_context_step_alloc(context, c->bytes, &memory);
        if (status == SR_OK)
            status = sr_device_upload(context->device, memory, c->data, c->bytes);
        if (status != SR_OK) {
            sr_context_stick(context, status);
            return true;
        }
        r->values[c->value].memory = memory;
    }
    context->stats.nodes_recorded += span->end_node - r->node_count;
    context->stats.nodes_repeated += span->end_node - r->node_count;
    r->node_count = span->end_node;
    r->value_count = span->end_value;
    r->attr_count = span->end_attr;
    for (uint32_t i = 0; i < span->count; i++)
        grads[i] = sr_context_tensor(context, span->refs[span->count + i]);
    return true;
}

void sr_gradient_span_begin(sr_context *context, uint32_t y, uint32_t dy,
                            sr_gradient_span_notes *notes) {
    const sr_recording *r = &context->recording;
    *notes = (sr_gradient_span_notes){.y = y,
                                      .dy = dy,
                                      .node = r->node_count,
                                      .value = r->value_count,
                                      .attr = r->attr_count,
                                      .whole = !context->noting && !r->marked};
    if (notes->whole)
        context->noting = notes;
}

void sr_gradient_span_note_constant(sr_context *context, uint32_t value, const void *data,
                                    size_t bytes) {
    sr_gradient_span_notes *notes = context->noting;
    if (!notes || !notes->whole)
        return;
    void *constants = notes->constants;
    sr_gradient_constant c = {.value = value, .bytes = (uint32_t)bytes};
    notes->whole =
        bytes <= sizeof c.data && grow(context, &constants, &notes->constant_capacity,
                                       notes->constant_count + 1, sizeof *notes->constants);
    if (!notes->whole)
        return;
    notes->constants = constants;
    memcpy(c.data, data, bytes);
    notes->constants[notes->constant_count++] = c;
}

static uint32_t ref_of(sr_tensor tensor) {
    return tensor.generation == 0 ? SR_REF_VARIABLE | (tensor.slot - 1) : tensor.slot;
}

static void keep_span(sr_context *context, sr_gradient_span_notes *notes, const sr_tensor *xs,
                      int count, const sr_tensor *grads) {
    sr_recording *r = &context->recording;
    sr_gradient_span *span = &r->spans[r->span_count];
    void *refs = span->refs;
    if (!grow(context, &refs, &span->ref_capacity, 2 * (size_t)count, sizeof *span->refs))
        return;
    span->refs = refs;
    for (int i = 0; i < count; i++) {
        span->refs[i] = ref_of(xs[i]);
        span->refs[count + i] = ref_of(grads[i]);
    }
    span->y = notes->y;
    span->dy = notes->dy;
    span->node = (uint32_t)notes->node;
    span->value = (uint32_t)notes->value;
    span->attr = (uint32_t)notes->attr;
    span->end_node = (uint32_t)r->node_count;
    span->end_value = (uint32_t)r->value_count;
    span->end_attr = (uint32_t)r->attr_count;
    span->count = (uint32_t)count;
    sr_free(span->constants);
    span->constants = notes->constants;
    span->constant_count = notes->constant_count;
    span->constant_capacity = notes->constant_capacity;
    notes->constants = NULL;
    r->span_count++;
}

void sr_gradient_span_end(sr_context *context, sr_gradient_span_notes *notes, const sr_tensor *xs,
                          int count, const sr_tensor *grads) {
    if (context->noting != notes)
        return;
    context->noting = NULL;
    sr_recording *r = &context->recording;
    if (notes->whole && !r->marked && context->failure.status == SR_OK &&
        r->span_count < SR_MAX_GRADIENT_SPANS && count > 0)
        keep_span(context, notes, xs, count, grads);
    sr_free(notes->constants);
}
