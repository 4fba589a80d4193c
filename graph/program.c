// SPDX-License-Identifier: Apache-2.0
// Canonical programs: the part of a recording that an observation needs, with its values
// renumbered.
//
// A walk back from the requested values, which stops at values that are in memory already, gives
// the nodes. Numbering values in the order of their first appearance gives a form in which equal
// steps are equal bytes. That form is hashed, compared in full, and compiled on a miss. The walk
// also prunes dead nodes; a needed node computes all its outputs.
#include <string.h>

#include "graph/recording_internal.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"

static sr_status reserve(void **array, size_t *capacity, size_t need, size_t size) {
    return need <= *capacity ? SR_OK : sr_grow(array, capacity, need, size, "program");
}

#define RESERVE(p, array, capacity, need)                                                          \
    SR_TRY(reserve((void **)&(p)->array, &(p)->capacity, (need), sizeof *(p)->array))

void sr_program_release(sr_program *p) {
    sr_free(p->values);
    sr_free(p->nodes);
    sr_free(p->joined);
    sr_free(p->attrs);
    sr_free(p->targets);
    sr_free(p->memory);
    sr_free(p->memory_value);
    sr_free(p->request);
    sr_free(p->bytes);
    sr_free(p->value_number);
    sr_free(p->variable_number);
    sr_free(p->needed);
}

static bool is_leaf(const sr_context *context, uint32_t ref) {
    return (ref & SR_REF_VARIABLE) || !sr_address_is_none(context->recording.values[ref].memory) ||
           context->recording.values[ref].node == SR_REF_NONE;
}

// Marks the producer of a value as needed; fails for values that were lost.
static sr_status need_value(sr_context *context, uint32_t ref) {
    if (is_leaf(context, ref))
        return SR_OK;
    const sr_value *value = &context->recording.values[ref];
    const sr_node *node = &context->recording.nodes[value->node];
    if (value->lost)
        return SR_FAIL(SR_E_ARGUMENT,
                       "%s:%d: %s: this value was computed before an update of variables and not "
                       "kept; sr_keep it, or read it in the same run as the update",
                       node->file, node->line, node->op->name);
    context->recording.program->needed[value->node] = 1;
    return SR_OK;
}

// Whether the node is an update of this variable that has not run.
static bool will_update(const sr_node *node, uint32_t variable) {
    for (int k = 0; k < node->op->inputs; k++)
        if ((node->op->updates >> k & 1) && node->input[k] == variable)
            return !node->executed;
    return false;
}

// A node recorded after an update reads the updated variable. Without running the update it would
// silently read the old value, which is refused.
static sr_status check_order(const sr_context *context, size_t index, uint32_t variable) {
    const sr_node *reader = &context->recording.nodes[index], *update = context->recording.nodes;
    while (update < reader && !will_update(update, variable))
        update++;
    if (update == reader)
        return SR_OK;
    return SR_FAIL(SR_E_ARGUMENT,
                   "%s:%d: %s: reads variable '%s' after its update in line %d, which has not "
                   "run; use sr_read_later, or record it after sr_context_run",
                   reader->file, reader->line, reader->op->name,
                   context->variables[variable & ~SR_REF_VARIABLE].name, update->line);
}

// Marks what a needed node reads.
static sr_status need_inputs(sr_context *context, const sr_wanted *wanted, size_t index) {
    const sr_node *node = &context->recording.nodes[index];
    for (int k = 0; k < node->op->inputs; k++) {
        const uint32_t ref = node->input[k];
        if (ref == SR_REF_NONE)
            continue;
        SR_TRY(need_value(context, ref));
        if ((ref & SR_REF_VARIABLE) && context->has_updates && !wanted->updates)
            SR_TRY(check_order(context, index, ref));
    }
    return SR_OK;
}

static sr_status mark_needed(sr_context *context, const sr_wanted *wanted) {
    sr_program *p = context->recording.program;
    memset(p->needed, 0, context->recording.node_count);
    for (int i = 0; i < wanted->target_count; i++) {
        const char *fault = sr_context_fault(context, wanted->targets[i].tensor);
        if (fault) {
            sr_context_refuse(context, SR_E_ARGUMENT, "sr_compile: targets[%d]: %s", i, fault);
            return sr_context_status(context);
        }
        SR_TRY(need_value(context, sr_context_ref(context, wanted->targets[i].tensor, "target")));
    }
    for (size_t i = 0; i < wanted->keep_count; i++)
        SR_TRY(need_value(context, wanted->keep[i]));
    for (size_t i = context->recording.node_count; i-- > 0;) {
        const sr_node *node = &context->recording.nodes[i];
        if (wanted->updates && node->op->updates && !node->executed)
            p->needed[i] = 1;
        if (p->needed[i])
            SR_TRY(need_inputs(context, wanted, i));
    }
    return SR_OK;
}

static sr_status add_memory(sr_program *p, uint32_t value, sr_address memory, uint32_t *number) {
    RESERVE(p, memory, memory_capacity, p->memory_count + 1);
    RESERVE(p, memory_value, memory_value_capacity, p->memory_count + 1);
    p->memory_value[p->memory_count] = value;
    *number = (uint32_t)p->memory_count;
    p->memory[p->memory_count++] = memory;
    return SR_OK;
}

static sr_status number_leaf(sr_context *context, uint32_t ref, uint32_t *out) {
    sr_program *p = context->recording.program;
    sr_program_value value = {.info = *sr_context_info(context, ref), .node = SR_REF_NONE};
    if (ref & SR_REF_VARIABLE) {
        value.leaf_kind = SR_LEAF_VARIABLE;
        value.leaf = ref & ~SR_REF_VARIABLE;
    } else if (!sr_address_is_none(context->recording.values[ref].memory)) {
        value.leaf_kind = SR_LEAF_MEMORY;
        SR_TRY(add_memory(p, ref, context->recording.values[ref].memory, &value.leaf));
    } else {
        value.leaf_kind = SR_LEAF_INPUT;
        value.leaf = (uint32_t)context->recording.values[ref].slot;
    }
    RESERVE(p, values, value_capacity, p->value_count + 1);
    *out = (uint32_t)p->value_count;
    p->values[p->value_count++] = value;
    return SR_OK;
}

// The canonical number of a ref; leaves are numbered at their first use.
static sr_status number_of(sr_context *context, uint32_t ref, uint32_t *out) {
    sr_program *p = context->recording.program;
    uint32_t *number = (ref & SR_REF_VARIABLE) ? &p->variable_number[ref & ~SR_REF_VARIABLE]
                                               : &p->value_number[ref];
    if (*number == SR_REF_NONE)
        SR_TRY(number_leaf(context, ref, number));
    *out = *number;
    return SR_OK;
}

static sr_status add_node(sr_context *context, uint32_t index) {
    sr_program *p = context->recording.program;
    const sr_node *node = &context->recording.nodes[index];
    const size_t attr_room = sr_attr_room(node->op);
    RESERVE(p, nodes, node_capacity, p->node_count + 1);
    RESERVE(p, attrs, attr_capacity, p->attr_count + attr_room + 1); // never NULL
    sr_program_node *out = &p->nodes[p->node_count];
    memset(out, 0xff, sizeof *out);
    out->op = node->op;
    out->recorded = index;
    out->attr = (uint32_t)p->attr_count;
    if (attr_room)
        memcpy(p->attrs + p->attr_count, context->recording.attrs + node->attr, attr_room);
    p->attr_count += attr_room;
    for (int i = 0; i < node->op->inputs; i++)
        if (node->input[i] != SR_REF_NONE)
            SR_TRY(number_of(context, node->input[i], &out->input[i]));
    RESERVE(p, values, value_capacity, p->value_count + (size_t)node->op->outputs);
    for (int i = 0; i < node->op->outputs; i++) {
        uint32_t ref = node->first_output + (uint32_t)i;
        out->output[i] = (uint32_t)p->value_count;
        p->values[p->value_count++] =
            (sr_program_value){.info = context->recording.values[ref].info,
                               .node = (uint32_t)p->node_count,
                               .leaf = (uint32_t)i};
        // A value that is in memory keeps its number as a leaf, which its readers use; only values
        // that this program computes for its readers are numbered here.
        if (sr_address_is_none(context->recording.values[ref].memory))
            p->value_number[ref] = out->output[i];
    }
    p->node_count++;
    if (node->executed) {
        context->stats.nodes_recomputed++;
        SR_DEBUG("recomputed after a cut: %s (%s:%d)", node->op->name, node->file, node->line);
    }
    return SR_OK;
}

// Gives memory of the step to a value that must survive, unless it has some.
static sr_status keep_value(sr_context *context, uint32_t ref) {
    sr_program *p = context->recording.program;
    if (is_leaf(context, ref))
        return SR_OK;
    uint32_t number = p->value_number[ref];
    if (number == SR_REF_NONE || p->values[number].kept)
        return SR_OK;
    sr_address memory;
    uint32_t binding;
    SR_TRY(sr_context_step_alloc(context, sr_info_bytes(&context->recording.values[ref].info),
                                 &memory));
    SR_TRY(add_memory(p, ref, memory, &binding));
    p->values[number].kept = binding + 1;
    return SR_OK;
}

static sr_status keep_for_gradients(sr_context *context) {
    sr_program *p = context->recording.program;
    for (size_t i = 0; i < p->node_count; i++) {
        const sr_node *node = &context->recording.nodes[p->nodes[i].recorded];
        if (!node->op->derivative)
            continue;
        for (int k = 0; k < node->op->inputs; k++)
            if ((node->op->keeps_inputs >> k & 1) && node->input[k] != SR_REF_NONE)
                SR_TRY(keep_value(context, node->input[k]));
        for (int k = 0; k < node->op->outputs; k++)
            if (node->op->keeps_outputs >> k & 1)
                SR_TRY(keep_value(context, node->first_output + (uint32_t)k));
    }
    for (uint32_t i = 0; i < context->recording.value_count; i++)
        if (context->recording.values[i].keep)
            SR_TRY(keep_value(context, i));
    return SR_OK;
}

static sr_status add_targets(sr_context *context, const sr_wanted *wanted) {
    sr_program *p = context->recording.program;
    RESERVE(p, targets, target_capacity, (size_t)wanted->target_count + 1);
    for (int i = 0; i < wanted->target_count; i++) {
        const sr_target *t = &wanted->targets[i];
        sr_program_target *out = &p->targets[p->target_count++];
        out->after = SR_REF_NONE;
        out->group = t->group;
        SR_TRY(number_of(context, sr_context_ref(context, t->tensor, "target"), &out->value));
        if (!sr_is_absent(t->after)) {
            const char *fault = sr_context_fault(context, t->after);
            if (fault || t->after.generation != 0) {
                sr_context_refuse(context, SR_E_ARGUMENT, "sr_compile: targets[%d].after: %s", i,
                                  fault ? fault : "the tensor is not a variable");
                return sr_context_status(context);
            }
            out->after = t->after.slot - 1;
        }
    }
    return SR_OK;
}

// The identity: operators, attributes, references and shapes of leaves. File and line of calls and
// addresses of memory are not part of it.
static sr_status write_bytes(sr_context *context) {
    sr_program *p = context->recording.program;
    size_t room = 64 + p->value_count * sizeof(sr_program_value) +
                  p->node_count * sizeof(sr_program_node) + p->attr_count +
                  p->target_count * sizeof(sr_program_target);
    RESERVE(p, bytes, byte_capacity, room);
    unsigned char *at = p->bytes;
    uint64_t head[] = {p->value_count,     p->node_count,   p->attr_count,
                       p->target_count,    p->memory_count, (uint64_t)context->optimize,
                       context->recomputes};
    memcpy(at, head, sizeof head);
    at += sizeof head;
    memcpy(at, p->values, p->value_count * sizeof *p->values);
    at += p->value_count * sizeof *p->values;
    for (size_t i = 0; i < p->node_count; i++) {
        sr_program_node node = p->nodes[i];
        node.recorded = 0;
        memcpy(at, &node, sizeof node);
        at += sizeof node;
    }
    memcpy(at, p->attrs, p->attr_count);
    at += p->attr_count;
    memcpy(at, p->targets, p->target_count * sizeof *p->targets);
    at += p->target_count * sizeof *p->targets;
    p->byte_count = (size_t)(at - p->bytes);
    p->hash = sr_hash64(p->bytes, p->byte_count);
    return SR_OK;
}

// ---- Programs that repeat ----

enum { REQUEST_UPDATES = 1, REQUEST_KEEPS = 2, REQUEST_HAS_UPDATES = 4, REQUEST_RECOMPUTES = 8 };

static unsigned request_flags(const sr_context *context, const sr_wanted *wanted) {
    return (wanted->updates ? REQUEST_UPDATES : 0u) |
           (wanted->keep_for_gradients ? REQUEST_KEEPS : 0u) |
           (context->has_updates ? REQUEST_HAS_UPDATES : 0u) |
           (context->recomputes ? REQUEST_RECOMPUTES : 0u);
}

// The ref of a tensor for comparison: an absent or invalid one equals no ref of a program.
static uint32_t request_ref(const sr_context *context, sr_tensor tensor) {
    if (sr_is_absent(tensor))
        return SR_REF_NONE;
    if (sr_context_fault(context, tensor))
        return SR_REF_NONE - 1;
    return tensor.generation == 0 ? SR_REF_VARIABLE | (tensor.slot - 1) : tensor.slot;
}

static uint32_t lanes_of(const sr_wanted *wanted) {
    return wanted->lanes > 0 ? wanted->lanes : 1;
}

static bool same_request(const sr_context *context, const sr_wanted *wanted) {
    const sr_program *p = context->recording.program;
    if (p->request_flags != request_flags(context, wanted) ||
        p->request_count != SR_REQUEST_WORDS * (size_t)wanted->target_count + wanted->keep_count)
        return false;
    const uint32_t *at = p->request;
    for (int i = 0; i < wanted->target_count; i++, at += SR_REQUEST_WORDS)
        if (at[0] != request_ref(context, wanted->targets[i].tensor) ||
            at[1] != request_ref(context, wanted->targets[i].after) ||
            at[2] != wanted->targets[i].group)
            return false;
    return wanted->keep_count == 0 ||
           memcmp(at, wanted->keep, wanted->keep_count * sizeof *at) == 0;
}

static sr_status store_request(sr_context *context, const sr_wanted *wanted) {
    sr_program *p = context->recording.program;
    RESERVE(p, request, request_capacity,
            SR_REQUEST_WORDS * (size_t)wanted->target_count + wanted->keep_count + 1);
    p->request_flags = request_flags(context, wanted);
    p->request_count = 0;
    for (int i = 0; i < wanted->target_count; i++) {
        p->request[p->request_count++] = request_ref(context, wanted->targets[i].tensor);
        p->request[p->request_count++] = request_ref(context, wanted->targets[i].after);
        p->request[p->request_count++] = wanted->targets[i].group;
    }
    for (size_t i = 0; i < wanted->keep_count; i++)
        p->request[p->request_count++] = wanted->keep[i];
    p->built_nodes = context->recording.node_count;
    p->built_values = context->recording.value_count;
    p->repeats = !context->recording.marked;
    return SR_OK;
}

// The same recording, of which nothing has run, and the same request give the same program, which
// is a function of these. Only memory addresses are new.
static bool program_repeats(const sr_context *context, const sr_wanted *wanted) {
    const sr_recording *r = &context->recording;
    const sr_program *p = r->program;
    return p->repeats && !r->marked && p->built_nodes == r->node_count &&
           p->built_values == r->value_count && p->lanes == lanes_of(wanted) &&
           same_request(context, wanted);
}

static sr_status bind_again(sr_context *context) {
    sr_program *p = context->recording.program;
    for (size_t i = 0; i < p->memory_count; i++) {
        const sr_value *value = &context->recording.values[p->memory_value[i]];
        p->memory[i] = value->memory;
        if (value->node != SR_REF_NONE)
            SR_TRY(sr_context_step_alloc(context, sr_info_bytes(&value->info), &p->memory[i]));
    }
    context->stats.programs_repeated++;
    return SR_OK;
}

static sr_status build(sr_context *context, const sr_wanted *wanted) {
    const sr_recording *r = &context->recording;
    sr_program *p = r->program;
    p->value_count = p->node_count = p->attr_count = p->target_count = p->memory_count = 0;
    p->joined_count = 0;
    RESERVE(p, values, value_capacity, 1); // never NULL, also where nothing is wanted
    RESERVE(p, attrs, attr_capacity, 1);
    RESERVE(p, needed, needed_capacity, r->node_count + 1);
    RESERVE(p, value_number, value_number_capacity, r->value_count + 1);
    RESERVE(p, variable_number, variable_number_capacity, context->variable_count + 1);
    memset(p->value_number, 0xff, r->value_count * sizeof *p->value_number);
    memset(p->variable_number, 0xff, context->variable_count * sizeof *p->variable_number);
    SR_TRY(mark_needed(context, wanted));
    for (uint32_t i = 0; i < r->node_count; i++)
        if (p->needed[i])
            SR_TRY(add_node(context, i));
    SR_TRY(add_targets(context, wanted));
    for (size_t i = 0; i < wanted->keep_count; i++)
        SR_TRY(keep_value(context, wanted->keep[i]));
    if (wanted->keep_for_gradients)
        SR_TRY(keep_for_gradients(context));
    return write_bytes(context);
}

sr_status sr_program_build(sr_context *context, const sr_wanted *wanted) {
    SR_TRY(sr_context_status(context));
    if (!context->recording.program) {
        context->recording.program = sr_alloc(sizeof *context->recording.program, "program");
        if (!context->recording.program)
            return SR_E_MEMORY;
    }
    sr_program *p = context->recording.program;
    if (program_repeats(context, wanted))
        return bind_again(context);
    p->repeats = false;
    p->plan = NULL;
    p->lanes = lanes_of(wanted);
    SR_TRY(build(context, wanted));
    return store_request(context, wanted);
}
