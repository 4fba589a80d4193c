// SPDX-License-Identifier: Apache-2.0
// The plan of a step for a GPU as text: what each level gives, which kernels the time is in, and
// what the kernels as built read too much.
#include <stdio.h>
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
    const sr_dtype dtype = r->recipe->precision == SR_PRECISION_FP32 ? SR_F32 : SR_BF16;
    sr_text_add(out, "%s: %s, %lld px, batch %lld in %lld lane%s, %s, planned for %s\n",
                r->recipe->name, r->model, (long long)r->image, (long long)r->batch,
                (long long)r->lanes, r->lanes == 1 ? "" : "s", r->precision, g->model);
    sr_text_add(out,
                "limits: %.0f TFLOP/s on tensor cores%s, %.1f in fp32 without FMA, %.2f TB/s, %.0f "
                "us a launch\n        (%s)\n",
                1e-12 * sr_gpu_flop_rate(g, SR_GPU_TENSOR, dtype), dtype == SR_F32 ? " (TF32)" : "",
                1e-12 * sr_gpu_flop_rate(g, SR_GPU_SEPARATE, dtype), 1e-12 * g->bytes,
                1e6 * g->launch, g->source);
}

static void add_level(const sr_gpu_plan *p, int i, sr_text *out) {
    const sr_gpu_cost *c = &p->level[i].step;
    const double batch = (double)p->result->batch;
    sr_text_add(out, "%-6s", sr_gpu_steps[i].name);
    add_ms(out, c->seconds);
    sr_text_add(out, " %9.0f", batch / c->seconds);
    if (i > 0)
        sr_text_add(out, " %6.2fx", p->level[i - 1].step.seconds / c->seconds);
    else
        sr_text_add(out, " %7s", "");
    sr_text_add(out, " %8.2f %8.1f", 1e-9 * c->bytes, 1e-6 * c->bytes / batch);
    for (int b = 0; b < SR_GPU_BOUNDS; b++)
        sr_text_add(out, " %8.0f%%", percent(c->bound[b], c->seconds));
    sr_text_add(out, " %8.0f %6.2f\n", c->functions, p->level[i].memory / gib);
}

static void add_levels(const sr_gpu_plan *p, sr_text *out) {
    sr_text_add(out, "\n%-6s%9s %9s %7s %8s %8s %9s %9s %9s %8s %6s\n", "level", "limit, ms",
                "images/s", "gain", "GB", "MB/image", "by flops", "by bytes", "by launch",
                "launches", "GiB");
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
    sr_text_add(out, "\n%-28s", "limit, ms");
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

// ---- Kernels as built ----

static void add_built_row(const char *name, const sr_gpu_cost *c, sr_text *out) {
    sr_text_add(out, "%-28s %7.0f %8.2f %7.2fx %8.1f", name, c->kernels, 1e-9 * c->bytes,
                c->least > 0 ? c->bytes / c->least : 1, 1e-9 * c->flops);
    add_ms(out, c->by[SR_GPU_BY_BYTES]);
    add_ms(out, c->by[SR_GPU_BY_FLOPS]);
    add_ms(out, c->seconds);
    sr_text_add(out, "  %s\n", sr_gpu_bounds[sr_gpu_bound_of(c)]);
}

static void add_built(const sr_gpu_plan *p, sr_text *out) {
    sr_text_add(out, "\n%-28s %7s %8s %8s %8s%9s%9s%9s  %s\n", "as built", "kernels", "GB",
                "of least", "GFLOP", "bytes ms", "flops ms", "limit", "bound by");
    for (int row = 0; row < SR_GPU_FAMILIES; row++)
        if (!is_empty(p, family_at(row)))
            add_built_row(sr_gpu_family_name(family_at(row)), &p->level[0].family[family_at(row)],
                          out);
    add_built_row("step", &p->level[0].step, out);
}

// Operators that are bound by bytes and read more than their inputs once, in a level.
static void add_excess(const sr_gpu_plan *p, int level, sr_text *out) {
    const sr_gpu_program *program = &p->level[level].program;
    for (int i = 0; i < program->kernel_count; i++) {
        const sr_gpu_kernel *k = &program->kernels[i];
        bool first = k->why != NULL;
        for (int j = 0; j < i && first; j++)
            first = program->kernels[j].id != k->id || program->kernels[j].gone;
        const sr_gpu_cost c = sr_gpu_cost_of(program, k, p->gpu, sr_gpu_steps[level].rate);
        if (first && !k->gone && !sr_gpu_is_product(k))
            sr_text_add(out, "%s moves %.2fx its inputs and outputs: %s\n", k->op,
                        c.bytes / c.least, k->why);
    }
}

sr_status sr_gpu_report(const sr_gpu_plan *p) {
    sr_text text;
    sr_text_init(&text);
    add_head(p, &text);
    add_levels(p, &text);
    add_families(p, &text);
    add_built(p, &text);
    sr_text_add(&text, "\n");
    add_excess(p, 0, &text);
    sr_text_add(&text,
                "gain: over the level above. by flops, bytes, launch: share of the limit that is "
                "due to each.\nof least: inputs read once and outputs written once. Workspaces and "
                "caches are not counted.\n--json lists the kernels of every level.\n");
    return sr_command_print(SR_OK, &text);
}
