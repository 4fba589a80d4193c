// SPDX-License-Identifier: Apache-2.0
// The result of serried bench step: a table with lines below it, as text or Markdown.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/cpuid.h"
#include "kernels/kernel.h"
#include "launcher/bench/bench_step_internal.h"
#include "launcher/commands/command.h"

enum { COLUMNS = 9, NAME_WIDTH = 20, CELL = SR_STEP_TEXT };

static const int widths[COLUMNS] = {NAME_WIDTH, 9, 9, 9, 11, 13, 11, 8, 0};

typedef struct table_row {
    char cell[COLUMNS][CELL]; // the last is a remark
} table_row;

typedef struct report {
    const sr_step_result *r;
    sr_text text;
    bool markdown;
} report;

// ---- Figures ----

static double images_per_s(const sr_step_result *r) {
    return sr_series_median(&r->ours);
}

double sr_step_flop_share(const sr_step_result *r) {
    double rate = r->flops * images_per_s(r) / (double)r->batch;
    return r->limits.flops > 0 ? rate / r->limits.flops : (double)NAN;
}

double sr_step_byte_share(const sr_step_result *r) {
    double rate = r->bytes * images_per_s(r) / (double)r->batch;
    return r->limits.copy_rate > 0 ? rate / r->limits.copy_rate : (double)NAN;
}

bool sr_step_is_on_cpu(const sr_step_result *r) {
    return !r->device || r->device->kind == SR_DEVICE_CPU;
}

void sr_step_add_providers(sr_text *out) {
    char text[SR_PROVIDER_TEXT];
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++)
        sr_text_add(out, "%s%s", i ? ", " : "", sr_provider_numerics(providers[i], text));
    if (sr_kernels_portable())
        sr_text_add(out, "; portable numerics: class '%s' only", SR_KERNEL_REFERENCE);
}

// ---- The table ----

static void add_row(report *p, const table_row *line) {
    for (int i = 0; i < COLUMNS; i++) {
        const char *cell = line->cell[i];
        if (p->markdown)
            sr_text_add(&p->text, "%s%s%s", i ? " " : "| ", cell, cell[0] ? " |" : "|");
        else if (i == 0)
            sr_text_add(&p->text, "%-*s", widths[i], cell);
        else if (cell[0])
            sr_text_add(&p->text, i < COLUMNS - 1 ? " %*s" : "  %*s", widths[i], cell);
        else if (i < COLUMNS - 1)
            sr_text_add(&p->text, " %*s", widths[i], "");
    }
    while (p->text.length > 0 && p->text.data[p->text.length - 1] == ' ')
        p->text.data[--p->text.length] = '\0';
    sr_text_add(&p->text, "\n");
}

static void set(char cell[CELL], const char *fmt, ...) SR_PRINTF(2, 3);
static void set(char cell[CELL], const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(cell, CELL, fmt, args);
    va_end(args);
}

static void set_memory(char cell[CELL], double bytes) {
    char text[16];
    set(cell, "%s", bytes > 0 ? sr_text_bytes((uint64_t)bytes, text) : "-");
}

static table_row series_row(const sr_step_result *r, const char *name, const sr_series *s,
                            const sr_series *cpu) {
    table_row line = {{{0}}};
    double median = sr_series_median(s);
    set(line.cell[0], "%s", name);
    set(line.cell[1], "%.2f", median);
    set(line.cell[2], "%.2f", sr_series_min(s));
    set(line.cell[3], "%.2f", sr_series_max(s));
    set(line.cell[4], "%.1f", 1e3 * (double)r->batch / median);
    set(line.cell[5], "%.1f", 1e3 * sr_series_median(cpu));
    return line;
}

static void add_peer_row(report *p, int final) {
    const sr_step_result *r = p->r;
    const sr_step_final *f = &r->finals[final];
    if (f->reason[0] || f->per_s.count == 0)
        return;
    table_row line = series_row(r, f->peers.name, &f->per_s, &f->cpu);
    set(line.cell[7], "%.2fx", sr_step_ratio(r, final));
    set(line.cell[8], "%s", f->text);
    add_row(p, &line);
}

static void add_table(report *p) {
    const sr_step_result *r = p->r;
    static const table_row heads = {
        {"images/s", "median", "min", "max", "ms per step", "CPU ms", "memory", "ratio", ""}};
    add_row(p, &heads);
    if (p->markdown)
        sr_text_add(&p->text, "|---|---:|---:|---:|---:|---:|---:|---:|---|\n");
    table_row ours = series_row(r, "serried " SR_VERSION, &r->ours, &r->our_cpu);
    set_memory(ours.cell[6], r->our_memory);
    add_row(p, &ours);
    for (int i = 0; i < r->final_count; i++)
        add_peer_row(p, i);
    sr_text_add(&p->text, "\n");
}

// ---- Lines ----

static void add_line(report *p, const char *fmt, ...) SR_PRINTF(2, 3);
static void add_line(report *p, const char *fmt, ...) {
    char line[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    sr_text_add(&p->text, "%s%s\n", p->markdown ? "- " : "", line);
}

static void add_head(report *p) {
    const sr_step_result *r = p->r;
    char at_once[32] = "";
    if (r->lanes_at_once > 1)
        (void)snprintf(at_once, sizeof at_once, " (%d at once)", r->lanes_at_once);
    sr_text_add(&p->text, "%s%s: %s, %lld px, batch %lld in %lld lane%s%s, %s, %d thread%s%s\n%s",
                p->markdown ? "### " : "", r->recipe->name, r->model, (long long)r->image,
                (long long)r->batch, (long long)r->lanes, r->lanes == 1 ? "" : "s", at_once,
                r->precision, r->threads, r->threads == 1 ? "" : "s", r->mask ? ", masked" : "",
                p->markdown ? "\n" : "");
}

static void add_machine(report *p) {
    const sr_step_result *r = p->r;
    char features[80];
    sr_text providers;
    sr_text_init(&providers);
    sr_step_add_providers(&providers);
    add_line(p, "machine: %s, %d core%s (%s)", sr_cpu_model(), r->cores, r->cores == 1 ? "" : "s",
             sr_cpu_features_text(sr_cpu_features(), features));
    if (!sr_step_is_on_cpu(r))
        add_line(p, "device: %s, %s", r->device->name, r->device->model);
    if (r->mask)
        add_line(p, "hidden from serried and from PyTorch's libraries: %s", r->mask);
    add_line(p, "kernels: %s", providers.data);
    sr_text_release(&providers);
}

static void add_headline(report *p) {
    sr_text line;
    sr_text_init(&line);
    sr_step_headline(p->r, &line);
    add_line(p, "%s", line.data);
    sr_text_release(&line);
}

static void add_tries(report *p) {
    const sr_step_result *r = p->r;
    for (int i = 0; i < r->try_count; i++) {
        const sr_step_try *t = &r->tries[i];
        if (t->reason[0])
            add_line(p, "tried: %s: not measured: %s", t->text, t->reason);
        else
            add_line(p, "tried: %s: %.2f images/s, %.2fx", t->text, sr_series_median(&t->per_s),
                     1 / sr_series_median(&t->share));
    }
    for (int i = 0; i < r->final_count; i++)
        if (r->finals[i].reason[0])
            add_line(p, "%s: not measured: %s", r->finals[i].text, r->finals[i].reason);
}

static void add_peer_lines(report *p) {
    const sr_step_result *r = p->r;
    char bytes[16];
    const int best = sr_step_fastest(r, NULL);
    const bool same = strcmp(r->peer_precision, r->precision) == 0;
    add_headline(p);
    add_tries(p);
    if (best < 0)
        return;
    add_line(p, "PyTorch: %s vectors; medians of alternating blocks",
             r->finals[best].peers.capability);
    if (r->their_memory > 0) {
        add_line(p,
                 "memory: %.2fx the %s of PyTorch's eager mode%s%s with equal groups; process peak "
                 "minus what was resident before the model",
                 r->our_memory / r->their_memory, sr_text_bytes((uint64_t)r->their_memory, bytes),
                 same ? "" : " in ", same ? "" : r->peer_precision);
    } else {
        add_line(p, "memory: not measured for PyTorch: %s", r->memory_reason);
    }
}

static void add_costs(report *p) {
    const sr_step_result *r = p->r;
    char peak[16], bound[16];
    double per_second = images_per_s(r) / (double)r->batch;
    if (r->limits.flops > 0) {
        add_line(p,
                 "arithmetic: %.1f GFLOP per step, %.1f GFLOP/s, %.0f %% of the measured limit of "
                 "%.1f (%s)",
                 r->flops * 1e-9, r->flops * per_second * 1e-9, 100 * sr_step_flop_share(r),
                 r->limits.flops * 1e-9, r->limit_products);
    }
    if (r->limits.copy_rate > 0) {
        add_line(p,
                 "traffic: %.2f GB touched per step, %.1f GB/s, %.0f %% of the measured copy limit "
                 "of %.1f",
                 r->bytes * 1e-9, r->bytes * per_second * 1e-9, 100 * sr_step_byte_share(r),
                 r->limits.copy_rate * 1e-9);
    }
    add_line(p, "activations of a lane: %s planned, lower bound %s",
             sr_text_bytes(r->peak_bytes, peak), sr_text_bytes(r->live_bound_bytes, bound));
    add_line(p,
             "%d operators per lane; overhead of each: %.0f ns to record (%.0f %% repeat the "
             "previous step), %.0f ns to find the plan, %.1f us to compile once",
             r->operators, r->record_ns, 100 * r->repeated, r->hash_ns, 1e-3 * r->compile_ns);
    add_line(p,
             "allocations per replayed step: %g; the first step took %.2f s, of which preparing "
             "kernels %.2f",
             r->allocations, r->first_seconds, r->prepare_seconds);
    add_line(p, "%d blocks of %d step%s; other processes used up to %.0f %% of the cores",
             r->ours.count, r->steps, r->steps == 1 ? "" : "s", 100 * r->others);
#ifndef NDEBUG
    add_line(p, "This is a debug build: its speed is not representative.");
#endif
}

sr_status sr_step_report(const sr_step_result *r, bool markdown) {
    report p = {.r = r, .markdown = markdown};
    sr_text_init(&p.text);
    add_head(&p);
    if (!markdown)
        sr_text_add(&p.text, "\n");
    add_table(&p);
    add_peer_lines(&p);
    add_machine(&p);
    add_costs(&p);
    return sr_command_print(SR_OK, &p.text);
}
