// SPDX-License-Identifier: Apache-2.0
// serried bench decode: the table, and JSON.
#include <stdio.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/text.h"
#include "launcher/bench_decode_internal.h"

static const char *const way_names[SR_DECODE_WAYS] = {"with the row index", "index ignored",
                                                      "whole pictures"};
static const char *const way_keys[SR_DECODE_WAYS] = {"indexed", "index_ignored", "whole"};
static const char *const kind_names[SR_DECODE_KINDS] = {"u8", "float"};
static const char *const kind_keys[SR_DECODE_KINDS] = {"images_per_s", "normalised_images_per_s"};
static const char *const stage_names[SR_DECODE_STAGES] = {
    "headers and tables", "entropy decoding", "inverse DCT",   "upsampling, colours",
    "libraries",          "crop and resize",  "records, rest", "normalising to float"};
static const char *const stage_keys[SR_DECODE_STAGES] = {
    "header", "entropy", "transform", "colour", "library", "resize", "rest", "normalise"};

static double micros(const sr_decode_bench *b, int way, int stage) {
    return (double)b->stage_ns[way][stage] / (double)b->images[way] / 1e3;
}

static int ways_of(const sr_decode_bench *b) {
    return b->images[SR_DECODE_IGNORED] > 0 ? SR_DECODE_WAYS : 1;
}

// ---- JSON ----

static void add_series(sr_text *out, const char *name, const sr_series *s) {
    sr_text_add(out, ", \"%s\": {\"median\": %.2f, \"min\": %.2f, \"max\": %.2f}", name,
                sr_series_median(s), sr_series_min(s), sr_series_max(s));
}

static void add_peer_json(const sr_decode_peer *p, const char *name, sr_text *out) {
    sr_text_add(out, ", \"%s\": {\"version\": ", name);
    sr_text_add_json_string(out, p->version);
    if (p->reason[0]) {
        sr_text_add(out, ", \"not_measured\": ");
        sr_text_add_json_string(out, p->reason);
    } else {
        sr_text_add(out, ", \"bytes_per_picture\": %.0f", p->picture_bytes);
        for (int k = 0; k < SR_DECODE_KINDS; k++)
            add_series(out, kind_keys[k], &p->per_s[k]);
    }
    sr_text_add(out, "}");
}

static void add_json(const sr_decode_bench *b, sr_text *out) {
    sr_text_add(out, "{\"benchmark\": \"decode\", \"dataset\": ");
    sr_text_add_json_string(out, b->path);
    sr_text_add(out, ", \"processor\": ");
    sr_text_add_json_string(out, sr_cpu_model());
    sr_text_add(out, ", \"pictures\": %lld, \"bytes_per_picture\": %.0f, \"image\": %lld",
                (long long)b->count, (double)b->bytes / (double)b->count, (long long)b->side);
    for (int way = 0; way < ways_of(b); way++) {
        sr_text_add(out, ", \"%s\": {\"rounds\": %d", way_keys[way],
                    b->per_s[way][SR_DECODE_BYTES].count);
        for (int k = 0; k < SR_DECODE_KINDS; k++)
            add_series(out, kind_keys[k], &b->per_s[way][k]);
        for (int i = 0; i < SR_DECODE_STAGES; i++)
            sr_text_add(out, ", \"%s_us\": %.2f", stage_keys[i], micros(b, way, i));
        sr_text_add(out, "}");
    }
    for (int p = 0; p < SR_DECODE_PEERS && b->peers; p++)
        add_peer_json(&b->peer[p], sr_decode_peer_names[p], out);
    sr_text_add(out, "}\n");
}

// ---- The table ----

static void add_row(sr_text *out, const char *who, int kind, const sr_series *s,
                    const sr_series *ours) {
    char name[80], ratio[16] = "";
    (void)snprintf(name, sizeof name, "%s%s%s", who, who[0] ? ", " : "", kind_names[kind]);
    if (ours)
        (void)snprintf(ratio, sizeof ratio, "%.2fx", sr_series_median(ours) / sr_series_median(s));
    sr_text_add(out, "%-34s %9.0f %9.0f %9.0f %9s\n", name, sr_series_median(s), sr_series_min(s),
                sr_series_max(s), ratio);
}

static void add_rates(const sr_decode_bench *b, sr_text *out) {
    const int ways = ways_of(b);
    char bytes[16];
    for (int way = 0; way < ways; way++)
        for (int k = 0; k < SR_DECODE_KINDS; k++)
            add_row(out, ways > 1 ? way_names[way] : "", k, &b->per_s[way][k],
                    way > 0 ? &b->per_s[0][k] : NULL);
    for (int p = 0; p < SR_DECODE_PEERS && b->peers; p++) {
        const sr_decode_peer *peer = &b->peer[p];
        if (peer->reason[0])
            sr_text_add(out, "%-34s not measured: %s\n", sr_decode_peer_names[p], peer->reason);
        for (int k = 0; k < SR_DECODE_KINDS && !peer->reason[0]; k++)
            add_row(out, peer->version, k, &peer->per_s[k], &b->per_s[0][k]);
        if (!peer->reason[0] && peer->picture_bytes > 0)
            sr_text_add(out, "    of %s a picture\n",
                        sr_text_bytes((uint64_t)peer->picture_bytes, bytes));
    }
}

static void add_table(const sr_decode_bench *b, sr_text *out) {
    char bytes[16];
    const int ways = ways_of(b);
    sr_text_add(out, "%s: %lld pictures of %s on average, to %lld px; one core\n%s\n\n", b->path,
                (long long)b->count, sr_text_bytes(b->bytes / (uint64_t)b->count, bytes),
                (long long)b->side, sr_cpu_model());
    sr_text_add(out, "%-34s %9s %9s %9s %9s\n", "images/s", "median", "min", "max", "ours is");
    add_rates(b, out);
    sr_text_add(out, "\n%-22s", "us a picture");
    for (int way = 0; way < ways; way++)
        sr_text_add(out, " %19s", ways > 1 ? way_names[way] : "");
    sr_text_add(out, "\n");
    for (int i = 0; i < SR_DECODE_STAGES; i++) {
        sr_text_add(out, "%-22s", stage_names[i]);
        for (int way = 0; way < ways; way++)
            sr_text_add(out, " %19.1f", micros(b, way, i));
        sr_text_add(out, "\n");
    }
}

sr_status sr_decode_report(const sr_decode_bench *b) {
    sr_text out;
    sr_text_init(&out);
    if (b->json)
        add_json(b, &out);
    else
        add_table(b, &out);
    const sr_status status = sr_text_check(&out);
    if (status == SR_OK)
        (void)fputs(out.data, stdout);
    sr_text_release(&out);
    return status;
}
