// SPDX-License-Identifier: Apache-2.0
// The result of serried bench step as one JSON object.
#include <stdio.h>

#include "kernels/base/cpuid.h"
#include "launcher/bench/bench_step_internal.h"
#include "launcher/commands/command.h"

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

static void add_setting(sr_text *out, const char *text, const sr_step_setting *s) {
    sr_text_add(out, "{\"setting\": ");
    sr_text_add_json_string(out, text);
    add_text(out, "mode", s->mode);
    add_text(out, "precision", s->precision);
    add_number(out, "processes", s->processes);
    add_number(out, "threads", s->threads);
    add_number(out, "passes", s->passes);
    sr_text_add(out, ", \"pinned\": %s, \"equal_groups\": %s", s->pinned ? "true" : "false",
                s->equal_groups ? "true" : "false");
}

static void add_tries(sr_text *out, const sr_step_result *r) {
    sr_text_add(out, ", \"peer_tried\": [");
    for (int i = 0; i < r->try_count; i++) {
        const sr_step_try *t = &r->tries[i];
        sr_text_add(out, "%s", i ? ", " : "");
        add_setting(out, t->text, &t->setting);
        if (t->reason[0]) {
            add_text(out, "not_measured", t->reason);
        } else {
            add_number(out, "images_per_s", sr_series_median(&t->per_s));
            add_number(out, "ratio", 1 / sr_series_median(&t->share));
        }
        sr_text_add(out, "}");
    }
    sr_text_add(out, "], \"peer_setting_count\": %d", r->setting_count);
}

static void add_final(sr_text *out, const sr_step_result *r, int i) {
    const sr_step_final *f = &r->finals[i];
    add_setting(out, f->text, &f->setting);
    if (f->reason[0]) {
        add_text(out, "not_measured", f->reason);
    } else {
        sr_text_add(out, ", \"about\": %s", f->peers.about);
        add_series(out, &f->per_s, &f->cpu);
        add_number(out, "ratio", sr_step_ratio(r, i));
    }
    sr_text_add(out, "}");
}

static void add_ratio(sr_text *out, const sr_step_result *r, const char *name, int final) {
    if (final >= 0)
        add_number(out, name, sr_step_ratio(r, final));
    else
        sr_text_add(out, ", \"%s\": null", name);
}

static void add_headline(sr_text *out, const sr_step_result *r) {
    sr_text line;
    sr_text_init(&line);
    sr_step_headline(r, &line);
    add_text(out, "headline", line.data);
    sr_text_release(&line);
}

static void add_peer(sr_text *out, const sr_step_result *r) {
    const int best = sr_step_fastest(r, NULL);
    add_headline(out, r);
    add_tries(out, r);
    sr_text_add(out, ", \"peer_settings\": [");
    for (int i = 0; i < r->final_count; i++) {
        sr_text_add(out, "%s", i ? ", " : "");
        add_final(out, r, i);
    }
    sr_text_add(out, "]");
    if (best < 0) {
        sr_text_add(out, ", \"peer\": null");
        add_text(out, "peer_not_measured", r->peer_reason);
        return;
    }
    sr_text_add(out, ", \"peer\": ");
    add_final(out, r, best);
    add_ratio(out, r, "ratio", best);
    add_ratio(out, r, "ratio_equal_groups", sr_step_fastest(r, sr_step_equal_groups));
    add_ratio(out, r, "ratio_other_groups", sr_step_fastest(r, sr_step_other_groups));
    add_ratio(out, r, "ratio_other_precision", sr_step_fastest(r, sr_step_other_precision));
    if (r->their_memory > 0) {
        add_number(out, "peer_memory_bytes", r->their_memory);
        add_number(out, "memory_ratio", r->our_memory / r->their_memory);
    } else {
        add_text(out, "peer_memory_not_measured", r->memory_reason);
    }
}

static void add_costs(sr_text *out, const sr_step_result *r) {
    add_number(out, "operators", r->operators);
    add_number(out, "flops_per_step", r->flops);
    add_number(out, "bytes_per_step", r->bytes);
    add_number(out, "limit_flops", r->limits.flops);
    add_number(out, "limit_bytes_per_s", r->limits.copy_rate);
    add_number(out, "share_of_flop_limit", sr_step_flop_share(r));
    add_number(out, "share_of_copy_limit", sr_step_byte_share(r));
    add_number(out, "planned_peak_bytes", (double)r->peak_bytes);
    add_number(out, "live_bound_bytes", (double)r->live_bound_bytes);
    add_number(out, "record_ns_per_operator", r->record_ns);
    add_number(out, "hash_ns_per_operator", r->hash_ns);
    add_number(out, "repeated_operators", r->repeated);
    add_number(out, "compile_ns_per_operator", r->compile_ns);
    add_number(out, "prepare_s", r->prepare_seconds);
    add_number(out, "allocations_per_step", r->allocations);
    add_number(out, "first_step_seconds", r->first_seconds);
    add_number(out, "cores_used_by_others", r->others);
}

static void add_all(sr_text *out, const sr_step_result *r, const char *providers) {
    char features[80];
    sr_text_add(out, "{\"benchmark\": \"step\", \"version\": \"" SR_VERSION "\"");
    add_text(out, "recipe", r->recipe->name);
    add_text(out, "model", r->model);
    add_text(out, "precision", r->precision);
    add_text(out, "device", r->device->name);
    add_text(out, "device_model", r->device->model);
    add_text(out, "processor", sr_cpu_model());
    add_text(out, "features", sr_cpu_features_text(sr_cpu_features(), features));
    add_text(out, "hidden_features", r->mask ? r->mask : "");
    add_text(out, "kernels", providers);
    add_number(out, "image", (double)r->image);
    add_number(out, "batch", (double)r->batch);
    add_number(out, "lanes", (double)r->lanes);
    add_number(out, "threads", r->threads);
    add_number(out, "cores", r->cores);
    add_number(out, "steps_per_block", r->steps);
    add_series(out, &r->ours, &r->our_cpu);
    add_number(out, "memory_bytes", r->our_memory);
    add_peer(out, r);
    add_costs(out, r);
    sr_text_add(out, "}\n");
}

sr_status sr_step_report_json(const sr_step_result *r) {
    sr_text out, providers;
    sr_text_init(&out);
    sr_text_init(&providers);
    sr_step_add_providers(&providers);
    add_all(&out, r, providers.data);
    sr_text_release(&providers);
    return sr_command_print(SR_OK, &out);
}
