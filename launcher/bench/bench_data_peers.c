// SPDX-License-Identifier: Apache-2.0
// serried bench data --peers: our pipeline and other loaders on one core, alternating.
//
// All our processes (DataReader, one DataTransformer, DataIterator and the consumer of the slots)
// run on one processor. A block begins after the slots that were ready have been taken, so it
// delivers only what was produced during it; between blocks the slots are full and the processes
// sleep. For float output the consumer normalises the pictures, as the training step does first.
#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "launcher/bench/bench_loaders_internal.h"
#include "launcher/bench/bench_pipeline_internal.h"
#include "launcher/commands/command.h"

enum { AHEAD = 4 }; // slots that may be ready
static const int64_t most_memory = INT64_C(1) << 30;

typedef struct peers_bench {
    const sr_pipeline_options *options;
    sr_pipeline *pipeline;
    sr_kernel_request request; // for normalising a slot
    sr_prepared normalise;
    float *floats;
    sr_series per_s[SR_LOADER_KINDS]; // images
    sr_loaders loaders;
} peers_bench;

static sr_status take_slot(peers_bench *b, int kind) {
    sr_slot slot;
    bool end;
    SR_TRY(sr_pipeline_next(b->pipeline, &slot, &end));
    const sr_array *image = end ? NULL : sr_slot_find(&slot, "image");
    if (!image)
        return SR_FAIL(SR_E_INTERNAL, "the pipeline delivers no pictures");
    sr_status status = SR_OK;
    if (kind == SR_LOADER_FLOATS) {
        void *const arrays[] = {image->data, b->floats};
        status = sr_prepared_run(&b->normalise, &b->request, arrays, NULL, NULL);
    }
    sr_pipeline_release(b->pipeline, &slot);
    return status;
}

static sr_status take_block(peers_bench *b, int kind) {
    const int64_t of_slot = b->options->batch / b->options->lanes;
    const int64_t slots = (SR_LOADER_PICTURES + of_slot - 1) / of_slot;
    for (int i = 0; i < 2 * AHEAD; i++)
        SR_TRY(take_slot(b, kind));
    const int64_t begin = sr_clock_ns();
    for (int64_t i = 0; i < slots; i++)
        SR_TRY(take_slot(b, kind));
    const double seconds = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
    sr_series_add(&b->per_s[kind], (double)(slots * of_slot) / seconds);
    return SR_OK;
}

static sr_status measure(peers_bench *b, double seconds) {
    const int64_t begin = sr_clock_ns();
    const int64_t length = (int64_t)(seconds * (double)SR_NS_PER_S);
    for (int round = 0; round == 0 || sr_clock_ns() - begin < length; round++) {
        for (int kind = 0; kind < SR_LOADER_KINDS; kind++)
            SR_TRY(take_block(b, kind));
        sr_loaders_round(&b->loaders);
    }
    return SR_OK;
}

// ---- The report ----

static void add_table(const peers_bench *b, sr_text *out) {
    char name[64];
    sr_text_add(out,
                "%s: %lld pictures to %lld px; one core, pipelines measured alternately\n%s\n\n",
                b->options->dataset, (long long)b->loaders.count,
                (long long)b->options->image_height, sr_cpu_model());
    sr_loaders_add_head(out);
    for (int k = 0; k < SR_LOADER_KINDS; k++) {
        (void)snprintf(name, sizeof name, "serried, %s, batches of %lld, pinned",
                       sr_loader_kind_names[k], (long long)(b->options->batch / b->options->lanes));
        sr_loaders_add_row(out, name, &b->per_s[k], 0, NULL);
    }
    sr_loaders_add_rows(&b->loaders, b->per_s, out);
    sr_text_add(out, "\n");
    sr_loaders_headline(&b->loaders, b->per_s, out);
    sr_text_add(out, "\n");
}

static void add_json(const peers_bench *b, sr_text *out) {
    sr_text_add(out, "{\"benchmark\": \"data\", \"dataset\": ");
    sr_text_add_json_string(out, b->options->dataset);
    sr_text_add(out, ", \"processor\": ");
    sr_text_add_json_string(out, sr_cpu_model());
    sr_text_add(out, ", \"pictures\": %lld, \"rounds\": %d", (long long)b->loaders.count,
                b->per_s[0].count);
    for (int k = 0; k < SR_LOADER_KINDS; k++)
        sr_loaders_add_series(out, sr_loader_kind_keys[k], &b->per_s[k]);
    sr_loaders_add_json(&b->loaders, b->per_s, out);
    sr_text_add(out, "}\n");
}

static sr_status report(const peers_bench *b, bool json) {
    sr_text out;
    sr_text_init(&out);
    if (json)
        add_json(b, &out);
    else
        add_table(b, &out);
    return sr_command_print(SR_OK, &out);
}

// ---- The run ----

static sr_status prepare(peers_bench *b) {
    const sr_pipeline_options *p = b->options;
    const int64_t pixels = p->batch / p->lanes * p->image_height * p->image_width;
    b->floats = sr_alloc_array((size_t)pixels, 3 * sizeof *b->floats, "pixels");
    if (!b->floats)
        return SR_E_MEMORY;
    return sr_bench_normalise_prepare(pixels, &b->request, &b->normalise);
}

static sr_status run(peers_bench *b, double seconds, bool json) {
    const sr_pipeline_options *p = b->options;
    sr_loader_options others = {.dataset = p->dataset,
                                .split = p->split,
                                .transforms = p->transforms,
                                .transform_count = p->transform_count,
                                .side = p->image_height,
                                .memory = most_memory};
    SR_TRY(sr_bench_one_core(&others.cpus, &others.cpu));
    SR_TRY(prepare(b));
    SR_TRY(sr_loaders_start(&others, &b->loaders));
    SR_TRY(sr_pipeline_open(p, &b->pipeline));
    SR_TRY(measure(b, seconds));
    SR_TRY(report(b, json));
    return sr_loaders_check(&b->loaders);
}

sr_status sr_bench_data_peers(sr_pipeline_options *options, double seconds, bool json) {
    peers_bench b = {.options = options};
    if (options->image_height != options->image_width || options->batch % options->lanes != 0)
        return SR_FAIL(SR_E_USAGE, "--peers needs square images and lanes of equal size");
    options->workers = 1;
    options->prefetch = AHEAD;
    const sr_status status = run(&b, seconds, json);
    if (b.pipeline)
        sr_pipeline_close(b.pipeline);
    sr_loaders_stop(&b.loaders);
    sr_prepared_release(&b.normalise);
    sr_free(b.floats);
    return status;
}
