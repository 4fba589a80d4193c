// SPDX-License-Identifier: Apache-2.0
// The result of serried bench step as one JSON object.
#include <stdio.h>

#include "kernels/base/cpuid.h"
#include "launcher/bench/bench_step_internal.h"
#include "launcher/commands/command.h"

static void add_series(sr_text *out, const sr_series *s, const sr_series *cpu) {
    sr_text_add_json_number_member(out, "processor_seconds_per_step", sr_series_median(cpu));
    sr_text_add_json_number_member(out, "images_per_s", sr_series_median(s));
    sr_text_add_json_number_member(out, "images_per_s_min", sr_series_min(s));
    sr_text_add_json_number_member(out, "images_per_s_max", sr_series_max(s));
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
    sr_text_add_json_string_member(out, "mode", s->mode);
    sr_text_add_json_string_member(out, "precision", s->precision);
    sr_text_add_json_number_member(out, "processes", s->processes);
    sr_text_add_json_number_member(out, "threads", s->threads);
    sr_text_add_json_number_member(out, "passes", s->passes);
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
            sr_text_add_json_string_member(out, "not_measured", t->reason);
        } else {
            sr_text_add_json_number_member(out, "images_per_s", sr_series_median(&t->per_s));
            sr_text_add_json_number_member(out, "ratio", 1 / sr_series_median(&t->share));
        }
        sr_text_add(out, "}");
    }
    sr_text_add(out, "], \"peer_setting_count\": %d", r->setting_count);
}

static void add_final(sr_text *out, const sr_step_result *r, int i) {
    const sr_step_final *f = &r->finals[i];
    add_setting(out, f->text, &f->setting);
    if (f->reason[0]) {
        sr_text_add_json_string_member(out, "not_measured", f->reason);
    } else {
        sr_text_add(out, ", \"about\": %s", f->peers.about);
        add_series(out, &f->per_s, &f->cpu);
        sr_text_add_json_number_member(out, "ratio", sr_step_ratio(r, i));
    }
    sr_text_add(out, "}");
}

static void add_ratio(sr_text *out, const sr_step_result *r, const char *name, int final) {
    if (final >= 0)
        sr_text_add_json_number_member(out, name, sr_step_ratio(r, final));
    else
        sr_text_add(out, ", \"%s\": null", name);
}

static void add_headline(sr_text *out, const sr_step_result *r) {
    sr_text line;
    sr_text_init(&line);
    sr_step_headline(r, &line);
    sr_text_add_json_string_member(out, "headline", line.data);
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
        sr_text_add_json_string_member(out, "peer_not_measured", r->peer_reason);
        return;
    }
    sr_text_add(out, ", \"peer\": ");
    add_final(out, r, best);
    add_ratio(out, r, "ratio", best);
    add_ratio(out, r, "ratio_equal_groups", sr_step_fastest(r, sr_step_equal_groups));
    add_ratio(out, r, "ratio_other_groups", sr_step_fastest(r, sr_step_other_groups));
    add_ratio(out, r, "ratio_other_precision", sr_step_fastest(r, sr_step_other_precision));
    if (r->their_memory > 0) {
        sr_text_add_json_number_member(out, "peer_memory_bytes", r->their_memory);
        sr_text_add_json_number_member(out, "memory_ratio", r->our_memory / r->their_memory);
    } else {
        sr_text_add_json_string_member(out, "peer_memory_not_measured", r->memory_reason);
    }
}

static void add_costs(sr_text *out, const sr_step_result *r) {
    sr_text_add_json_number_member(out, "operators", r->operators);
    sr_text_add_json_number_member(out, "flops_per_step", r->flops);
    sr_text_add_json_number_member(out, "bytes_per_step", r->bytes);
    sr_text_add_json_number_member(out, "limit_flops", r->limits.flops);
    sr_text_add_json_number_member(out, "limit_bytes_per_s", r->limits.copy_rate);
    sr_text_add_json_number_member(out, "share_of_flop_limit", sr_step_flop_share(r));
    sr_text_add_json_number_member(out, "share_of_copy_limit", sr_step_byte_share(r));
    sr_text_add_json_number_member(out, "planned_peak_bytes", (double)r->peak_bytes);
    sr_text_add_json_number_member(out, "live_bound_bytes", (double)r->live_bound_bytes);
    sr_text_add_json_number_member(out, "record_ns_per_operator", r->record_ns);
    sr_text_add_json_number_member(out, "hash_ns_per_operator", r->hash_ns);
    sr_text_add_json_number_member(out, "repeated_operators", r->repeated);
    sr_text_add_json_number_member(out, "compile_ns_per_operator", r->compile_ns);
    sr_text_add_json_number_member(out, "prepare_s", r->prepare_seconds);
    sr_text_add_json_number_member(out, "allocations_per_step", r->allocations);
    sr_text_add_json_number_member(out, "first_step_seconds", r->first_seconds);
    sr_text_add_json_number_member(out, "cores_used_by_others", r->others);
}

static void add_result(sr_text *out, const sr_step_result *r, const char *providers) {
    char features[80];
    sr_text_add(out, "{\"benchmark\": \"step\", \"version\": \"" SR_VERSION "\"");
    sr_text_add_json_string_member(out, "recipe", r->recipe->name);
    sr_text_add_json_string_member(out, "model", r->model);
    sr_text_add_json_string_member(out, "precision", r->precision);
    sr_text_add_json_string_member(out, "device", r->device->name);
    sr_text_add_json_string_member(out, "device_model", r->device->model);
    sr_text_add_json_string_member(out, "processor", sr_cpu_model());
    sr_text_add_json_string_member(out, "features",
                                   sr_cpu_features_text(sr_cpu_features(), features));
    sr_text_add_json_string_member(out, "hidden_features", r->mask ? r->mask : "");
    sr_text_add_json_string_member(out, "kernels", providers);
    sr_text_add_json_number_member(out, "image", (double)r->image);
    sr_text_add_json_number_member(out, "batch", (double)r->batch);
    sr_text_add_json_number_member(out, "lanes", (double)r->lanes);
    sr_text_add_json_number_member(out, "lanes_at_once", r->lanes_at_once);
    sr_text_add_json_number_member(out, "threads", r->threads);
    sr_text_add_json_number_member(out, "cores", r->cores);
    sr_text_add_json_number_member(out, "steps_per_block", r->steps);
    add_series(out, &r->ours, &r->our_cpu);
    sr_text_add_json_number_member(out, "memory_bytes", r->our_memory);
    add_peer(out, r);
    add_costs(out, r);
}

sr_status sr_step_report_json(const sr_step_result *r, const sr_step_profile *profile, int depth) {
    sr_text out, providers;
    sr_text_init(&out);
    sr_text_init(&providers);
    sr_step_add_providers(&providers);
    add_result(&out, r, providers.data);
    if (profile)
        sr_step_profile_add_json(profile, depth, &out);
    sr_text_add(&out, "}\n");
    sr_text_release(&providers);
    return sr_command_print(SR_OK, &out);
}
