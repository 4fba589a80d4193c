// SPDX-License-Identifier: Apache-2.0
// Recording nodes, constants and inputs of a step.
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/recording_internal.h"
#include "kernels/device/device.h"

static bool grow_array(sr_context *context, void **array, size_t *capacity, size_t need,
                       size_t size) {
    if (need <= *capacity)
        return true;
    sr_status status = sr_grow(array, capacity, need, size, "recording of a step");
    sr_context_stick(context, status);
    return status == SR_OK;
}

#define GROW(context, array, count, capacity, more)                                                \
    grow_array((context), (void **)&(context)->recording.array, &(context)->recording.capacity,    \
               (context)->recording.count + (more), sizeof *(context)->recording.array)

// Appends a value to the recording; the cursor is at its end.
static uint32_t add_value(sr_context *context, const sr_info *info, uint32_t node,
                          uint32_t output) {
    if (!GROW(context, values, value_count, value_capacity, 1))
        return SR_REF_NONE;
    sr_recording *r = &context->recording;
    uint32_t index = (uint32_t)r->value_count++;
    r->value_stored = r->value_count;
    r->values[index] = (sr_value){.info = *info, .node = node, .output = output, .slot = -1};
    return index;
}

bool sr_context_take_info(sr_context *context, const char *what, const sr_info *info,
                          sr_info *out) {
    sr_status status = sr_info_check(info);
    if (status != SR_OK) {
        sr_error_prefix("%s", what);
        sr_context_stick(context, status);
        return false;
    }
    *out = (sr_info){.dtype = info->dtype, .rank = info->rank};
    memcpy(out->dim, info->dim, (size_t)info->rank * sizeof *info->dim);
    return true;
}

void sr_context_view(const sr_context *context, uint32_t node, sr_view_arrays *arrays,
                     sr_node_view *view) {
    const sr_node *n = &context->recording.nodes[node];
    for (int i = 0; i < n->op->inputs; i++) {
        uint32_t ref = n->input[i];
        arrays->input[i] = sr_context_tensor(context, ref);
        if (ref == SR_REF_NONE)
            arrays->in[i] = (sr_info){.dtype = SR_DTYPE_COUNT};
        else
            arrays->in[i] = *sr_context_info(context, ref);
    }
    for (int i = 0; i < n->op->outputs; i++) {
        uint32_t ref = n->first_output + (uint32_t)i;
        arrays->output[i] = sr_context_tensor(context, ref);
        arrays->out[i] = context->recording.values[ref].info;
    }
    *view = (sr_node_view){.op = n->op,
                           .attr = context->recording.attrs + n->attr,
                           .inputs = n->op->inputs,
                           .in = arrays->in,
                           .out = arrays->out,
                           .input = arrays->input,
                           .output = arrays->output};
}

// The refs of the inputs of a call; false when an error sticks.
static bool resolve_inputs(sr_context *context, const sr_op *op, const sr_tensor *input,
                           uint32_t *ref) {
    for (int i = 0; i < op->inputs; i++) {
        ref[i] = SR_REF_NONE;
        if (sr_is_absent(input[i]) && i >= op->required)
            continue;
        const char *fault = sr_context_fault(context, input[i]);
        if (fault) {
            sr_context_refuse(context, SR_E_ARGUMENT, "%s: %s: %s", op->name, op->input_name[i],
                              fault);
            return false;
        }
        ref[i] = input[i].generation == 0 ? SR_REF_VARIABLE | (input[i].slot - 1) : input[i].slot;
        if ((op->updates >> i & 1) && !(ref[i] & SR_REF_VARIABLE)) {
            sr_context_refuse(context, SR_E_ARGUMENT,
                              "%s: %s is updated in place and must be a variable", op->name,
                              op->input_name[i]);
            return false;
        }
    }
    return true;
}

// Shapes of the outputs; false when an error sticks.
static bool infer_outputs(sr_context *context, const sr_op *op, const void *attr,
                          const uint32_t *ref, sr_info *out) {
    sr_info in[SR_OP_MAX_INPUTS];
    for (int i = 0; i < op->inputs; i++)
        in[i] = ref[i] == SR_REF_NONE ? (sr_info){.dtype = SR_DTYPE_COUNT}
                                      : *sr_context_info(context, ref[i]);
    sr_node_view view = {.op = op, .attr = attr, .inputs = op->inputs, .in = in, .out = out};
    sr_status status = op->infer(&view, out);
    for (int i = 0; i < op->outputs && status == SR_OK; i++) {
        status = sr_info_check(&out[i]);
        if (status != SR_OK)
            sr_error_prefix("%s", op->name);
    }
    if (status == SR_OK)
        return true;
    sr_error_prefix("%s:%d", sr_call_file(), sr_call_line());
    sr_context_stick(context, status);
    return false;
}

// The context of a call: that of its first input that is present, or the one that this thread used
// last.
static sr_context *context_of_call(const sr_op *op, const sr_tensor *input) {
    sr_context *context = NULL;
    for (int i = 0; i < op->inputs && !context; i++)
        context = sr_context_of(input[i]);
    return context ? context : sr_context_for(SR_NONE);
}

// Appends a new node; false when an error sticks.
static bool append_node(sr_context *context, const sr_op *op, const void *attr,
                        const uint32_t *ref) {
    sr_info out[SR_OP_MAX_OUTPUTS] = {{0}};
    const size_t attr_room = sr_attr_room(op);
    if (context->failure.status != SR_OK || !infer_outputs(context, op, attr, ref, out) ||
        !GROW(context, nodes, node_count, node_capacity, 1) ||
        !GROW(context, values, value_count, value_capacity, (size_t)op->outputs) ||
        !GROW(context, attrs, attr_count, attr_capacity, attr_room + 1)) // never NULL
        return false;
    sr_recording *r = &context->recording;
    const uint32_t index = (uint32_t)r->node_count++;
    sr_node *node = &r->nodes[index];
    *node = (sr_node){.op = op,
                      .file = sr_call_file(),
                      .line = sr_call_line(),
                      .layer = context->layer,
                      .layer_exact = context->layer_exact,
                      .source = context->source,
                      .attr = (uint32_t)r->attr_count,
                      .first_output = (uint32_t)r->value_count};
    memcpy(node->input, ref, (size_t)op->inputs * sizeof *ref);
    memset(r->attrs + r->attr_count, 0, attr_room);
    if (op->attr_size)
        memcpy(r->attrs + r->attr_count, attr, op->attr_size);
    r->attr_count += attr_room;
    r->node_stored = r->node_count;
    for (int i = 0; i < op->outputs; i++)
        (void)add_value(context, &out[i], index, (uint32_t)i);
    return true;
}

void sr_op_record(const sr_op *op, const void *attr, const sr_tensor *input, sr_tensor *output) {
    sr_context *context = context_of_call(op, input);
    for (int i = 0; i < op->outputs; i++)
        output[i] = sr_context_none(context);
    if (!context) {
        sr_context_refuse(NULL, SR_E_ARGUMENT,
                          "%s: %s: a tensor is missing, and there is no context", op->name,
                          op->input_name[0]);
        return;
    }
    uint32_t ref[SR_OP_MAX_INPUTS];
    sr_context_use(context);
    if (context->failure.status != SR_OK || !resolve_inputs(context, op, input, ref))
        return;
    const size_t first = context->recording.value_count;
    if (!sr_recording_repeats(context, op, attr, ref) &&
        !sr_recording_diverge(context, op, attr, ref, NULL, 0) &&
        !append_node(context, op, attr, ref))
        return;
    for (int i = 0; i < op->outputs; i++)
        output[i] = sr_context_tensor(context, (uint32_t)first + (uint32_t)i);
    if (op->updates)
        context->has_updates = true;
    if (op->updates && context->noting)
        context->noting->whole = false;
    context->stats.nodes_recorded++;
}

sr_tensor sr_op_record_one(const sr_op *op, const void *attr, const sr_tensor *input) {
    sr_tensor output[SR_OP_MAX_OUTPUTS];
    sr_op_record(op, attr, input, output);
    return output[0];
}

// ---- Leaves ----

// A leaf at the cursor: the recorded one if it repeats, or a new one. SR_REF_NONE if an error
// sticks.
static uint32_t leaf(sr_context *context, const sr_info *info, int slot) {
    const uint32_t index = (uint32_t)context->recording.value_count;
    if (sr_recording_repeats_leaf(context, info, slot) ||
        sr_recording_diverge(context, NULL, NULL, NULL, info, slot))
        return index;
    if (context->failure.status != SR_OK || add_value(context, info, SR_REF_NONE, 0) == SR_REF_NONE)
        return SR_REF_NONE;
    context->recording.values[index].slot = slot;
    return index;
}

sr_tensor sr_constant(sr_context *context, const sr_info *info, const void *data) {
    sr_address memory = sr_address_none();
    sr_info own;
    sr_context_use(context);
    if (context->failure.status != SR_OK ||
        !sr_context_take_info(context, "sr_constant", info, &own))
        return sr_context_none(context);
    const size_t bytes = sr_info_bytes(&own);
    sr_status status = sr_context_step_alloc(context, bytes, &memory);
    if (status == SR_OK)
        status = sr_device_upload(context->device, memory, data, bytes);
    if (status != SR_OK) {
        sr_context_stick(context, status);
        return sr_context_none(context);
    }
    const uint32_t index = leaf(context, &own, -1);
    if (index == SR_REF_NONE)
        return sr_context_none(context);
    context->recording.values[index].memory = memory;
    sr_gradient_span_note_constant(context, index, data, bytes);
    return sr_context_tensor(context, index);
}

sr_tensor sr_input(sr_context *context, int slot, const sr_info *info) {
    sr_info own;
    sr_context_use(context);
    if (context->failure.status != SR_OK)
        return sr_context_none(context);
    if (slot < 0 || slot >= SR_INPUT_SLOTS) {
        sr_context_stick(context, SR_FAIL(SR_E_ARGUMENT, "sr_input: slot %d; slots are 0..%d", slot,
                                          SR_INPUT_SLOTS - 1));
        return sr_context_none(context);
    }
    if (!sr_context_take_info(context, "sr_input", info, &own))
        return sr_context_none(context);
    const uint32_t index = leaf(context, &own, slot);
    return index == SR_REF_NONE ? sr_context_none(context) : sr_context_tensor(context, index);
}

void sr_keep(sr_tensor tensor) {
    sr_context *context;
    uint32_t ref = sr_context_ref_of(tensor, "sr_keep", &context);
    if (ref == SR_REF_NONE || (ref & SR_REF_VARIABLE))
        return;
    context->recording.values[ref].keep = true;
    context->recording.marked = true;
}
