// SPDX-License-Identifier: Apache-2.0
// serried bench step --profile: where the time of a lane program goes, and what else a step costs.
//
// Times of nodes are those of the executors' own clocks, added up over all of them; an executor
// with several threads counts once. So with E executors that run side by side, the sum is E times
// the step less what is not spent in nodes: handing gradients over, updates, recording.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "launcher/bench_step_internal.h"

typedef struct row {
    const char *op, *kernel;
    int64_t ns;
    double calls, flops, bytes; // of all runs
} row;

typedef struct table {
    row *rows;
    int count;
} table;

static row *find(table *t, const char *op, const char *kernel) {
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].op, op) == 0 && strcmp(t->rows[i].kernel, kernel) == 0)
            return &t->rows[i];
    t->rows[t->count] = (row){.op = op, .kernel = kernel};
    return &t->rows[t->count++];
}

static void add(table *t, const sr_node_profile *nodes, int count) {
    for (int i = 0; i < count; i++) {
        row *r = find(t, nodes[i].op, nodes[i].kernel);
        r->ns += nodes[i].ns;
        r->calls += (double)nodes[i].runs;
        r->flops += nodes[i].flops * (double)nodes[i].runs;
        r->bytes += nodes[i].bytes * (double)nodes[i].runs;
    }
}

static int slower_first(const void *a, const void *b) {
    int64_t x = ((const row *)a)->ns, y = ((const row *)b)->ns;
    return (x < y) - (x > y);
}

static void print(const table *t, int steps, double seconds, int executors) {
    double ms = 1e3 * seconds / steps, all = 0;
    (void)printf("\n%-22s %-26s %7s %9s %6s %9s %7s\n", "operator", "kernel", "calls", "ms",
                 "share", "GFLOP/s", "GB/s");
    for (int i = 0; i < t->count; i++) {
        const row *r = &t->rows[i];
        double own = (double)r->ns * 1e-6 / steps / executors, ns = (double)(r->ns ? r->ns : 1);
        all += own;
        (void)printf("%-22s %-26s %7.0f %9.2f %5.1f%% %9.1f %7.1f\n", r->op, r->kernel,
                     r->calls / steps, own, 100 * own / ms, r->flops / ns, r->bytes / ns);
    }
    (void)printf("%-49s %7s %9.2f %5.1f%%\n", "exchange, updates, recording, waiting", "", ms - all,
                 100 * (ms - all) / ms);
    (void)printf("%-49s %7s %9.2f\n", "step", "", ms);
    if (executors > 1)
        (void)printf("%d executors side by side: times are those of one\n", executors);
}

static void collect(const sr_engine *e, sr_node_profile *nodes, int capacity, table *t) {
    for (int i = 0; i < e->executor_count; i++) {
        int count = sr_executor_get_profile(e->executors[i], nodes, capacity);
        add(t, nodes, count < capacity ? count : capacity);
    }
}

sr_status sr_step_profile(const sr_engine *e, int steps, double seconds) {
    int capacity = 0;
    sr_status status = SR_E_MEMORY;
    for (int i = 0; i < e->executor_count; i++) {
        int count = sr_executor_get_profile(e->executors[i], NULL, 0);
        capacity = count > capacity ? count : capacity;
    }
    size_t most = (size_t)capacity + 1;
    table t = {.rows = sr_alloc_array(most * (size_t)e->executor_count, sizeof(row), "profile")};
    sr_node_profile *nodes = sr_alloc_array(most, sizeof *nodes, "profile");
    if (t.rows && nodes) {
        collect(e, nodes, capacity, &t);
        qsort(t.rows, (size_t)t.count, sizeof *t.rows, slower_first);
        print(&t, steps, seconds, e->executor_count);
        status = SR_OK;
    }
    sr_free(t.rows);
    sr_free(nodes);
    return status;
}
