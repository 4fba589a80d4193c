// SPDX-License-Identifier: Apache-2.0
// Recording contexts: life, variables, and the writing down of nodes.
//
// A tensor is (context number, slot, generation). Contexts stand in a global table so that the
// 8-byte value is enough; the generation makes a tensor of an earlier step a clear error. Nothing
// runs here (observe.c, executor.c); the first error sticks until the next step.
#include "graph/context.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "graph/record_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/text.h"
#include "kernels/device/device.h"

enum { MAX_CONTEXTS = 1024, STEP_CHUNK = 1 << 20, PLAN_CACHE_BYTES = 256 << 20 };

static struct {
    pthread_mutex_t lock;
    sr_context *table[MAX_CONTEXTS];
    // Generations go on when a number is given again, so that tensors of a freed context are stale.
    uint16_t generation[MAX_CONTEXTS];
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    const char *file;
    int line;
} call_site = {"", 0};

void sr_at(const char *file, int line) {
    call_site.file = file;
    call_site.line = line;
}

size_t sr_info_bytes(const sr_info *info) {
    return (size_t)sr_info_count(info) * sr_dtype_size(info->dtype);
}

sr_status sr_info_check(const sr_info *info) {
    char text[96];
    if ((unsigned)info->dtype >= (unsigned)SR_DTYPE_COUNT)
        return SR_FAIL(SR_E_SHAPE, "a tensor has no dtype (%d)", (int)info->dtype);
    if (info->rank < 0 || info->rank > SR_MAX_RANK)
        return SR_FAIL(SR_E_SHAPE, "a tensor has %d dimensions; 0 to %d are possible",
                       (int)info->rank, SR_MAX_RANK);
    int64_t count = 1;
    for (int i = 0; i < info->rank; i++) {
        if (info->dim[i] < 1)
            return SR_FAIL(SR_E_SHAPE, "%s: dimensions must be at least 1",
                           sr_info_text(info, text));
        if (info->dim[i] > SR_MAX_ELEMENTS / count)
            return SR_FAIL(SR_E_SHAPE, "%s: its bytes overflow; at most 2^48 elements are possible",
                           sr_info_text(info, text));
        count *= info->dim[i];
    }
    return SR_OK;
}

char *sr_info_text(const sr_info *info, char *out) {
    size_t used = (size_t)snprintf(out, 96, "[");
    for (int i = 0; i < info->rank && used < 80; i++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%lld", i ? ", " : "",
                                 (long long)info->dim[i]);
    (void)snprintf(out + used, 96 - used, "] %s", sr_dtype_name(info->dtype));
    return out;
}

// 0 is for variables.
static uint16_t next_generation(uint16_t generation) {
    return generation == UINT16_MAX ? 1 : (uint16_t)(generation + 1);
}

static sr_status register_context(sr_context *context) {
    sr_status status = SR_OK;
    (void)pthread_mutex_lock(&contexts.lock);
    int i = 0;
    while (i < MAX_CONTEXTS && contexts.table[i])
        i++;
    if (i < MAX_CONTEXTS) {
        contexts.table[i] = context;
        context->number = (uint16_t)(i + 1);
        context->generation = next_generation(contexts.generation[i]);
    } else {
        status = SR_FAIL(SR_E_LIMIT, "more than %d recording contexts; free some", MAX_CONTEXTS);
    }
    (void)pthread_mutex_unlock(&contexts.lock);
    return status;
}

sr_status sr_context_create(const sr_context_options *options, sr_context **out) {
    static const sr_context_options defaults = {0};
    if (!options)
        options = &defaults;
    sr_context *context = sr_alloc(sizeof *context, "context");
    if (!context)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    context->threads = options->threads;
    context->optimize = options->optimize;
    context->plan_cache_bytes =
        options->plan_cache_bytes ? options->plan_cache_bytes : PLAN_CACHE_BYTES;
    context->device = options->use_device;
    context->program = sr_alloc(sizeof *context->program, "program");
    if (!context->program) {
        status = SR_E_MEMORY;
        goto fail;
    }
    if (!context->device) {
        SR_TRY_GOTO(sr_device_open(options->device, &context->device), fail);
        context->owns_device = true;
    }
    SR_TRY_GOTO(register_context(context), fail);
    *out = context;
    return SR_OK;
fail:
    sr_context_free(context);
    return status;
}

void sr_context_free(sr_context *context) {
    if (!context)
        return;
    if (context->number) {
        (void)pthread_mutex_lock(&contexts.lock);
        contexts.table[context->number - 1] = NULL;
        contexts.generation[context->number - 1] = context->generation;
        (void)pthread_mutex_unlock(&contexts.lock);
    }
    sr_executor_free(context->executor);
    sr_plan_cache_free(context->cache);
    for (size_t i = 0; i < context->variable_count; i++) {
        if (context->variables[i].owned)
            sr_device_free(context->device, context->variables[i].memory);
        sr_free(context->variables[i].name);
    }
    for (size_t i = 0; i < context->chunk_count; i++)
        sr_device_free(context->device, context->chunks[i].memory);
    if (context->program)
        sr_program_release(context->program);
    sr_free(context->program);
    sr_free(context->nodes);
    sr_free(context->values);
    sr_free(context->attrs);
    sr_free(context->deliveries);
    sr_free(context->variables);
    sr_free(context->chunks);
    sr_free(context->scratch);
    if (context->owns_device)
        sr_device_close(context->device);
    sr_free(context);
}

sr_device *sr_context_device(sr_context *context) {
    return context->device;
}

sr_context_stats sr_context_get_stats(const sr_context *context) {
    return context->stats;
}

// ---- Errors ----

void sr_context_stick(sr_context *context, sr_status status) {
    if (context->status != SR_OK || status == SR_OK)
        return;
    context->status = status;
    (void)snprintf(context->message, sizeof context->message, "%s", sr_error_message());
    (void)snprintf(context->where, sizeof context->where, "%s", sr_error_where());
}

sr_status sr_context_status(sr_context *context) {
    if (context->status == SR_OK)
        return SR_OK;
    return sr_error_adopt(context->status, context->where, context->message);
}

void sr_context_begin_step(sr_context *context) {
    context->node_count = context->value_count = context->attr_count = 0;
    context->delivery_count = 0;
    context->has_updates = false;
    context->status = SR_OK;
    for (size_t i = 0; i < context->chunk_count; i++)
        context->chunks[i].used = 0;
    for (size_t i = 0; i < context->variable_count; i++)
        context->variables[i].assigned = SR_REF_NONE;
    context->generation = next_generation(context->generation);
    context->record_start_ns = sr_clock_ns();
}

int64_t sr_context_recorded(sr_context *context) {
    int64_t now = sr_clock_ns();
    if (context->record_start_ns)
        context->stats.record_ns += (uint64_t)(now - context->record_start_ns);
    context->record_start_ns = 0;
    return now;
}

// ---- Tensors and refs ----

sr_context *sr_context_of(sr_tensor tensor) {
    sr_context *context = NULL;
    if (tensor.context >= 1 && tensor.context <= MAX_CONTEXTS)
        context = contexts.table[tensor.context - 1];
    return context;
}

// What is wrong with a tensor in this context and step, or NULL.
static const char *fault_of(const sr_context *context, sr_tensor tensor) {
    if (sr_is_none(tensor))
        return "a tensor is missing";
    if (tensor.context != context->number)
        return "a tensor of another context";
    if (tensor.generation == 0)
        return tensor.slot >= 1 && tensor.slot <= context->variable_count
                   ? NULL
                   : "a variable of a context that was freed";
    return tensor.generation == context->generation && tensor.slot < context->value_count
               ? NULL
               : "a tensor of an earlier step; only variables outlive a step";
}

uint32_t sr_context_ref(sr_context *context, sr_tensor tensor, const char *what) {
    const char *fault = fault_of(context, tensor);
    if (fault) {
        sr_context_stick(context, SR_FAIL(SR_E_ARGUMENT, "%s:%d: %s: %s", call_site.file,
                                          call_site.line, what, fault));
        return SR_REF_NONE;
    }
    return tensor.generation == 0 ? SR_REF_VARIABLE | (tensor.slot - 1) : tensor.slot;
}

sr_tensor sr_context_tensor(const sr_context *context, uint32_t ref) {
    if (ref == SR_REF_NONE)
        return SR_NONE;
    if (ref & SR_REF_VARIABLE)
        return (sr_tensor){.slot = (ref & ~SR_REF_VARIABLE) + 1, .context = context->number};
    return (sr_tensor){.slot = ref, .context = context->number, .generation = context->generation};
}

const sr_info *sr_context_info(const sr_context *context, uint32_t ref) {
    if (ref & SR_REF_VARIABLE)
        return &context->variables[ref & ~SR_REF_VARIABLE].info;
    return &context->values[ref].info;
}

bool sr_tensor_info(sr_tensor tensor, sr_info *out) {
    sr_context *context = sr_context_of(tensor);
    if (!context)
        return false;
    uint32_t ref = sr_context_ref(context, tensor, "shape");
    if (ref == SR_REF_NONE)
        return false;
    *out = *sr_context_info(context, ref);
    return true;
}

// ---- Growing the record ----

#define GROW(context, array, count, capacity, more)                                                \
    grow_array((context), (void **)&(context)->array, &(context)->capacity,                        \
               (context)->count + (more), sizeof *(context)->array)

static bool grow_array(sr_context *context, void **array, size_t *capacity, size_t need,
                       size_t size) {
    if (need <= *capacity)
        return true;
    sr_status status = sr_grow(array, capacity, need, size, "record of a step");
    sr_context_stick(context, status);
    return status == SR_OK;
}

static uint32_t add_value(sr_context *context, const sr_info *info, uint32_t node,
                          uint32_t output) {
    if (!GROW(context, values, value_count, value_capacity, 1))
        return SR_REF_NONE;
    uint32_t index = (uint32_t)context->value_count++;
    context->values[index] = (sr_value){.info = *info, .node = node, .output = output, .slot = -1};
    return index;
}

// The shape that a caller gives to a leaf, with its unused dimensions cleared: shapes are compared
// as bytes from here on. 'what' is for the message.
static bool take_info(sr_context *context, const char *what, const sr_info *info, sr_info *out) {
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
    const sr_node *n = &context->nodes[node];
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
        arrays->out[i] = context->values[ref].info;
    }
    *view = (sr_node_view){.op = n->op,
                           .attr = context->attrs + n->attr,
                           .inputs = n->op->inputs,
                           .in = arrays->in,
                           .out = arrays->out,
                           .input = arrays->input,
                           .output = arrays->output};
}

// Resolves the inputs of a call; false when an error sticks.
static bool resolve_inputs(sr_context *context, const sr_op *op, const sr_tensor *input,
                           uint32_t *ref, sr_info *info) {
    for (int i = 0; i < op->inputs; i++) {
        ref[i] = SR_REF_NONE;
        info[i] = (sr_info){.dtype = SR_DTYPE_COUNT};
        if (sr_is_none(input[i]) && i >= op->required)
            continue;
        ref[i] = sr_context_ref(context, input[i], op->name);
        if (ref[i] == SR_REF_NONE)
            return false;
        info[i] = *sr_context_info(context, ref[i]);
        if ((op->updates >> i & 1) && !(ref[i] & SR_REF_VARIABLE)) {
            sr_context_stick(context, SR_FAIL(SR_E_ARGUMENT,
                                              "%s:%d: %s: input %d is updated in place and must be "
                                              "a variable",
                                              call_site.file, call_site.line, op->name, i));
            return false;
        }
    }
    return true;
}

void sr_record_node(const sr_op *op, const void *attr, const sr_tensor *input, sr_tensor *output) {
    sr_context *context = NULL;
    for (int i = 0; i < op->outputs; i++)
        output[i] = SR_NONE;
    for (int i = 0; i < op->inputs && !context; i++)
        context = sr_context_of(input[i]);
    if (!context || context->status != SR_OK)
        return;
    uint32_t ref[SR_OP_MAX_INPUTS];
    sr_info in[SR_OP_MAX_INPUTS], out[SR_OP_MAX_OUTPUTS] = {{0}};
    if (!resolve_inputs(context, op, input, ref, in))
        return;
    sr_node_view view = {.op = op, .attr = attr, .inputs = op->inputs, .in = in, .out = out};
    sr_status status = op->infer(&view, out);
    for (int i = 0; i < op->outputs && status == SR_OK; i++) {
        status = sr_info_check(&out[i]);
        if (status != SR_OK)
            sr_error_prefix("%s", op->name);
    }
    if (status != SR_OK) {
        sr_error_prefix("%s:%d", call_site.file, call_site.line);
        sr_context_stick(context, status);
        return;
    }
    size_t attr_room = (op->attr_size + 7) & ~(size_t)7;
    if (!GROW(context, nodes, node_count, node_capacity, 1) ||
        !GROW(context, values, value_count, value_capacity, (size_t)op->outputs) ||
        !GROW(context, attrs, attr_count, attr_capacity, attr_room + 1)) // never NULL
        return;
    uint32_t index = (uint32_t)context->node_count++;
    sr_node *node = &context->nodes[index];
    *node = (sr_node){.op = op,
                      .file = call_site.file,
                      .line = call_site.line,
                      .attr = (uint32_t)context->attr_count,
                      .first_output = (uint32_t)context->value_count};
    memcpy(node->input, ref, (size_t)op->inputs * sizeof *ref);
    memset(context->attrs + context->attr_count, 0, attr_room);
    if (op->attr_size)
        memcpy(context->attrs + context->attr_count, attr, op->attr_size);
    context->attr_count += attr_room;
    for (int i = 0; i < op->outputs; i++)
        output[i] = sr_context_tensor(context, add_value(context, &out[i], index, (uint32_t)i));
    if (op->updates)
        context->has_updates = true;
    context->stats.nodes_recorded++;
}

sr_tensor sr_record_one(const sr_op *op, const void *attr, const sr_tensor *input) {
    sr_tensor output[SR_OP_MAX_OUTPUTS];
    sr_record_node(op, attr, input, output);
    return output[0];
}

void sr_request_init(sr_kernel_request *request, const sr_node_view *node) {
    memset(request, 0, sizeof *request);
    request->args = node->inputs + node->op->outputs;
    for (int i = 0; i < node->inputs; i++)
        request->dtype[i] = node->in[i].dtype;
    for (int i = 0; i < node->op->outputs; i++)
        request->dtype[node->inputs + i] = node->out[i].dtype;
    if (node->op->kernel_count) {
        request->kernel = SR_KERNEL_OWN;
        request->own = node->op->kernels;
        request->own_count = node->op->kernel_count;
    }
}

// ---- Leaves ----

void *sr_context_scratch(sr_context *context, size_t bytes) {
    if (sr_grow(&context->scratch, &context->scratch_capacity, bytes, 1, "record scratch") != SR_OK)
        return NULL;
    memset(context->scratch, 0, bytes);
    return context->scratch;
}

sr_status sr_context_step_alloc(sr_context *context, size_t bytes, void **out) {
    bytes = (bytes + 63) & ~(size_t)63;
    for (size_t i = 0; i < context->chunk_count; i++) {
        sr_step_chunk *chunk = &context->chunks[i];
        if (chunk->bytes - chunk->used < bytes)
            continue;
        *out = (unsigned char *)chunk->memory + chunk->used;
        chunk->used += bytes;
        return SR_OK;
    }
    void *chunks = context->chunks;
    SR_TRY(sr_grow(&chunks, &context->chunk_capacity, context->chunk_count + 1,
                   sizeof *context->chunks, "step memory"));
    context->chunks = chunks;
    sr_step_chunk chunk = {.bytes = bytes > STEP_CHUNK ? bytes : STEP_CHUNK, .used = bytes};
    SR_TRY(sr_device_alloc(context->device, chunk.bytes, "step memory", &chunk.memory));
    context->chunks[context->chunk_count++] = chunk;
    *out = chunk.memory;
    return SR_OK;
}

static sr_tensor add_variable(sr_context *context, const char *name, const sr_info *info,
                              void *memory, bool owned) {
    if (!GROW(context, variables, variable_count, variable_capacity, 1))
        return SR_NONE;
    char *copy = sr_strdup(name ? name : "");
    if (!copy) {
        sr_context_stick(context, SR_E_MEMORY);
        return SR_NONE;
    }
    uint32_t index = (uint32_t)context->variable_count++;
    context->variables[index] = (sr_variable_entry){
        .name = copy, .info = *info, .memory = memory, .owned = owned, .assigned = SR_REF_NONE};
    return sr_context_tensor(context, SR_REF_VARIABLE | index);
}

sr_tensor sr_variable(sr_context *context, const char *name, const sr_info *info,
                      const void *data) {
    void *memory = NULL;
    sr_info own;
    if (!take_info(context, name ? name : "variable", info, &own))
        return SR_NONE;
    size_t bytes = sr_info_bytes(&own);
    sr_status status = sr_device_alloc(context->device, bytes, "variables", &memory);
    if (status != SR_OK) {
        if (name)
            sr_error_prefix("%s", name);
        sr_context_stick(context, status);
        return SR_NONE;
    }
    if (data)
        sr_device_copy(context->device, memory, data, bytes);
    sr_tensor variable = add_variable(context, name, &own, memory, true);
    if (sr_is_none(variable))
        sr_device_free(context->device, memory);
    return variable;
}

sr_tensor sr_variable_on(sr_context *context, const char *name, const sr_info *info, void *memory) {
    sr_info own;
    if (!take_info(context, name ? name : "variable", info, &own))
        return SR_NONE;
    return add_variable(context, name, &own, memory, false);
}

static sr_variable_entry *variable_entry(sr_tensor tensor) {
    sr_context *context = sr_context_of(tensor);
    if (!context || tensor.generation != 0 || tensor.slot == 0 ||
        tensor.slot > context->variable_count)
        return NULL;
    return &context->variables[tensor.slot - 1];
}

void sr_variable_move(sr_tensor variable, void *memory) {
    sr_variable_entry *entry = variable_entry(variable);
    if (!entry)
        return;
    if (entry->owned)
        sr_device_free(sr_context_of(variable)->device, entry->memory);
    entry->owned = false;
    entry->memory = memory;
}

void *sr_variable_memory(sr_tensor variable) {
    sr_variable_entry *entry = variable_entry(variable);
    return entry ? entry->memory : NULL;
}

const char *sr_variable_name(sr_tensor variable) {
    sr_variable_entry *entry = variable_entry(variable);
    return entry ? entry->name : "";
}

sr_status sr_variable_write(sr_tensor variable, const void *data) {
    sr_variable_entry *entry = variable_entry(variable);
    if (!entry)
        return SR_FAIL(SR_E_ARGUMENT, "sr_variable_write: not a variable");
    sr_device_copy(sr_context_of(variable)->device, entry->memory, data,
                   sr_info_bytes(&entry->info));
    return SR_OK;
}

void sr_variable_assign(sr_tensor variable, sr_tensor value) {
    sr_context *context = sr_context_of(variable);
    sr_variable_entry *entry = variable_entry(variable);
    if (!context)
        return;
    uint32_t ref = sr_context_ref(context, value, "sr_variable_assign");
    if (ref == SR_REF_NONE)
        return;
    const sr_info *info = sr_context_info(context, ref);
    if (!entry || memcmp(&entry->info, info, sizeof *info) != 0) {
        char have[96], want[96] = "no variable";
        if (entry)
            (void)sr_info_text(&entry->info, want);
        sr_context_stick(context,
                         SR_FAIL(SR_E_SHAPE, "sr_variable_assign: %s takes %s, not %s",
                                 entry ? entry->name : "?", want, sr_info_text(info, have)));
        return;
    }
    entry->assigned = ref;
    context->has_updates = true;
}

sr_tensor sr_constant(sr_context *context, const sr_info *info, const void *data) {
    if (context->status != SR_OK)
        return SR_NONE;
    void *memory = NULL;
    sr_info own;
    if (!take_info(context, "sr_constant", info, &own))
        return SR_NONE;
    sr_status status = sr_context_step_alloc(context, sr_info_bytes(&own), &memory);
    if (status != SR_OK) {
        sr_context_stick(context, status);
        return SR_NONE;
    }
    sr_device_copy(context->device, memory, data, sr_info_bytes(&own));
    uint32_t index = add_value(context, &own, SR_REF_NONE, 0);
    if (index != SR_REF_NONE)
        context->values[index].memory = memory;
    return sr_context_tensor(context, index);
}

sr_tensor sr_input(sr_context *context, int slot, const sr_info *info) {
    if (context->status != SR_OK)
        return SR_NONE;
    if (slot < 0 || slot >= SR_MAX_INPUT_SLOTS) {
        sr_context_stick(context, SR_FAIL(SR_E_ARGUMENT, "input slot %d; slots are 0..%d", slot,
                                          SR_MAX_INPUT_SLOTS - 1));
        return SR_NONE;
    }
    sr_info own;
    if (!take_info(context, "sr_input", info, &own))
        return SR_NONE;
    uint32_t index = add_value(context, &own, SR_REF_NONE, 0);
    if (index != SR_REF_NONE)
        context->values[index].slot = slot;
    return sr_context_tensor(context, index);
}

void sr_keep(sr_tensor tensor) {
    sr_context *context = sr_context_of(tensor);
    if (!context)
        return;
    uint32_t ref = sr_context_ref(context, tensor, "sr_keep");
    if (ref != SR_REF_NONE && !(ref & SR_REF_VARIABLE))
        context->values[ref].keep = true;
}
