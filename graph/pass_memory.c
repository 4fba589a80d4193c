// SPDX-License-Identifier: Apache-2.0
// The memory plan: an offset for every value of forward and backward together.
//
// A value lives from the step that writes it to the last that reads it; its bytes are free for
// others before and after (reverse-mode garbage collection at compile time). Two planners are tried
// and the smaller result is taken: largest first (Pisarchyk & Lee 2020, "greedy by size"), and in
// the order of birth with the best-fitting gap. Bit-neutral.
#include <stdlib.h>

#include "graph/plan_internal.h"

typedef struct item {
    uint32_t value;
    uint32_t first, last;
    size_t bytes, offset;
} item;

typedef struct planner {
    item *items;   // in the order of placing
    item **placed; // in the order of offsets
    uint32_t count, placed_count;
    size_t peak;
} planner;

static bool overlap_in_time(const item *a, const item *b) {
    return a->first <= b->last && b->first <= a->last;
}

// The smallest gap between neighbours in time that is large enough, else the end.
static size_t best_gap(const planner *p, const item *it) {
    size_t end = 0, best = SIZE_MAX, best_offset = 0;
    for (uint32_t i = 0; i < p->placed_count; i++) {
        const item *other = p->placed[i];
        if (!overlap_in_time(other, it))
            continue;
        if (other->offset > end && other->offset - end >= it->bytes && other->offset - end < best) {
            best = other->offset - end;
            best_offset = end;
        }
        if (other->offset + other->bytes > end)
            end = other->offset + other->bytes;
    }
    return best == SIZE_MAX ? end : best_offset;
}

static void place(planner *p, item *it) {
    it->offset = best_gap(p, it);
    uint32_t at = p->placed_count++;
    while (at > 0 && p->placed[at - 1]->offset > it->offset) {
        p->placed[at] = p->placed[at - 1];
        at--;
    }
    p->placed[at] = it;
    if (it->offset + it->bytes > p->peak)
        p->peak = it->offset + it->bytes;
}

static int by_size(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->value < y->value ? -1 : 1;
}

static int by_birth(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return by_size(a, b);
}

static size_t run_planner(planner *p, int (*order)(const void *, const void *)) {
    p->placed_count = 0;
    p->peak = 0;
    qsort(p->items, p->count, sizeof *p->items, order);
    for (uint32_t i = 0; i < p->count; i++)
        place(p, &p->items[i]);
    return p->peak;
}

static size_t live_bound(const sr_plan *plan, const planner *p) {
    size_t most = 0;
    for (uint32_t t = 0; t < plan->step_count; t++) {
        size_t live = 0;
        for (uint32_t i = 0; i < p->count; i++)
            if (p->items[i].first <= t && t <= p->items[i].last)
                live += p->items[i].bytes;
        if (live > most)
            most = live;
    }
    return most;
}

static void collect(const sr_plan *plan, planner *p) {
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (!sr_plan_in_range(plan, i))
            continue;
        const sr_plan_value *v = &plan->values[i];
        p->items[p->count++] = (item){.value = i,
                                      .first = plan->optimize ? v->first : 0,
                                      .last = plan->optimize ? v->last : plan->step_count,
                                      .bytes = sr_plan_aligned(v->bytes)};
    }
}

typedef int (*item_order)(const void *, const void *);
static const item_order orders[SR_PLANNERS] = {by_size, by_birth};
const char *const sr_planner_names[SR_PLANNERS] = {"largest first", "in order of birth"};

static size_t run_smallest(sr_plan *plan, planner *p) {
    for (int i = 0; i < SR_PLANNERS; i++) {
        plan->peaks[i] = run_planner(p, orders[i]);
        if (plan->peaks[i] < plan->peaks[plan->planner])
            plan->planner = i;
    }
    return run_planner(p, orders[plan->planner]);
}

sr_status sr_pass_memory(sr_plan *plan) {
    planner p = {0};
    sr_status status = SR_E_MEMORY;
    p.items = sr_alloc_array(plan->value_count + 1, sizeof *p.items, "memory plan");
    p.placed = sr_alloc_array(plan->value_count + 1, sizeof *p.placed, "memory plan");
    if (!p.items || !p.placed)
        goto out;
    collect(plan, &p);
    plan->live_bound = live_bound(plan, &p);
    plan->range_bytes = run_smallest(plan, &p);
    for (uint32_t i = 0; i < p.count; i++)
        plan->values[p.items[i].value].offset = p.items[i].offset;
    status = sr_plan_check(plan);
out:
    sr_free(p.items);
    sr_free(p.placed);
    return status;
}

sr_status sr_plan_check(const sr_plan *plan) {
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (!sr_plan_in_range(plan, i))
            continue;
        const sr_plan_value *a = &plan->values[i];
        for (uint32_t k = i + 1; k < plan->value_count; k++) {
            const sr_plan_value *b = &plan->values[k];
            if (sr_plan_in_range(plan, k) && a->first <= b->last && b->first <= a->last &&
                a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                return SR_FAIL(SR_E_INTERNAL, "memory plan: values %u and %u overlap", i, k);
        }
    }
    return SR_OK;
}
