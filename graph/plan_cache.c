// SPDX-License-Identifier: Apache-2.0
// The plans of a context by the hash of their program; the least recently used ones are dropped
// over a limit.
//
// A hit requires that the whole canonical program is equal: a collision costs a compile, never a
// wrong result.
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/plan_internal.h"
#include "kernels/base/clock.h"
#include "kernels/chooser.h"
#include "kernels/kernel_lanes.h"

typedef struct sr_plan_cache {
    sr_plan **plans;
    size_t count, capacity;
    size_t bytes; // of all plans
    uint64_t uses;
} sr_plan_cache;

void sr_plan_cache_free(sr_plan_cache *cache) {
    if (!cache)
        return;
    for (size_t i = 0; i < cache->count; i++)
        sr_plan_free(cache->plans[i]);
    sr_free(cache->plans);
    sr_free(cache);
}

static sr_plan *find(const sr_plan_cache *cache, const sr_program *p) {
    for (size_t i = 0; i < cache->count; i++) {
        sr_plan *plan = cache->plans[i];
        if (plan->hash == p->hash && plan->lanes == p->lanes &&
            plan->program_bytes == p->byte_count &&
            memcmp(plan->program, p->bytes, p->byte_count) == 0)
            return plan;
    }
    return NULL;
}

static size_t bytes_of(const sr_plan *plan) {
    return sizeof *plan + sr_arena_bytes(&plan->arena);
}

// Drops the least recently used plans until the limit is met. Those of this step stay: they are
// borrowed by callers.
static void drop_over_limit(sr_plan_cache *cache, sr_context *context) {
    while (cache->bytes > context->plan_cache_bytes) {
        size_t oldest = 0;
        for (size_t i = 1; i < cache->count; i++)
            if (cache->plans[i]->last_use < cache->plans[oldest]->last_use)
                oldest = i;
        if (cache->count == 0 || cache->plans[oldest]->generation == context->generation)
            return;
        cache->bytes -= bytes_of(cache->plans[oldest]);
        sr_recordings_forget_plan(context, cache->plans[oldest]);
        sr_plan_free(cache->plans[oldest]);
        cache->plans[oldest] = cache->plans[--cache->count];
    }
}

static sr_status add_compiled(sr_context *context, sr_plan_cache *cache, sr_plan **out) {
    const int64_t start = sr_clock_ns();
    sr_plan *plan;
    void *plans = cache->plans;
    SR_TRY(sr_grow(&plans, &cache->capacity, cache->count + 1, sizeof *cache->plans, "plan cache"));
    cache->plans = plans;
    const sr_status status = sr_plan_compile(context, &plan);
    const int64_t end = sr_clock_ns();
    sr_chooser_save();
    SR_TRY(status);
    drop_over_limit(cache, context);
    cache->plans[cache->count++] = plan;
    cache->bytes += bytes_of(plan);
    sr_context_stats *stats = &context->stats;
    stats->plans_compiled++;
    stats->prepare_ns += (uint64_t)plan->prepare_ns;
    stats->compile_ns += (uint64_t)(end - start - plan->prepare_ns);
    if (plan->range_bytes > stats->planned_peak_bytes) {
        stats->planned_peak_bytes = plan->range_bytes;
        stats->live_bound_bytes = plan->live_bound;
    }
    *out = plan;
    return SR_OK;
}

// Sets bindings, which differ between steps with the same program: memory of constants and kept
// values, and of variables that were moved.
static void bind(const sr_context *context, sr_plan *plan) {
    const sr_program *p = context->recording.program;
    if (p->memory_count)
        memcpy(plan->memory, p->memory, p->memory_count * sizeof *plan->memory);
    if (plan->variable_moves == context->variable_moves)
        return;
    for (uint32_t i = 0; i < plan->variable_count; i++)
        plan->variables[i] = context->variables[i].memory;
    plan->variable_moves = context->variable_moves;
}

sr_status sr_plan_get(sr_context *context, sr_plan **out) {
    if (!context->cache) {
        context->cache = sr_alloc(sizeof *context->cache, "plan cache");
        if (!context->cache)
            return SR_E_MEMORY;
    }
    sr_plan_cache *cache = context->cache;
    int64_t start = sr_clock_ns();
    sr_plan *plan = context->recording.program->plan;
    if (!plan)
        plan = find(cache, context->recording.program);
    context->stats.hash_ns += (uint64_t)(sr_clock_ns() - start);
    if (plan) {
        context->stats.plans_replayed++;
    } else {
        const sr_status status = add_compiled(context, cache, &plan);
        context->recording.program->repeats &= status == SR_OK; // compiling changed it
        SR_TRY(status);
    }
    plan->last_use = ++cache->uses;
    plan->generation = context->generation;
    context->recording.program->plan = plan;
    bind(context, plan);
    *out = plan;
    return SR_OK;
}

// The plan runs the recorded updates at every replay, so the context must not run them; assignments
// remain its task.
static void hand_over_updates(sr_context *context) {
    const sr_program *p = context->recording.program;
    context->recording.marked = true;
    for (size_t i = 0; i < p->node_count; i++)
        if (p->nodes[i].op->updates)
            context->recording.nodes[p->nodes[i].recorded].executed = true;
    context->has_updates = false;
    for (size_t i = 0; i < context->variable_count; i++)
        if (context->variables[i].assigned != SR_REF_NONE)
            context->has_updates = true;
}

static sr_status compile_wanted(sr_context *context, const sr_wanted *wanted, sr_plan **out) {
    int64_t start = sr_context_recorded(context);
    SR_TRY(sr_program_build(context, wanted));
    context->stats.hash_ns += (uint64_t)(sr_clock_ns() - start);
    SR_TRY(sr_plan_get(context, out));
    if (context->has_updates)
        hand_over_updates(context);
    return SR_OK;
}

sr_status sr_compile(sr_context *context, const sr_target *targets, int count, sr_plan **out) {
    const sr_wanted wanted = {.targets = targets, .target_count = count, .updates = true};
    return compile_wanted(context, &wanted, out);
}

sr_status sr_compile_lanes(sr_context *context, const sr_target *targets, int count, int lanes,
                           sr_plan **out) {
    const sr_wanted wanted = {
        .targets = targets, .target_count = count, .updates = true, .lanes = (uint32_t)lanes};
    if (lanes < 1 || lanes > SR_KERNEL_MAX_LANES)
        return SR_FAIL(SR_E_ARGUMENT, "%d lanes side by side; 1 to %d are possible", lanes,
                       SR_KERNEL_MAX_LANES);
    if (lanes > 1 && !sr_device_get_properties(context->device)->asynchronous)
        return SR_FAIL(SR_E_UNSUPPORTED, "device %s runs lanes one by one",
                       sr_device_get_properties(context->device)->name);
    return compile_wanted(context, &wanted, out);
}
