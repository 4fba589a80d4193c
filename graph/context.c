// SPDX-License-Identifier: Apache-2.0
// Recording contexts: creation, steps, release. What a tensor refers to, and errors, are in
// context_refs.c, nodes are recorded in recording.c, variables are in variable.c; observe.c and
// executor.c run what was recorded.
#include "graph/context.h"

#include "graph/plan_internal.h"
#include "kernels/base/clock.h"
#include "kernels/device/device.h"

enum { PLAN_CACHE_BYTES = 256 << 20 };

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
    if (!context->device) {
        SR_TRY_GOTO(sr_device_open(options->device, &context->device), fail);
        context->owns_device = true;
    }
    context->recomputes = !sr_device_get_properties(context->device)->asynchronous;
    context->takes_prologue = sr_is_faster_kernel;
    SR_TRY_GOTO(sr_context_register(context), fail);
    sr_context_use(context);
    *out = context;
    return SR_OK;
fail:
    sr_context_free(context);
    return status;
}

void sr_context_set_prologues(sr_context *context,
                              bool (*takes)(const sr_kernel_request *request)) {
    context->takes_prologue = takes;
}

void sr_context_set_recomputing(sr_context *context, bool on) {
    context->recomputes = on;
}

void sr_context_free(sr_context *context) {
    if (!context)
        return;
    sr_context_unregister(context);
    sr_executor_free(context->executor);
    sr_plan_cache_free(context->cache);
    for (size_t i = 0; i < context->variable_count; i++) {
        if (context->variables[i].owned)
            sr_device_free(context->device, context->variables[i].memory);
        sr_free(context->variables[i].name);
    }
    for (size_t i = 0; i < context->layer_name_count; i++)
        sr_free(context->layer_names[i]);
    sr_free(context->layer_names);
    for (size_t i = 0; i < context->chunk_count; i++)
        sr_device_free(context->device, context->chunks[i].memory);
    sr_recording_release(&context->recording);
    for (int i = 0; i < SR_OTHER_RECORDINGS; i++)
        sr_recording_release(&context->other_recordings[i]);
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

void sr_context_begin_step(sr_context *context) {
    sr_context_use(context);
    sr_recording_rewind(context);
    context->delivery_count = 0;
    context->has_updates = false;
    context->layer = NULL;
    context->layer_exact = false;
    context->failure.status = SR_OK;
    for (size_t i = 0; i < context->chunk_count; i++)
        context->chunks[i].used = 0;
    for (size_t i = 0; i < context->variable_count; i++)
        context->variables[i].assigned = SR_REF_NONE;
    context->generation = sr_next_generation(context->generation);
    context->record_start_ns = sr_clock_ns();
}
