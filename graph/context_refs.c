// SPDX-License-Identifier: Apache-2.0
// What every call on a context uses: which context and value a tensor refers to, the error of the
// step, and memory of the step.
//
// A tensor is (context number, slot, generation). Contexts are in a global table, so that the
// 8-byte value is sufficient; the generation makes use of a tensor of an earlier step a clear
// error.
//
// The first error sticks until the next step. A call without any tensor belongs to the context that
// its thread used last: model code of one context runs on one thread, and the result of a failed
// call has the number of its context.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/recording_internal.h"
#include "kernels/base/clock.h"
#include "kernels/device/device.h"

enum { MAX_CONTEXTS = 1024, STEP_CHUNK = 1 << 20 };

static struct {
    pthread_mutex_t lock;
    sr_context *table[MAX_CONTEXTS];
    // Generations continue when a number is reused, so that tensors of a freed context are stale.
    uint16_t generation[MAX_CONTEXTS];
    uint64_t serial[MAX_CONTEXTS]; // unique in the process
    uint64_t created;
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    const char *file;
    int line;
} call_site = {"", 0};

// The context that this thread used last. It may have been freed, and its number reused.
static _Thread_local struct {
    uint16_t number;
    uint64_t serial;
} current;

void sr_at(const char *file, int line) {
    call_site.file = file;
    call_site.line = line;
}

const char *sr_call_file(void) {
    return call_site.file;
}

int sr_call_line(void) {
    return call_site.line;
}

uint16_t sr_next_generation(uint16_t generation) {
    return generation == UINT16_MAX ? 1 : (uint16_t)(generation + 1);
}

sr_status sr_context_register(sr_context *context) {
    sr_status status = SR_OK;
    (void)pthread_mutex_lock(&contexts.lock);
    int i = 0;
    while (i < MAX_CONTEXTS && contexts.table[i])
        i++;
    if (i < MAX_CONTEXTS) {
        contexts.table[i] = context;
        context->number = (uint16_t)(i + 1);
        context->generation = sr_next_generation(contexts.generation[i]);
        context->serial = contexts.serial[i] = ++contexts.created;
    } else {
        status = SR_FAIL(SR_E_LIMIT, "more than %d recording contexts; free some", MAX_CONTEXTS);
    }
    (void)pthread_mutex_unlock(&contexts.lock);
    return status;
}

void sr_context_unregister(const sr_context *context) {
    if (!context->number)
        return;
    (void)pthread_mutex_lock(&contexts.lock);
    contexts.table[context->number - 1] = NULL;
    contexts.serial[context->number - 1] = 0;
    contexts.generation[context->number - 1] = context->generation;
    (void)pthread_mutex_unlock(&contexts.lock);
}

// ---- Errors ----

void sr_context_stick(sr_context *context, sr_status status) {
    sr_error_keep(&context->failure, status);
}

void sr_context_refuse(sr_context *context, sr_status status, const char *fmt, ...) {
    char text[1024];
    if (context && context->failure.status != SR_OK)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    status = SR_FAIL(status, "%s:%d: %s", call_site.file, call_site.line, text);
    if (context)
        sr_context_stick(context, status);
}

void sr_context_refuse_status(sr_context *context, sr_status status, const char *what) {
    if (status == SR_OK || context->failure.status != SR_OK)
        return;
    sr_error_prefix("%s:%d: %s", call_site.file, call_site.line, what);
    sr_context_stick(context, status);
}

sr_status sr_context_status(sr_context *context) {
    return sr_error_restore(&context->failure);
}

int64_t sr_context_recorded(sr_context *context) {
    int64_t now = sr_clock_ns();
    if (context->record_start_ns)
        context->stats.record_ns += (uint64_t)(now - context->record_start_ns);
    context->record_start_ns = 0;
    return now;
}

// ---- Tensors and refs ----

void sr_context_use(const sr_context *context) {
    current.number = context->number;
    current.serial = context->serial;
}

sr_context *sr_context_of(sr_tensor tensor) {
    sr_context *context = NULL;
    if (tensor.context >= 1 && tensor.context <= MAX_CONTEXTS)
        context = contexts.table[tensor.context - 1];
    return context;
}

sr_context *sr_context_for(sr_tensor tensor) {
    sr_context *context = sr_context_of(tensor);
    if (context || !current.number || contexts.serial[current.number - 1] != current.serial)
        return context;
    return contexts.table[current.number - 1];
}

const char *sr_context_fault(const sr_context *context, sr_tensor tensor) {
    if (sr_is_none(tensor))
        return "a tensor is missing: this is SR_NONE, or the result of a call that failed";
    if (tensor.context != context->number)
        return sr_context_of(tensor) ? "a tensor of another context"
                                     : "a tensor of a context that was freed";
    if (tensor.generation == 0)
        return tensor.slot >= 1 && tensor.slot <= context->variable_count
                   ? NULL
                   : "a variable of a context that was freed";
    return tensor.generation == context->generation && tensor.slot < context->recording.value_count
               ? NULL
               : "a tensor of an earlier step; only variables outlive a step";
}

uint32_t sr_context_ref(sr_context *context, sr_tensor tensor, const char *what) {
    const char *fault = sr_context_fault(context, tensor);
    if (fault) {
        sr_context_refuse(context, SR_E_ARGUMENT, "%s: %s", what, fault);
        return SR_REF_NONE;
    }
    return tensor.generation == 0 ? SR_REF_VARIABLE | (tensor.slot - 1) : tensor.slot;
}

uint32_t sr_context_ref_of(sr_tensor tensor, const char *what, sr_context **out) {
    sr_context *context = *out = sr_context_for(tensor);
    if (context)
        return context->failure.status == SR_OK ? sr_context_ref(context, tensor, what)
                                                : SR_REF_NONE;
    sr_context_refuse(NULL, SR_E_ARGUMENT, "%s: a tensor is missing, and there is no context",
                      what);
    return SR_REF_NONE;
}

sr_tensor sr_context_none(const sr_context *context) {
    return (sr_tensor){.context = context ? context->number : 0};
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
    return &context->recording.values[ref].info;
}

bool sr_op_argument(sr_tensor x, const char *what, sr_info *out) {
    sr_context *context;
    uint32_t ref = sr_context_ref_of(x, what, &context);
    if (ref == SR_REF_NONE)
        return false;
    if (out)
        *out = *sr_context_info(context, ref);
    return true;
}

bool sr_tensor_info(sr_tensor tensor, sr_info *out) {
    return sr_op_argument(tensor, "sr_tensor_info", out);
}

sr_tensor sr_op_failed(void) {
    return sr_context_none(sr_context_for(SR_NONE));
}

sr_tensor sr_op_refused(sr_status status, const char *name) {
    sr_context *context = sr_context_for(SR_NONE);
    if (context)
        sr_context_refuse_status(context, status, name);
    return sr_op_failed();
}

// ---- Memory of the step ----

void *sr_context_scratch(sr_context *context, size_t bytes) {
    if (sr_grow(&context->scratch, &context->scratch_capacity, bytes, 1, "record scratch") != SR_OK)
        return NULL;
    memset(context->scratch, 0, bytes);
    return context->scratch;
}

sr_status sr_context_step_alloc(sr_context *context, size_t bytes, sr_address *out) {
    bytes = (bytes + 63) & ~(size_t)63;
    for (size_t i = 0; i < context->chunk_count; i++) {
        sr_step_chunk *chunk = &context->chunks[i];
        if (chunk->bytes - chunk->used < bytes)
            continue;
        *out = sr_address_add(chunk->memory, chunk->used);
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
