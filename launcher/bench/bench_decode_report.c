// SPDX-License-Identifier: Apache-2.0
// serried bench decode: the table and the JSON object.
#include <stdio.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/text.h"
#include "launcher/bench/bench_decode_internal.h"
#include "launcher/commands/command.h"

static const char *const way_names[SR_DECODE_WAYS] = {"with the row index", "index ignored",
                                                      "whole pictures"};
static const char *const way_keys[SR_DECODE_WAYS] = {"indexed", "index_ignored", "whole"};
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

static void add_json(const sr_decode_bench *b, sr_text *out) {
    sr_text_add(out, "{\"benchmark\": \"decode\", \"dataset\": ");
    sr_text_add_json_string(out, b->path);
    sr_text_add(out, ", \"processor\": ");
    sr_text_add_json_string(out, sr_cpu_model());
    sr_text_add(out, ", \"pictures\": %lld, \"bytes_per_picture\": %.0f, \"image\": %lld",
                (long long)b->count, (double)b->bytes / (double)b->count, (long long)b->side);
    for (int way = 0; way < ways_of(b); way++) {
        sr_text_add(out, ", \"%s\": {\"rounds\": %d", way_keys[way],
                    b->per_s[way][SR_LOADER_BYTES].count);
        for (int k = 0; k < SR_LOADER_KINDS; k++)
            sr_loaders_add_series(out, sr_loader_kind_keys[k], &b->per_s[way][k]);
        for (int i = 0; i < SR_DECODE_STAGES; i++)
            sr_text_add(out, ", \"%s_us\": %.2f", stage_keys[i], micros(b, way, i));
        sr_text_add(out, "}");
    }
    if (b->peers)
        sr_loaders_add_json(&b->loaders, b->per_s[0], out);
    sr_text_add(out, "}\n");
}

// ---- The table ----

static void add_rates(const sr_decode_bench *b, sr_text *out) {
    const int ways = ways_of(b);
    char name[80];
    sr_loaders_add_head(out);
    for (int way = 0; way < ways; way++) {
        for (int k = 0; k < SR_LOADER_KINDS; k++) {
            (void)snprintf(name, sizeof name, "decoding only, %s%s%s", sr_loader_kind_names[k],
                           ways > 1 ? ", " : "", ways > 1 ? way_names[way] : "");
            sr_loaders_add_row(out, name, &b->per_s[way][k], 0, way > 0 ? &b->per_s[0][k] : NULL);
        }
    }
    if (!b->peers)
        return;
    sr_loaders_add_rows(&b->loaders, b->per_s[0], out);
    sr_text_add(
        out,
        "loaders also build batches; to compare whole pipelines: serried bench data --peers\n");
}

static void add_table(const sr_decode_bench *b, sr_text *out) {
    char bytes[16];
    const int ways = ways_of(b);
    sr_text_add(out, "%s: %lld pictures of %s on average, to %lld px; one core\n%s\n\n", b->path,
                (long long)b->count, sr_text_bytes(b->bytes / (uint64_t)b->count, bytes),
                (long long)b->side, sr_cpu_model());
    add_rates(b, out);
    sr_text_add(out, "\n%-22s", "us per picture");
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
    return sr_command_print(SR_OK, &out);
}
