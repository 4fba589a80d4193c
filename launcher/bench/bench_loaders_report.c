// SPDX-License-Identifier: Apache-2.0
// The report on other data loaders: rows, JSON and the headline.
#include <stdio.h>

#include "launcher/bench/bench_loaders_internal.h"

static double ratio(const sr_series *ours, const sr_series *theirs) {
    return sr_series_median(ours) / sr_series_median(theirs);
}

void sr_loaders_add_head(sr_text *out) {
    sr_text_add(out, "%-56s %9s %9s %9s %10s %8s\n", "images/s", "median", "min", "max",
                "processors", "ratio");
}

void sr_loaders_add_row(sr_text *out, const char *name, const sr_series *s, double busy,
                        const sr_series *ours) {
    char processors[16] = "", beside[16] = "";
    if (busy > 0)
        (void)snprintf(processors, sizeof processors, "%.2f", busy);
    if (ours)
        (void)snprintf(beside, sizeof beside, "%.2fx", ratio(ours, s));
    sr_text_add(out, "%-56s %9.0f %9.0f %9.0f %10s %8s\n", name, sr_series_median(s),
                sr_series_min(s), sr_series_max(s), processors, beside);
}

void sr_loaders_add_rows(const sr_loaders *l, const sr_series *ours, sr_text *out) {
    char bytes[16], name[256];
    for (int i = 0; i < SR_LOADERS; i++) {
        const sr_loader *p = &l->list[i];
        if (p->reason[0]) {
            sr_text_add(out, "%s, %s: not measured: %s\n", p->name,
                        p->pinned ? "pinned" : "not pinned", p->reason);
            continue;
        }
        for (int k = 0; k < SR_LOADER_KINDS; k++) {
            (void)snprintf(name, sizeof name, "%s, %s, %s", p->title, sr_loader_kind_names[k],
                           p->setting);
            sr_loaders_add_row(out, name, &p->per_s[k], sr_series_median(&p->busy[k]), &ours[k]);
        }
        if (p->picture_bytes > 0)
            sr_text_add(out, "    %s per picture\n",
                        sr_text_bytes((uint64_t)p->picture_bytes, bytes));
    }
}

void sr_loaders_add_series(sr_text *out, const char *name, const sr_series *s) {
    sr_text_add(out, ", \"%s\": {\"median\": %.2f, \"min\": %.2f, \"max\": %.2f}", name,
                sr_series_median(s), sr_series_min(s), sr_series_max(s));
}

static void add_loader(const sr_loader *p, const sr_series *ours, sr_text *out) {
    sr_text_add(out, "{\"name\": ");
    sr_text_add_json_string(out, p->name);
    sr_text_add(out, ", \"pinned\": %s", p->pinned ? "true" : "false");
    if (p->reason[0]) {
        sr_text_add(out, ", \"not_measured\": ");
        sr_text_add_json_string(out, p->reason);
    } else {
        sr_text_add(out, ", \"version\": ");
        sr_text_add_json_string(out, p->title);
        sr_text_add(out, ", \"setting\": ");
        sr_text_add_json_string(out, p->setting);
        sr_text_add(out, ", \"bytes_per_picture\": %.0f, \"pictures\": %.0f", p->picture_bytes,
                    p->pictures);
        for (int k = 0; k < SR_LOADER_KINDS; k++) {
            sr_loaders_add_series(out, sr_loader_kind_keys[k], &p->per_s[k]);
            sr_text_add(out, ", \"%s_ratio\": %.4f, \"%s_processors\": %.3f",
                        sr_loader_kind_names[k], ratio(&ours[k], &p->per_s[k]),
                        sr_loader_kind_names[k], sr_series_median(&p->busy[k]));
        }
    }
    sr_text_add(out, "}");
}

void sr_loaders_add_json(const sr_loaders *l, const sr_series *ours, sr_text *out) {
    sr_text headline;
    sr_text_init(&headline);
    sr_loaders_headline(l, ours, &headline);
    sr_text_add(out, ", \"headline\": ");
    sr_text_add_json_string(out, headline.data);
    sr_text_release(&headline);
    sr_text_add(out, ", \"peers\": [");
    for (int i = 0; i < SR_LOADERS; i++) {
        sr_text_add(out, "%s", i ? ", " : "");
        add_loader(&l->list[i], ours, out);
    }
    sr_text_add(out, "]");
}

void sr_loaders_headline(const sr_loaders *l, const sr_series *ours, sr_text *out) {
    for (int k = 0; k < SR_LOADER_KINDS; k++) {
        const int best = sr_loaders_fastest(l, k);
        sr_text_add(out, "%s", k ? "; " : "");
        if (best < 0) {
            sr_text_add(out, "no loader was measured as %s", sr_loader_kind_names[k]);
            continue;
        }
        const sr_loader *p = &l->list[best];
        sr_text_add(out, "%.2fx the fastest loader as %s (%s, %s)", ratio(&ours[k], &p->per_s[k]),
                    sr_loader_kind_names[k], p->title, p->setting);
    }
}
