// SPDX-License-Identifier: Apache-2.0
// serried bench step --profile: how the time of a step is distributed over kernels and other work.
//
// A kernel's limit is the time in which this machine could do its floating-point operations, or
// read and write its bytes, whichever is longer, by the measured limits. A kernel whose data stay
// in caches may exceed the memory limit, and one that needs fewer operations than the direct sum
// (such as Winograd) the arithmetic limit. "neither": it reaches less than half of both.
//
// Times of nodes are measured by the executors and summed over all of them; an executor with
// several threads counts once. With E concurrent executors the sum is E times the step, minus what
// is not spent in nodes: exchanging gradients, updates, recording.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "launcher/bench/bench_step_internal.h"
#include "trainer/engine/engine_trace.h"

typedef struct profile_row {
    const char *op, *kernel;
    int64_t ns;
    double calls, flops, bytes; // of all runs
} profile_row;

typedef struct table {
    profile_row *rows;
    int count;
} table;

static profile_row *find(table *t, const char *op, const char *kernel) {
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].op, op) == 0 && strcmp(t->rows[i].kernel, kernel) == 0)
            return &t->rows[i];
    t->rows[t->count] = (profile_row){.op = op, .kernel = kernel};
    return &t->rows[t->count++];
}

static void add(table *t, const sr_node_profile *nodes, int count) {
    for (int i = 0; i < count; i++) {
        profile_row *r = find(t, nodes[i].op, nodes[i].kernel);
        r->ns += nodes[i].ns;
        r->calls += (double)nodes[i].runs;
        r->flops += nodes[i].flops * (double)nodes[i].runs;
        r->bytes += nodes[i].bytes * (double)nodes[i].runs;
    }
}

static int slower_first(const void *a, const void *b) {
    int64_t x = ((const profile_row *)a)->ns, y = ((const profile_row *)b)->ns;
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

static void print(const table *t, int steps, double seconds, int executors,
                  const sr_machine_limits *limits) {
    const double step = 1e3 * seconds / steps;
    double all = 0, calls = 0, flops = 0, bytes = 0;
    (void)printf("\n%-22s %-30s %6s %9s %6s %6s %6s %6s  %s\n", "operator", "kernel", "calls", "ms",
                 "share", "flops", "bytes", "limit", "bound by");
    for (int i = 0; i < t->count; i++) {
        const profile_row *r = &t->rows[i];
        const double ms = (double)r->ns * 1e-6 / steps / executors;
        print_shares(r->op, r->kernel, r->calls / steps, ms, step,
                     shares_of(r->flops / steps, r->bytes / steps, 1e-3 * ms, limits));
        all += ms;
        calls += r->calls / steps;
        flops += r->flops / steps;
        bytes += r->bytes / steps;
    }
    print_shares("all kernels", "", calls, all, step, shares_of(flops, bytes, 1e-3 * all, limits));
    (void)printf("%-53s %6s %9.2f %5.1f%%\n", "exchange, updates, recording, waiting", "",
                 step - all, 100 * (step - all) / step);
    print_shares("step", "", calls, step, step, shares_of(flops, bytes, 1e-3 * step, limits));
    (void)printf(
        "limits: %.1f GFLOP/s (fp32 multiply-adds), %.1f GB/s (copies, read and written)\n",
        limits->flops * 1e-9, limits->copy_rate * 1e-9);
    if (executors > 1)
        (void)printf("%d executors run concurrently; times are those of one\n", executors);
}

static void collect(const sr_engine *e, sr_node_profile *nodes, int capacity, table *t) {
    for (int i = 0; i < sr_engine_get_info(e).executors; i++) {
        int count = sr_engine_get_profile(e, i, nodes, capacity);
        add(t, nodes, count < capacity ? count : capacity);
    }
}

sr_status sr_step_profile(const sr_engine *e, int steps, double seconds,
                          const sr_machine_limits *limits) {
    const int executors = sr_engine_get_info(e).executors;
    int capacity = 0;
    sr_status status = SR_E_MEMORY;
    for (int i = 0; i < executors; i++) {
        int count = sr_engine_get_profile(e, i, NULL, 0);
        capacity = count > capacity ? count : capacity;
    }
    size_t most = (size_t)capacity + 1;
    table t = {.rows = sr_alloc_array(most * (size_t)executors, sizeof(profile_row), "profile")};
    sr_node_profile *nodes = sr_alloc_array(most, sizeof *nodes, "profile");
    if (t.rows && nodes) {
        collect(e, nodes, capacity, &t);
        qsort(t.rows, (size_t)t.count, sizeof *t.rows, slower_first);
        print(&t, steps, seconds, executors, limits);
        status = SR_OK;
    }
    sr_free(t.rows);
    sr_free(nodes);
    return status;
}
