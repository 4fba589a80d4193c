// SPDX-License-Identifier: Apache-2.0
// The plan of a step for a GPU as text: what each level gives, which kernels the time of those that
// exist is in, and what they read too much.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/bench/bench_gpu_internal.h"
#include "launcher/commands/command.h"

static const double gib = 1073741824.0;

// In the order of rows: the last one is what is in no other.
static sr_gpu_family family_at(int row) {
    return (sr_gpu_family)((row + 1) % SR_GPU_FAMILIES);
}

static double percent(double part, double of) {
    return of > 0 ? 100 * part / of : 0;
}

// Milliseconds in 9 columns.
static void add_ms(sr_text *out, double seconds) {
    const double ms = 1e3 * seconds;
    sr_text_add(out, "%9.*f", ms < 100 ? 2 : 1, ms);
}

static void add_head(const sr_gpu_plan *p, sr_text *out) {
    const sr_step_result *r = p->result;
    const sr_gpu *g = p->gpu;
    const bool full = r->recipe->precision == SR_PRECISION_FP32;
    const bool tf32 = full && r->recipe->numerics_tf32;
    sr_text_add(out, "%s: %s, %lld px, batch %lld in %lld lane%s", r->recipe->name, r->model,
                (long long)r->image, (long long)r->batch, (long long)r->lanes,
                r->lanes == 1 ? "" : "s");
    if (r->lanes > 1)
        sr_text_add(out, " (%d at once)", p->at_once);
    sr_text_add(out, ", %s\npredicted for %s: ", r->precision, g->model);
    if (tf32)
        sr_text_add(out, "%.0f TFLOP/s on tensor cores in TF32", 1e-12 * g->tensor_tf32);
    else if (full)
        sr_text_add(out, "%.1f TFLOP/s in fp32 without FMA",
                    1e-12 * sr_gpu_flop_rate(g, SR_GPU_reference, SR_F32));
    else
        sr_text_add(out, "%.0f TFLOP/s on tensor cores, %.0f by mma.sync", 1e-12 * g->tensor_16,
                    1e-12 * g->warp_16);
    sr_text_add(out,
                "; %.2f TB/s,\n  of which own kernels reach %.0f %%; %.2f us a launch\n  (%s)\n",
                1e-12 * g->bytes, 100 * g->own, 1e6 * g->launch, g->source);
}

static void add_level(const sr_gpu_plan *p, int i, sr_text *out) {
    const sr_gpu_cost *c = &p->level[i].step;
    const double batch = (double)p->result->batch;
    sr_text_add(out, "%-6s", sr_gpu_steps[i].name);
    add_ms(out, c->seconds);
    sr_text_add(out, " %8.0f", batch / c->seconds);
    if (i > 0)
        sr_text_add(out, " %5.2fx", p->level[i - 1].step.seconds / c->seconds);
    else
        sr_text_add(out, " %6s", "");
    sr_text_add(out, " %7.2f %8.1f", 1e-9 * c->bytes, 1e-6 * c->bytes / batch);
    for (int b = 0; b < SR_GPU_BOUNDS; b++)
        sr_text_add(out, " %7.0f%%", percent(c->bound[b], c->seconds));
    sr_text_add(out, " %8.0f %6.2f\n", c->functions, p->level[i].memory / gib);
}

static void add_levels(const sr_gpu_plan *p, sr_text *out) {
    sr_text_add(out, "\n%-6s%9s %8s %6s %7s %8s", "level", "ms", "images/s", "gain", "GB",
                "MB/image");
    for (int b = 0; b < SR_GPU_BOUNDS; b++)
        sr_text_add(out, " %8s", sr_gpu_bounds[b]);
    sr_text_add(out, " %8s %6s\n", "launches", "GiB");
    for (int i = 0; i < SR_GPU_LEVELS; i++)
        add_level(p, i, out);
    for (int i = 0; i < SR_GPU_LEVELS; i++)
        if (p->level[i].memory > p->gpu->memory)
            sr_text_add(out, "level %s needs more than the %.0f GiB of this GPU\n",
                        sr_gpu_steps[i].name, p->gpu->memory / gib);
    sr_text_add(out, "\n");
    for (int i = 0; i < SR_GPU_LEVELS; i++)
        sr_text_add(out, "%-6s %s\n", sr_gpu_steps[i].name, sr_gpu_steps[i].what);
}

// ---- Families ----

static bool is_empty(const sr_gpu_plan *p, sr_gpu_family family) {
    return !(p->level[0].family[family].kernels > 0);
}

static void add_families(const sr_gpu_plan *p, sr_text *out) {
    sr_text_add(out, "\n%-28s", "ms");
    for (int i = 0; i < SR_GPU_LEVELS; i++)
        sr_text_add(out, "%9s", sr_gpu_steps[i].name);
    sr_text_add(out, "\n");
    for (int row = 0; row < SR_GPU_FAMILIES; row++) {
        if (is_empty(p, family_at(row)))
            continue;
        sr_text_add(out, "%-28s", sr_gpu_family_name(family_at(row)));
        for (int i = 0; i < SR_GPU_LEVELS; i++)
            add_ms(out, p->level[i].family[family_at(row)].seconds);
        sr_text_add(out, "\n");
    }
}

// ---- Kernels that exist ----

enum { MOST_ROWS = 64 };

// Launches of one operator and class.
typedef struct built_row {
    const char *op;
    sr_gpu_class numerics;
    bool update;
    sr_gpu_cost cost;
} built_row;

static built_row *row_of(built_row *rows, int *count, const sr_gpu_kernel *k) {
    int i = 0;
    while (i < *count && (strcmp(rows[i].op, k->op) != 0 || rows[i].numerics != k->numerics))
        i++;
    if (i == *count && i < MOST_ROWS)
        rows[(*count)++] =
            (built_row){.op = k->op, .numerics = k->numerics, .update = k->family == SR_GPU_UPDATE};
    return &rows[i < MOST_ROWS ? i : MOST_ROWS - 1];
}

static int by_time(const void *a, const void *b) {
    const double x = ((const built_row *)a)->cost.seconds, y = ((const built_row *)b)->cost.seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int gather_rows(const sr_gpu_plan *p, built_row rows[MOST_ROWS]) {
    const sr_gpu_program *program = &p->level[0].program;
    int count = 0;
    for (int i = 0; i < program->kernel_count; i++) {
        const sr_gpu_cost c = sr_gpu_cost_of(program, &program->kernels[i], p->gpu);
        sr_gpu_cost_add(&row_of(rows, &count, &program->kernels[i])->cost, &c);
    }
    qsort(rows, (size_t)count, sizeof *rows, by_time);
    return count;
}

static void add_built_row(const char *name, const sr_gpu_cost *c, sr_text *out) {
    sr_text_add(out, "%-37s %8.0f %6.2f %7.2f", name, c->functions, 1e-9 * c->bytes,
                1e-9 * c->cached);
    for (int i = 0; i < SR_GPU_BY_LAUNCH; i++)
        sr_text_add(out, " %6.2f", 1e3 * c->by[i]);
    sr_text_add(out, " %7.2f  %s\n", 1e3 * c->seconds, sr_gpu_bounds[sr_gpu_bound_of(c)]);
}

static void add_built(const sr_gpu_plan *p, sr_text *out) {
    built_row rows[MOST_ROWS];
    const int count = gather_rows(p, rows);
    sr_text_add(out, "\n%-37s %8s %6s %7s %6s %6s %6s %7s  %s\n", "built", "launches", "GB",
                "from L2", "flops", "bytes", "measd.", "ms", "most by");
    for (int i = 0; i < count; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, rows[i].update ? "%s" : "%s (%s)", rows[i].op,
                       sr_gpu_class_name(rows[i].numerics));
        add_built_row(name, &rows[i].cost, out);
    }
    add_built_row("step", &p->level[0].step, out);
}

// Operators that read more than their inputs once, of those that are not bound by products.
static void add_excess(const sr_gpu_plan *p, sr_text *out) {
    const sr_gpu_program *program = &p->level[0].program;
    for (int i = 0; i < program->kernel_count; i++) {
        const sr_gpu_kernel *k = &program->kernels[i];
        bool first = k->why != NULL;
        for (int j = 0; j < i && first; j++)
            first = program->kernels[j].why == NULL || program->kernels[j].id != k->id;
        const sr_gpu_cost c = sr_gpu_cost_of(program, k, p->gpu);
        if (first && !sr_gpu_is_product(k))
            sr_text_add(out, "%s moves %.2fx its inputs and outputs: %s\n", k->op,
                        c.bytes / c.least, k->why);
    }
}

// What the step would take if branches of graphs gained nothing, or our own kernels were as fast as
// a copy; and what the host needs.
static void add_bounds(const sr_gpu_plan *p, sr_text *out) {
    const sr_gpu_program *program = &p->level[0].program;
    sr_gpu gpu = *p->gpu;
    double in_turn = 0, fast = 0;
    gpu.own = 1;
    for (int i = 0; i < program->kernel_count; i++) {
        sr_gpu_kernel k = program->kernels[i];
        fast += sr_gpu_cost_of(program, &k, &gpu).seconds;
        k.measured = k.in_turn;
        in_turn += sr_gpu_cost_of(program, &k, p->gpu).seconds;
    }
    sr_text_add(out, "built, with lanes in turn where a kernel takes one at a time: %.2f ms\n",
                1e3 * in_turn);
    sr_text_add(out, "built, with own kernels as fast as a copy: %.2f ms\n", 1e3 * fast);
    sr_text_add(out, "a host enqueues the launches of 'built' in %.2f ms, one by one\n",
                1e3 * p->level[0].step.functions * gpu.enqueue);
}

sr_status sr_gpu_report(const sr_gpu_plan *p) {
    sr_text text;
    sr_text_init(&text);
    add_head(p, &text);
    add_levels(p, &text);
    add_families(p, &text);
    add_built(p, &text);
    sr_text_add(&text, "\n");
    add_bounds(p, &text);
    add_excess(p, &text);
    sr_text_add(
        &text, "gain: over the level above. flops, bytes, measured, launch: share of the time that "
               "each takes.\nIn the last table: milliseconds by each alone; ms: the longest of a "
               "launch, and the launch.\n--json lists the kernels of every level.\n");
    return sr_command_print(SR_OK, &text);
}
