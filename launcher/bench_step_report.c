// SPDX-License-Identifier: Apache-2.0
// What serried bench step found, as a table and as JSON.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/text.h"
#include "kernels/kernel.h"
#include "launcher/bench_step_internal.h"

static bool has_peer(const sr_step_result *r) {
    return r->theirs.count > 0;
}

// "reference, oneDNN 2.6.3, x86"
static void add_providers(sr_text *out) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++)
        sr_text_add(out, "%s%s", i ? ", " : "",
                    providers[i]->version ? providers[i]->version() : providers[i]->name);
}

static double flop_share(const sr_step_result *r) {
    double rate = r->flops * sr_series_median(&r->ours) / (double)r->batch;
    return r->limits.flops > 0 ? rate / r->limits.flops : (double)NAN;
}

static double ratio(const sr_step_result *r) {
    return sr_series_median(&r->ours) / sr_series_median(&r->theirs);
}

static void print_head(const sr_step_result *r, const char *providers) {
    char features[80];
    (void)printf("%s: %s, %lld px, batch %lld in %lld lane%s, %s, %d thread%s\n", r->recipe->name,
                 r->model, (long long)r->image, (long long)r->batch, (long long)r->lanes,
                 r->lanes == 1 ? "" : "s", r->precision, r->threads, r->threads == 1 ? "" : "s");
    (void)printf("%s, %d core%s (%s)\n", sr_cpu_model(), r->cores, r->cores == 1 ? "" : "s",
                 sr_cpu_features_text(sr_cpu_features(), features));
    (void)printf("kernels: %s\n\n", providers);
}

static void print_series(const char *name, const sr_step_result *r, const sr_series *s,
                         const sr_series *cpu) {
    double median = sr_series_median(s);
    (void)printf("%-20s %9.2f %9.2f %9.2f %11.1f %13.1f\n", name, median, sr_series_min(s),
                 sr_series_max(s), 1e3 * (double)r->batch / median, 1e3 * sr_series_median(cpu));
}

static void print_speeds(const sr_step_result *r) {
    (void)printf("%-20s %9s %9s %9s %11s %13s\n", "images/s", "median", "min", "max", "ms a step",
                 "of processors");
    print_series("serried " SR_VERSION, r, &r->ours, &r->our_cpu);
    if (!has_peer(r)) {
        (void)printf("%-20s not measured: %s\n", "PyTorch", r->peer_reason);
        return;
    }
    print_series("PyTorch", r, &r->theirs, &r->their_cpu);
    (void)printf("%-20s %9.3f\n", "ratio of medians", ratio(r));
    (void)printf("\nPyTorch: %s, %d process%s\n", r->peer_about, r->peer_count,
                 r->peer_count == 1 ? "" : "es");
}

static void print_costs(const sr_step_result *r) {
    char peak[16], bound[16];
    double per_second = sr_series_median(&r->ours) / (double)r->batch;
    (void)printf("\n%d operators a lane, %.1f GFLOP and %.2f GB touched a step\n", r->operators,
                 r->flops * 1e-9, r->bytes * 1e-9);
    if (r->limits.flops > 0)
        (void)printf("%.1f GFLOP/s, %.0f %% of the measured limit of %.1f (fp32 multiply-adds)\n",
                     r->flops * per_second * 1e-9, 100 * flop_share(r), r->limits.flops * 1e-9);
    (void)printf("%.1f GB/s touched; the measured copy limit is %.1f\n",
                 r->bytes * per_second * 1e-9, r->limits.copy_rate * 1e-9);
    (void)printf("activations of a lane: %s planned, %s live at once at least\n",
                 sr_text_bytes(r->peak_bytes, peak), sr_text_bytes(r->live_bound_bytes, bound));
    (void)printf("own cost of an operator: %.0f ns recorded, %.0f ns hashed and found\n",
                 r->record_ns, r->hash_ns);
    (void)printf("allocations of a replayed step: %g; the first step took %.2f s\n", r->allocations,
                 r->first_seconds);
}

void sr_step_report(const sr_step_result *r) {
    sr_text providers;
    sr_text_init(&providers);
    add_providers(&providers);
    print_head(r, providers.data);
    sr_text_release(&providers);
    print_speeds(r);
    print_costs(r);
    (void)printf("%d blocks of %d step%s; other processes used up to %.0f %% of the cores\n",
                 r->ours.count, r->steps, r->steps == 1 ? "" : "s", 100 * r->others);
#ifndef NDEBUG
    (void)printf("This is a debug build: its speed says nothing.\n");
#endif
    (void)fflush(stdout);
}

// ---- JSON ----

static void add_number(sr_text *out, const char *name, double value) {
    sr_text_add(out, ", \"%s\": ", name);
    sr_text_add_json_number(out, value);
}

static void add_text(sr_text *out, const char *name, const char *value) {
    sr_text_add(out, ", \"%s\": ", name);
    sr_text_add_json_string(out, value);
}

static void add_series(sr_text *out, const sr_series *s, const sr_series *cpu) {
    add_number(out, "processor_seconds_per_step", sr_series_median(cpu));
    add_number(out, "images_per_s", sr_series_median(s));
    add_number(out, "images_per_s_min", sr_series_min(s));
    add_number(out, "images_per_s_max", sr_series_max(s));
    sr_text_add(out, ", \"blocks\": [");
    for (int i = 0; i < s->count; i++) {
        sr_text_add(out, "%s", i ? ", " : "");
        sr_text_add_json_number(out, s->values[i]);
    }
    sr_text_add(out, "]");
}

static void add_peer(sr_text *out, const sr_step_result *r) {
    if (!has_peer(r)) {
        sr_text_add(out, ", \"peer\": null");
        add_text(out, "peer_not_measured", r->peer_reason);
        return;
    }
    sr_text_add(out, ", \"peer\": {\"about\": %s, \"processes\": %d", r->peer_about, r->peer_count);
    add_series(out, &r->theirs, &r->their_cpu);
    sr_text_add(out, "}");
    add_number(out, "ratio", ratio(r));
}

static void add_costs(sr_text *out, const sr_step_result *r) {
    add_number(out, "operators", r->operators);
    add_number(out, "flops_per_step", r->flops);
    add_number(out, "bytes_per_step", r->bytes);
    add_number(out, "limit_flops", r->limits.flops);
    add_number(out, "limit_bytes_per_s", r->limits.copy_rate);
    add_number(out, "share_of_flop_limit", flop_share(r));
    add_number(out, "planned_peak_bytes", (double)r->peak_bytes);
    add_number(out, "live_bound_bytes", (double)r->live_bound_bytes);
    add_number(out, "record_ns_per_operator", r->record_ns);
    add_number(out, "hash_ns_per_operator", r->hash_ns);
    add_number(out, "allocations_per_step", r->allocations);
    add_number(out, "first_step_seconds", r->first_seconds);
    add_number(out, "cores_used_by_others", r->others);
}

sr_status sr_step_report_json(const sr_step_result *r) {
    sr_text out, providers;
    sr_text_init(&out);
    sr_text_init(&providers);
    add_providers(&providers);
    sr_text_add(&out, "{\"benchmark\": \"step\", \"version\": \"" SR_VERSION "\"");
    add_text(&out, "recipe", r->recipe->name);
    add_text(&out, "model", r->model);
    add_text(&out, "precision", r->precision);
    add_text(&out, "processor", sr_cpu_model());
    add_text(&out, "kernels", providers.data);
    add_number(&out, "image", (double)r->image);
    add_number(&out, "batch", (double)r->batch);
    add_number(&out, "lanes", (double)r->lanes);
    add_number(&out, "threads", r->threads);
    add_number(&out, "cores", r->cores);
    add_number(&out, "steps_per_block", r->steps);
    add_series(&out, &r->ours, &r->our_cpu);
    add_peer(&out, r);
    add_costs(&out, r);
    sr_text_add(&out, "}\n");
    sr_status status = sr_text_check(&out);
    if (status == SR_OK)
        (void)fputs(out.data, stdout);
    sr_text_release(&out);
    sr_text_release(&providers);
    return status;
}
