// SPDX-License-Identifier: Apache-2.0
// serried bench step --profile: how the time of a step is distributed over kernels and other work.
//
// A kernel's limit is the time in which this machine could do its floating-point operations, or
// read and write its bytes, whichever is longer, by the measured limits. A kernel whose data stay
// in caches may exceed the memory limit, and one that needs fewer operations than the direct sum
// (such as Winograd) the arithmetic limit. "neither": it reaches less than half of both.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "launcher/bench/bench_step_profile_internal.h"
#include "trainer/engine/engine_trace.h"

static sr_profile_row *find(sr_step_profile *p, const char *op, const char *kernel) {
    for (int i = 0; i < p->row_count; i++)
        if (strcmp(p->rows[i].op, op) == 0 && strcmp(p->rows[i].kernel, kernel) == 0)
            return &p->rows[i];
    p->rows[p->row_count] = (sr_profile_row){.op = op, .kernel = kernel};
    return &p->rows[p->row_count++];
}

static sr_status add(sr_step_profile *p, const sr_node_profile *nodes, int count) {
    for (int i = 0; i < count; i++) {
        sr_profile_row *r = find(p, nodes[i].op, nodes[i].kernel);
        r->ns += nodes[i].ns;
        r->calls += (double)nodes[i].runs;
        r->flops += nodes[i].flops * (double)nodes[i].runs;
        r->bytes += nodes[i].bytes * (double)nodes[i].runs;
        SR_TRY(sr_step_profile_add_layer(p, &nodes[i]));
    }
    return SR_OK;
}

static int slower_first(const void *a, const void *b) {
    int64_t x = ((const sr_profile_row *)a)->ns, y = ((const sr_profile_row *)b)->ns;
    return (x < y) - (x > y);
}

// A row's share of the machine's limits, over all executors.
typedef struct shares {
    double flops, bytes;
} shares;

static const double bound_share = 0.5;

static shares shares_of(double flops, double bytes, double seconds, const sr_machine_limits *l) {
    if (!(seconds > 0) || !(l->flops > 0) || !(l->copy_rate > 0))
        return (shares){0};
    return (shares){.flops = flops / seconds / l->flops, .bytes = bytes / seconds / l->copy_rate};
}

static const char *bound_of(shares s) {
    if (s.flops <= 0 && s.bytes <= 0)
        return "unknown"; // as are the limits
    if (s.flops < bound_share && s.bytes < bound_share)
        return "neither";
    return s.flops >= s.bytes ? "flops" : "bytes";
}

static void print_shares(const char *op, const char *kernel, double calls, double ms, double step,
                         shares s) {
    (void)printf("%-22s %-30s %6.0f %9.2f %5.1f%% %5.0f%% %5.0f%% %5.0f%%  %s\n", op, kernel, calls,
                 ms, 100 * ms / step, 100 * s.flops, 100 * s.bytes,
                 100 * (s.flops > s.bytes ? s.flops : s.bytes), bound_of(s));
}

static void print_operators(const sr_step_profile *p, const sr_step_result *result) {
    const sr_machine_limits *limits = &result->limits;
    const double step = 1e3 * p->seconds / p->steps;
    double all = 0, calls = 0, flops = 0, bytes = 0;
    (void)printf("\n%-22s %-30s %6s %9s %6s %6s %6s %6s  %s\n", "operator", "kernel", "calls", "ms",
                 "share", "flops", "bytes", "limit", "bound by");
    for (int i = 0; i < p->row_count; i++) {
        const sr_profile_row *r = &p->rows[i];
        const double ms = sr_step_profile_ms(p, r->ns);
        print_shares(r->op, r->kernel, r->calls / p->steps, ms, step,
                     shares_of(r->flops / p->steps, r->bytes / p->steps, 1e-3 * ms, limits));
        all += ms;
        calls += r->calls / p->steps;
        flops += r->flops / p->steps;
        bytes += r->bytes / p->steps;
    }
    print_shares("all kernels", "", calls, all, step, shares_of(flops, bytes, 1e-3 * all, limits));
    if (result->limit_products)
        (void)printf("limits: %.1f GFLOP/s (%s), %.1f GB/s (copies, read and written)\n",
                     limits->flops * 1e-9, result->limit_products, limits->copy_rate * 1e-9);
    else
        (void)printf("limits: unknown for %s\n", result->device->model);
    if (p->executors > 1)
        (void)printf("%d executors run concurrently; times are those of one\n", p->executors);
}

void sr_step_profile_print(const sr_step_profile *p, const sr_step_result *result, int depth) {
    print_operators(p, result);
    sr_step_profile_print_layers(p, depth);
}

void sr_step_profile_add_json(const sr_step_profile *p, int depth, sr_text *out) {
    sr_text_add(out, ", \"profile\": {\"steps\": %d, \"executors\": %d", p->steps, p->executors);
    sr_text_add_json_number_member(out, "ms_per_step", 1e3 * p->seconds / p->steps);
    sr_text_add(out, ", \"operators\": [");
    for (int i = 0; i < p->row_count; i++) {
        const sr_profile_row *r = &p->rows[i];
        sr_text_add(out, "%s{\"operator\": ", i ? ", " : "");
        sr_text_add_json_string(out, r->op);
        sr_text_add_json_string_member(out, "kernel", r->kernel);
        sr_text_add_json_number_member(out, "calls", r->calls / p->steps);
        sr_text_add_json_number_member(out, "ms", sr_step_profile_ms(p, r->ns));
        sr_text_add_json_number_member(out, "flops", r->flops / p->steps);
        sr_text_add_json_number_member(out, "bytes", r->bytes / p->steps);
        sr_text_add(out, "}");
    }
    sr_text_add(out, "]");
    sr_step_profile_add_layers_json(p, depth, out);
    sr_text_add(out, "}");
}

static sr_status collect(const sr_engine *e, sr_node_profile *nodes, int capacity,
                         sr_step_profile *p) {
    for (int i = 0; i < p->executors; i++) {
        int count = sr_engine_get_profile(e, i, nodes, capacity);
        SR_TRY(add(p, nodes, count < capacity ? count : capacity));
    }
    return SR_OK;
}

void sr_step_profile_free(sr_step_profile *p) {
    if (!p)
        return;
    sr_layer_tree_release(&p->layers);
    sr_free(p->times);
    sr_free(p->rows);
    sr_free(p);
}

sr_status sr_step_profile_take(const sr_engine *e, int steps, double seconds,
                               sr_step_profile **out) {
    const int executors = sr_engine_get_info(e).executors;
    int capacity = 0;
    sr_status status = SR_E_MEMORY;
    for (int i = 0; i < executors; i++) {
        int count = sr_engine_get_profile(e, i, NULL, 0);
        capacity = count > capacity ? count : capacity;
    }
    const size_t most = (size_t)capacity + 1;
    sr_step_profile *p = sr_alloc(sizeof *p, "profile");
    sr_node_profile *nodes = sr_alloc_array(most, sizeof *nodes, "profile");
    if (p && nodes) {
        p->steps = steps;
        p->seconds = seconds;
        p->executors = executors;
        p->rows = sr_alloc_array(most * (size_t)executors, sizeof *p->rows, "profile");
        if (p->rows)
            status = collect(e, nodes, capacity, p);
    }
    sr_free(nodes);
    if (status != SR_OK) {
        sr_step_profile_free(p);
        return status;
    }
    qsort(p->rows, (size_t)p->row_count, sizeof *p->rows, slower_first);
    *out = p;
    return SR_OK;
}
