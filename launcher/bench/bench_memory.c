// SPDX-License-Identifier: Apache-2.0
// The timeline of a plan's memory (bench_memory_internal.h): the lifetime of each value, split
// where another launch continues in the same memory.
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "launcher/bench/bench_memory_internal.h"

typedef struct builder {
    const sr_plan *plan;
    sr_memory_timeline *t;
    int *open; // index of the current span of each value, or -1
    size_t span_capacity, kind_capacity;
} builder;

static sr_status find_kind(builder *b, const char *name, int *out) {
    sr_memory_timeline *t = b->t;
    for (int i = 0; i < t->kind_count; i++) {
        if (strcmp(t->kinds[i].name, name) == 0) {
            *out = i;
            return SR_OK;
        }
    }
    void *kinds = t->kinds;
    SR_TRY(sr_grow(&kinds, &b->kind_capacity, (size_t)t->kind_count + 1, sizeof *t->kinds,
                   "memory report"));
    t->kinds = kinds;
    t->kinds[t->kind_count] = (sr_memory_kind){.name = name};
    *out = t->kind_count++;
    return SR_OK;
}

// This launch writes the value's memory, so a new span begins.
static sr_status open_span(builder *b, uint32_t value, int launch, int step, const char *kind,
                           const sr_info *info) {
    sr_memory_timeline *t = b->t;
    sr_plan_memory_view memory;
    void *spans = t->spans;
    if (value == SR_PLAN_NO_VALUE || !sr_plan_get_memory(b->plan, value, &memory))
        return SR_OK;
    SR_TRY(sr_grow(&spans, &b->span_capacity, (size_t)t->span_count + 1, sizeof *t->spans,
                   "memory report"));
    t->spans = spans;
    int *open = &b->open[value];
    const sr_info bytes = {.dtype = SR_U8, .rank = 1, .dim = {(int64_t)memory.bytes}};
    sr_memory_span *span = &t->spans[t->span_count];
    *span = (sr_memory_span){.offset = memory.offset,
                             .bytes = memory.bytes,
                             .first = *open < 0 ? memory.first : step,
                             .last = memory.last,
                             .writer = launch,
                             .info = info ? *info : bytes};
    SR_TRY(find_kind(b, kind, &span->kind));
    if (*open >= 0) // in place; if both run in one step, the last one counts
        t->spans[*open].last = step - 1;
    *open = t->span_count++;
    return SR_OK;
}

static sr_status add_launch(builder *b, int launch) {
    sr_plan_launch_view view;
    sr_plan_get_launch(b->plan, launch, &view);
    for (int i = view.inputs; i < view.args; i++)
        SR_TRY(open_span(b, view.value[i], launch, view.last_step, view.op, &view.info[i]));
    if (view.packs)
        SR_TRY(open_span(b, view.packed, launch, view.first_step, "packed", NULL));
    return open_span(b, view.workspace, launch, view.first_step, "workspace", NULL);
}

static void sum_up(sr_memory_timeline *t) {
    for (int i = 0; i < t->span_count; i++) {
        const sr_memory_span *s = &t->spans[i];
        for (int step = s->first; step <= s->last; step++) {
            t->live[step] += s->bytes;
            t->kinds[s->kind].area += (double)s->bytes;
        }
    }
    for (int step = 0; step < t->step_count; step++)
        if (t->live[step] > t->live[t->peak])
            t->peak = step;
    for (int i = 0; i < t->span_count; i++) {
        const sr_memory_span *s = &t->spans[i];
        if (s->first > t->peak || s->last < t->peak)
            continue;
        t->kinds[s->kind].bytes_at_peak += s->bytes;
        t->kinds[s->kind].spans_at_peak++;
    }
}

static int larger_area(const void *a, const void *b) {
    const double x = ((const sr_memory_kind *)a)->area, y = ((const sr_memory_kind *)b)->area;
    return (x < y) - (x > y);
}

// Sorts kinds by area, and updates the indices in the spans.
static void sort_kinds(sr_memory_timeline *t, const char **names) {
    for (int i = 0; i < t->kind_count; i++)
        names[i] = t->kinds[i].name;
    qsort(t->kinds, (size_t)t->kind_count, sizeof *t->kinds, larger_area);
    for (int i = 0; i < t->span_count; i++) {
        const char *name = names[t->spans[i].kind];
        for (int k = 0; k < t->kind_count; k++)
            if (t->kinds[k].name == name)
                t->spans[i].kind = k;
    }
}

static sr_status build(builder *b) {
    sr_memory_timeline *t = b->t;
    const size_t values = sr_plan_value_count(b->plan);
    const int launches = sr_plan_node_count(b->plan);
    t->step_count = sr_plan_step_count(b->plan);
    t->range_bytes = sr_plan_peak_bytes(b->plan);
    t->live = sr_alloc_array((size_t)t->step_count + 1, sizeof *t->live, "memory report");
    b->open = sr_alloc_array(values + 1, sizeof *b->open, "memory report");
    if (!t->live || !b->open)
        return SR_E_MEMORY;
    for (size_t i = 0; i < values; i++)
        b->open[i] = -1;
    for (int i = 0; i < launches; i++)
        SR_TRY(add_launch(b, i));
    sum_up(t);
    const char **names = sr_alloc_array((size_t)t->kind_count + 1, sizeof *names, "memory report");
    if (!names)
        return SR_E_MEMORY;
    sort_kinds(t, names);
    sr_free(names);
    return SR_OK;
}

sr_status sr_memory_timeline_build(const sr_plan *plan, sr_memory_timeline *out) {
    builder b = {.plan = plan, .t = out};
    *out = (sr_memory_timeline){0};
    const sr_status status = build(&b);
    sr_free(b.open);
    if (status != SR_OK)
        sr_memory_timeline_release(out);
    return status;
}

void sr_memory_timeline_release(sr_memory_timeline *t) {
    sr_free(t->spans);
    sr_free(t->kinds);
    sr_free(t->live);
    *t = (sr_memory_timeline){0};
}
