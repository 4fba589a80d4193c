// SPDX-License-Identifier: Apache-2.0
// Observations of a context: reading values (cuts) and running updates, on the context's own
// executor.
//
// A cut runs the part of the recording that it needs. What recorded derivative rules read, and what
// sr_keep marks, stays in memory of the step; other values are recomputed if they are used later.
#include "graph/ops/op_internal.h"
#include "graph/recording_internal.h"
#include "kernels/base/clock.h"
#include "kernels/device/device.h"

// After a run: marks the nodes that ran and the values that are now in memory.
static void mark_executed(sr_context *context) {
    const sr_program *p = context->recording.program;
    context->recording.marked = true;
    for (size_t i = 0; i < p->node_count; i++)
        context->recording.nodes[p->nodes[i].recorded].executed = true;
    for (size_t i = 0; i < p->joined_count; i++)
        context->recording.nodes[p->joined[i]].executed = true;
    for (size_t i = 0; i < p->memory_count; i++)
        context->recording.values[p->memory_value[i]].memory = p->memory[i];
}

static sr_status run_wanted(sr_context *context, const sr_wanted *wanted) {
    sr_plan *plan;
    static const sr_run run = {0};
    int64_t start = sr_context_recorded(context);
    SR_TRY(sr_program_build(context, wanted));
    context->stats.hash_ns += (uint64_t)(sr_clock_ns() - start);
    if (context->recording.program->node_count == 0)
        return SR_OK;
    SR_TRY(sr_plan_get(context, &plan));
    if (!context->executor)
        SR_TRY(sr_executor_create(context->device, context->threads, &context->executor));
    SR_TRY(sr_executor_begin(context->executor, plan, &run));
    SR_TRY(sr_executor_wait(context->executor));
    mark_executed(context);
    return SR_OK;
}

static sr_address memory_of(const sr_context *context, uint32_t ref) {
    return (ref & SR_REF_VARIABLE) ? context->variables[ref & ~SR_REF_VARIABLE].memory
                                   : context->recording.values[ref].memory;
}

// Inputs have memory only when a compiled plan runs.
static sr_status check_bound(const sr_context *context, uint32_t ref, const char *what) {
    if (!sr_address_is_none(memory_of(context, ref)))
        return SR_OK;
    return SR_FAIL(SR_E_ARGUMENT,
                   "%s: input slot %d has no value here; it is bound when a compiled plan runs",
                   what, (int)context->recording.values[ref].slot);
}

static sr_status copy_out(sr_context *context, uint32_t ref, void *data, size_t bytes) {
    SR_TRY(check_bound(context, ref, "read"));
    return sr_device_download(context->device, data, memory_of(context, ref), bytes);
}

static sr_status check_size(const sr_context *context, uint32_t ref, size_t bytes,
                            const char *what) {
    size_t have = sr_info_bytes(sr_context_info(context, ref));
    if (have == bytes)
        return SR_OK;
    char text[96];
    return SR_FAIL(SR_E_SHAPE, "%s: the tensor is %s with %zu bytes, but the buffer has %zu", what,
                   sr_info_text(sr_context_info(context, ref), text), have, bytes);
}

static sr_status read_now(sr_context *context, uint32_t ref, void *data, size_t bytes) {
    SR_TRY(check_size(context, ref, bytes, "sr_read"));
    if ((ref & SR_REF_VARIABLE) && context->has_updates)
        SR_TRY(sr_context_run(context));
    if (sr_address_is_none(memory_of(context, ref))) {
        sr_wanted wanted = {.keep = &ref, .keep_count = 1, .keep_for_gradients = true};
        SR_TRY(run_wanted(context, &wanted));
    }
    return copy_out(context, ref, data, bytes);
}

sr_status sr_read(sr_tensor tensor, void *data, size_t bytes) {
    sr_context *context;
    uint32_t ref = sr_context_ref_of(tensor, "sr_read", &context);
    if (ref == SR_REF_NONE)
        return context ? sr_context_status(context) : SR_E_ARGUMENT;
    sr_status status = read_now(context, ref, data, bytes);
    sr_context_stick(context, status);
    return status;
}

void sr_read_later(sr_tensor tensor, void *data, size_t bytes) {
    sr_context *context;
    uint32_t ref = sr_context_ref_of(tensor, "sr_read_later", &context);
    if (ref == SR_REF_NONE)
        return;
    sr_status status = check_size(context, ref, bytes, "sr_read_later");
    void *deliveries = context->deliveries;
    if (status == SR_OK)
        status = sr_grow(&deliveries, &context->delivery_capacity, context->delivery_count + 1,
                         sizeof *context->deliveries, "deliveries");
    if (status != SR_OK) {
        sr_error_prefix("%s:%d", sr_call_file(), sr_call_line());
        sr_context_stick(context, status);
        return;
    }
    context->deliveries = deliveries;
    context->deliveries[context->delivery_count++] = (sr_delivery){ref, data, bytes};
}

// Copies what a variable takes from another one, which an assignment may overwrite.
static sr_status save_source(sr_context *context, sr_variable_entry *v) {
    const size_t bytes = sr_info_bytes(&v->info);
    SR_TRY(check_bound(context, v->assigned, "sr_variable_assign"));
    v->source = memory_of(context, v->assigned);
    if (!(v->assigned & SR_REF_VARIABLE))
        return SR_OK;
    const sr_address from = v->source;
    SR_TRY(sr_context_step_alloc(context, bytes, &v->source));
    return sr_device_copy(context->device, v->source, from, bytes);
}

static sr_status assign(sr_context *context) {
    for (size_t i = 0; i < context->variable_count; i++)
        if (context->variables[i].assigned != SR_REF_NONE)
            SR_TRY(save_source(context, &context->variables[i]));
    for (size_t i = 0; i < context->variable_count; i++) {
        sr_variable_entry *v = &context->variables[i];
        if (v->assigned == SR_REF_NONE)
            continue;
        SR_TRY(sr_device_copy(context->device, v->memory, v->source, sr_info_bytes(&v->info)));
        v->assigned = SR_REF_NONE;
    }
    return SR_OK;
}

// After an update, values that were computed from the old variables and not kept are lost.
static void lose_values(sr_context *context) {
    context->recording.marked = true;
    for (size_t i = 0; i < context->recording.value_count; i++)
        if (context->recording.values[i].node != SR_REF_NONE &&
            sr_address_is_none(context->recording.values[i].memory))
            context->recording.values[i].lost = true;
}

static sr_status run_updates(sr_context *context, uint32_t *keep) {
    size_t count = 0;
    for (size_t i = 0; i < context->delivery_count; i++)
        keep[count++] = context->deliveries[i].ref;
    for (size_t i = 0; i < context->variable_count; i++)
        if (context->variables[i].assigned != SR_REF_NONE)
            keep[count++] = context->variables[i].assigned;
    sr_wanted wanted = {
        .keep = keep, .keep_count = count, .updates = true, .keep_for_gradients = true};
    SR_TRY(run_wanted(context, &wanted));
    for (size_t i = 0; i < context->delivery_count; i++) {
        const sr_delivery *d = &context->deliveries[i];
        SR_TRY(copy_out(context, d->ref, d->data, d->bytes));
    }
    context->delivery_count = 0;
    SR_TRY(assign(context));
    if (context->has_updates)
        lose_values(context);
    context->has_updates = false;
    return SR_OK;
}

sr_status sr_context_run(sr_context *context) {
    SR_TRY(sr_context_status(context));
    uint32_t *keep = sr_context_scratch(
        context, (context->delivery_count + context->variable_count + 1) * sizeof *keep);
    sr_status status = keep ? run_updates(context, keep) : SR_E_MEMORY;
    sr_context_stick(context, status);
    return status;
}
