// SPDX-License-Identifier: Apache-2.0
// serried bench step --memory: which values of a lane use memory and when, and the owners of the
// memory of the process.
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/memory.h"
#include "kernels/base/memory_owners.h"
#include "kernels/base/text.h"
#include "launcher/bench/bench_memory_internal.h"
#include "launcher/bench/bench_step_internal.h"

enum { LARGEST = 20 };

static double percent(size_t part, size_t of) {
    return of > 0 ? 100.0 * (double)part / (double)of : 0;
}

// ---- The range of a lane ----

static void print_planners(const sr_plan *plan) {
    sr_planner_view p;
    char text[16];
    (void)printf("planners:");
    for (int i = 0; sr_plan_get_planner(plan, i, &p); i++)
        (void)printf("%s %s %s%s", i ? "," : "", p.name, sr_text_bytes(p.bytes, text),
                     p.taken ? " (taken)" : "");
    (void)printf("\n");
}

static void print_peak(const sr_plan *plan, const sr_memory_timeline *t) {
    char planned[16], bound[16];
    const size_t peak = sr_plan_peak_bytes(plan), live = sr_plan_live_bound_bytes(plan);
    (void)printf("\nmemory of a lane: %s planned, lower bound %s, ratio %.3f\n",
                 sr_text_bytes(peak, planned), sr_text_bytes(live, bound),
                 live > 0 ? (double)peak / (double)live : 1);
    print_planners(plan);
    if (t->step_count == 0)
        return;
    sr_plan_launch_view at;
    sr_plan_get_launch(plan, sr_plan_step_launch(plan, t->peak), &at);
    (void)printf("the peak is at step %d of %d, which starts with %s (%s) at %s:%d\n", t->peak + 1,
                 t->step_count, at.op, at.kernel, at.file, at.line);
}

static void print_kinds(const sr_memory_timeline *t) {
    char text[16];
    (void)printf("\n%-22s %7s %10s %6s\n", "live at the peak", "values", "bytes", "share");
    for (int i = 0; i < t->kind_count; i++) {
        const sr_memory_kind *k = &t->kinds[i];
        if (k->spans_at_peak > 0)
            (void)printf("%-22s %7d %10s %5.1f%%\n", k->name, k->spans_at_peak,
                         sr_text_bytes(k->bytes_at_peak, text),
                         percent(k->bytes_at_peak, t->live[t->peak]));
    }
}

static int larger_span(const void *a, const void *b) {
    const sr_memory_span *x = *(const sr_memory_span *const *)a,
                         *y = *(const sr_memory_span *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->writer - y->writer;
}

static sr_status print_largest(const sr_plan *plan, const sr_memory_timeline *t) {
    const sr_memory_span **spans =
        sr_alloc_array((size_t)t->span_count + 1, sizeof *spans, "memory report");
    int count = 0;
    if (!spans)
        return SR_E_MEMORY;
    for (int i = 0; i < t->span_count; i++)
        if (t->spans[i].first <= t->peak && t->peak <= t->spans[i].last)
            spans[count++] = &t->spans[i];
    qsort(spans, (size_t)count, sizeof *spans, larger_span);
    (void)printf("\n%-10s %-22s %-14s %-22s %s\n", "largest", "value", "kernels", "operator",
                 "from");
    for (int i = 0; i < count && i < LARGEST; i++) {
        const sr_memory_span *s = spans[i];
        sr_plan_launch_view from;
        char bytes[16], shape[96], life[32];
        sr_plan_get_launch(plan, s->writer, &from);
        (void)snprintf(life, sizeof life, "%d..%d", s->first + 1, s->last + 1);
        (void)printf("%-10s %-22s %-14s %-22s %s:%d\n", sr_text_bytes(s->bytes, bytes),
                     sr_info_text(&s->info, shape), life, t->kinds[s->kind].name, from.file,
                     from.line);
    }
    if (count > LARGEST)
        (void)printf("and %d more\n", count - LARGEST);
    sr_free(spans);
    return SR_OK;
}

// ---- The process ----

static int larger_owner(const void *a, const void *b) {
    const sr_memory_owner *x = a, *y = b;
    return (x->peak_bytes < y->peak_bytes) - (x->peak_bytes > y->peak_bytes);
}

// Owners that never had this share of the present total are printed as one row.
static const double shown_share = 1e-3;

// What a device's driver and libraries, and other processes, have of its memory.
static void print_device(sr_device *device) {
    sr_device_memory memory;
    char what[SR_DEVICE_TEXT + 32], text[16];
    if (!sr_device_get_memory(device, &memory))
        return;
    (void)snprintf(what, sizeof what, "%s: libraries, driver, others", sr_device_name(device));
    (void)printf("%-42s %7s %10s\n", what, "",
                 sr_text_bytes(memory.total - memory.available - memory.own, text));
}

static void print_owners(sr_device *device) {
    static sr_memory_owner rows[SR_MEMORY_OWNERS];
    const size_t count = sr_memory_get_owners(rows);
    char now[16], most[16];
    uint64_t all = 0, rest = 0, rest_most = 0;
    qsort(rows, count, sizeof *rows, larger_owner);
    for (size_t i = 0; i < count; i++)
        all += rows[i].bytes;
    (void)printf("\n%-42s %7s %10s %10s\n", "memory of the process", "blocks", "now", "most");
    for (size_t i = 0; i < count; i++) {
        if ((double)rows[i].peak_bytes < shown_share * (double)all) {
            rest += rows[i].bytes;
            rest_most += rows[i].peak_bytes;
            continue;
        }
        (void)printf("%-42s %7llu %10s %10s\n", rows[i].what, (unsigned long long)rows[i].blocks,
                     sr_text_bytes(rows[i].bytes, now), sr_text_bytes(rows[i].peak_bytes, most));
    }
    (void)printf("%-42s %7s %10s %10s\n", "others", "", sr_text_bytes(rest, now),
                 sr_text_bytes(rest_most, most));
    (void)printf("%-42s %7s %10s\n", "total of these", "", sr_text_bytes(all, now));
    print_device(device);
    const sr_process_memory process = sr_process_memory_get();
    (void)printf("%-42s %7s %10s %10s\n", "resident, with libraries and stacks", "",
                 sr_text_bytes((uint64_t)process.resident, now),
                 sr_text_bytes((uint64_t)process.peak, most));
}

// ---- Both ----

static sr_status draw(const sr_step_result *r, const sr_memory_timeline *t, const char *path) {
    char title[160], bytes[16];
    (void)snprintf(title, sizeof title, "%s, %lld samples of %lld px, %s: %s", r->recipe->name,
                   (long long)(r->batch / r->lanes), (long long)r->image, r->precision,
                   sr_text_bytes(t->range_bytes, bytes));
    SR_TRY(sr_memory_picture(t, title, path));
    (void)printf("\npicture of the range: %s\n", path);
    return SR_OK;
}

// The phase whose plan is the largest.
static sr_status largest_plan(sr_engine *e, sr_plan **out) {
    int largest = 0;
    size_t most = 0;
    for (int p = 0; p < sr_engine_get_info(e).phases; p++) {
        SR_TRY(sr_engine_compile(e, p, out));
        if (sr_plan_peak_bytes(*out) > most) {
            most = sr_plan_peak_bytes(*out);
            largest = p;
        }
    }
    return sr_engine_compile(e, largest, out);
}

sr_status sr_step_memory(sr_engine *e, const sr_step_result *r, const char *picture) {
    sr_plan *plan;
    sr_memory_timeline t;
    SR_TRY(largest_plan(e, &plan));
    SR_TRY(sr_memory_timeline_build(plan, &t));
    print_peak(plan, &t);
    print_kinds(&t);
    sr_status status = print_largest(plan, &t);
    print_owners(sr_engine_get_info(e).device);
    if (status == SR_OK && picture)
        status = draw(r, &t, picture);
    sr_memory_timeline_release(&t);
    return status;
}
