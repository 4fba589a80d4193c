// SPDX-License-Identifier: Apache-2.0
// What serried bench step found, as one JSON object.
#include <stdio.h>

#include "kernels/base/cpuid.h"
#include "launcher/bench_step_internal.h"

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

static void add_tries(sr_text *out, const sr_step_result *r) {
    sr_text_add(out, ", \"peer_tried\": [");
    for (int i = 0; i < r->try_count; i++) {
        const sr_step_try *t = &r->tries[i];
        sr_text_add(out, "%s{\"setting\": ", i ? ", " : "");
        sr_text_add_json_string(out, t->setting);
        if (t->images_per_s > 0)
            add_number(out, "images_per_s", t->images_per_s);
        else
            add_text(out, "not_measured", t->reason);
        sr_text_add(out, "}");
    }
    sr_text_add(out, "]");
}

static void add_peer(sr_text *out, const sr_step_result *r) {
    add_tries(out, r);
    if (r->theirs.count == 0) {
        sr_text_add(out, ", \"peer\": null");
        add_text(out, "peer_not_measured", r->peer_reason);
        return;
    }
    sr_text_add(out, ", \"peer\": {\"about\": %s, \"processes\": %d", r->peers.about,
                r->peers.count);
    add_series(out, &r->theirs, &r->their_cpu);
    if (r->their_memory > 0)
        add_number(out, "memory_bytes", r->their_memory);
    sr_text_add(out, "}");
    add_number(out, "ratio", sr_series_median(&r->ours) / sr_series_median(&r->theirs));
    if (r->their_memory > 0)
        add_number(out, "memory_ratio", r->our_memory / r->their_memory);
    else
        add_text(out, "peer_memory_not_measured", r->peer_reason);
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
    sr_status status = sr_text_check(&out);
    if (status == SR_OK)
        (void)fputs(out.data, stdout);
    sr_text_release(&out);
    sr_text_release(&providers);
    return status;
}
