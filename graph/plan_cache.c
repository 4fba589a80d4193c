// SPDX-License-Identifier: Apache-2.0
// The plans of a context by the hash of their record, least recently used ones dropped over a
// limit.
//
// A hit is only a hit when the whole canonical record is equal: a collision costs a compile, never
// a wrong result.
#include <string.h>

#include "graph/plan_internal.h"
#include "kernels/base/clock.h"

enum { CACHE_PLANS = 256 };

typedef struct sr_plan_cache {
    sr_plan *plans[CACHE_PLANS];
    int count;
    uint64_t uses;
} sr_plan_cache;

void sr_plan_cache_free(sr_plan_cache *cache) {
    if (!cache)
        return;
    for (int i = 0; i < cache->count; i++)
        sr_plan_free(cache->plans[i]);
    sr_free(cache);
}

static sr_plan *find(const sr_plan_cache *cache, const sr_program *p) {
    for (int i = 0; i < cache->count; i++) {
        sr_plan *plan = cache->plans[i];
        if (plan->hash == p->hash && plan->record_bytes == p->byte_count &&
            memcmp(plan->record, p->bytes, p->byte_count) == 0)
            return plan;
    }
    return NULL;
}

static void insert(sr_plan_cache *cache, sr_plan *plan) {
    int place = cache->count;
    if (place == CACHE_PLANS) {
        place = 0;
        for (int i = 1; i < CACHE_PLANS; i++)
            if (cache->plans[i]->last_use < cache->plans[place]->last_use)
                place = i;
        sr_plan_free(cache->plans[place]);
    } else {
        cache->count++;
    }
    cache->plans[place] = plan;
}

// Bindings differ from step to step under the same record: memory of constants and kept values, and
// of variables that were moved.
static void bind(const sr_context *context, sr_plan *plan) {
    const sr_program *p = context->program;
    if (p->memory_count)
        memcpy(plan->memory, p->memory, p->memory_count * sizeof *plan->memory);
    for (uint32_t i = 0; i < plan->variable_count; i++)
        plan->variables[i] = context->variables[i].memory;
}

sr_status sr_plan_get(sr_context *context, sr_plan **out) {
    if (!context->cache) {
        context->cache = sr_alloc(sizeof *context->cache, "plan cache");
        if (!context->cache)
            return SR_E_MEMORY;
    }
    sr_plan_cache *cache = context->cache;
    int64_t start = sr_clock_ns();
    sr_plan *plan = find(cache, context->program);
    context->stats.hash_ns += (uint64_t)(sr_clock_ns() - start);
    if (plan) {
        context->stats.plans_replayed++;
    } else {
        start = sr_clock_ns();
        SR_TRY(sr_plan_compile(context, &plan));
        insert(cache, plan);
        context->stats.plans_compiled++;
        context->stats.compile_ns += (uint64_t)(sr_clock_ns() - start);
        if (plan->range_bytes > context->stats.planned_peak_bytes) {
            context->stats.planned_peak_bytes = plan->range_bytes;
            context->stats.live_bound_bytes = plan->live_bound;
        }
    }
    plan->last_use = ++cache->uses;
    bind(context, plan);
    *out = plan;
    return SR_OK;
}

// The plan runs the recorded updates at every replay, so the context must not; assignments stay
// its.
static void hand_over_updates(sr_context *context) {
    const sr_program *p = context->program;
    for (size_t i = 0; i < p->node_count; i++)
        if (p->nodes[i].op->updates)
            context->nodes[p->nodes[i].record].executed = true;
    context->has_updates = false;
    for (size_t i = 0; i < context->variable_count; i++)
        if (context->variables[i].assigned != SR_REF_NONE)
            context->has_updates = true;
}

sr_status sr_compile(sr_context *context, const sr_target *targets, int count, sr_plan **out) {
    sr_wanted wanted = {.targets = targets, .target_count = count, .updates = true};
    int64_t start = sr_context_recorded(context);
    SR_TRY(sr_program_build(context, &wanted));
    context->stats.hash_ns += (uint64_t)(sr_clock_ns() - start);
    SR_TRY(sr_plan_get(context, out));
    if (context->has_updates)
        hand_over_updates(context);
    return SR_OK;
}
