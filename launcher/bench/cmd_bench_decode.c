// SPDX-License-Identifier: Apache-2.0
// serried bench decode DATASET: how fast one core decodes a packed data set, stage by stage.
//
// Records are in memory. Each round takes every picture through the transforms into the next
// position of a ring of batches, as training does, and then normalises it into another ring. Rounds
// with the row index, without it, and of whole pictures alternate, all on one processor.
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "launcher/bench/bench.h"
#include "launcher/bench/bench_decode_internal.h"
#include "launcher/commands/command.h"

enum { KEY_SPLIT = 0x100, KEY_SECONDS, KEY_MEMORY, KEY_PEERS, KEY_JSON };

// ---- Pictures ----

static sr_status load_records(sr_decode_bench *b, sr_dataset *dataset) {
    const int64_t count = sr_dataset_count(dataset);
    b->records = sr_alloc_array((size_t)count, sizeof *b->records, "records");
    if (!b->records)
        return SR_E_MEMORY;
    for (; b->count < count && b->bytes < (uint64_t)b->memory; b->count++) {
        const void *data;
        sr_decode_record *r = &b->records[b->count];
        SR_TRY(sr_dataset_read(dataset, b->count, &data, &r->bytes));
        r->data = sr_alloc(r->bytes, "records");
        if (!r->data)
            return SR_E_MEMORY;
        memcpy(r->data, data, r->bytes);
        b->bytes += r->bytes;
    }
    return b->count > 0 ? SR_OK : SR_FAIL(SR_E_DATA, "%s: no records", b->path);
}

static sr_status open_bench(sr_decode_bench *b) {
    sr_dataset *dataset;
    const size_t values = (size_t)(b->side * b->side * 3);
    const size_t positions = (size_t)SR_DECODE_BATCH * SR_DECODE_BATCHES;
    SR_TRY(sr_transform_chain_create(b->transforms, b->transform_count, &b->chain));
    SR_TRY(sr_canvas_create(1, &b->canvas));
    SR_TRY(sr_dataset_open(b->path, b->split, &dataset));
    sr_status status = load_records(b, dataset);
    sr_dataset_free(dataset);
    SR_TRY(status);
    b->repeats = b->peers ? (int)((SR_LOADER_PICTURES + b->count - 1) / b->count) : 1;
    b->pixels = sr_alloc_array(positions * values, sizeof *b->pixels, "pixels");
    b->floats = sr_alloc_array(positions * values, sizeof *b->floats, "pixels");
    if (!b->pixels || !b->floats)
        return SR_E_MEMORY;
    return sr_bench_normalise_prepare(b->side * b->side, &b->request, &b->normalise);
}

static void close_bench(sr_decode_bench *b) {
    for (int64_t i = 0; b->records && i < b->count; i++)
        sr_free(b->records[i].data);
    sr_free(b->records);
    sr_transform_chain_free(b->chain);
    sr_canvas_free(b->canvas);
    sr_free(b->pixels);
    sr_free(b->floats);
    sr_prepared_release(&b->normalise);
}

// ---- Rounds ----

// Index of the first value of the picture at this position in the rings.
static size_t offset_of_position(const sr_decode_bench *b, int64_t position) {
    const int64_t positions = (int64_t)SR_DECODE_BATCH * SR_DECODE_BATCHES;
    return (size_t)(position % positions * b->side * b->side * 3);
}

static sr_status take_picture(sr_decode_bench *b, int64_t i, int64_t position, int way) {
    sr_sample sample;
    SR_TRY(sr_sample_read(b->records[i].data, b->records[i].bytes, &sample));
    b->has_index = b->has_index || sample.segments;
    if (way != SR_DECODE_INDEXED)
        sample.segments = NULL;
    const sr_encoded picture = sr_encoded_of(&sample);
    const sr_canvas_identity who = {.seed = 1, .position = position, .sample = i};
    uint8_t *pixels_out = b->pixels + offset_of_position(b, position);
    SR_TRY(sr_canvas_open(b->canvas, &picture, &who, b->side, b->side, pixels_out));
    uint8_t *pixels;
    if (way == SR_DECODE_WHOLE)
        SR_TRY(sr_canvas_pixels(b->canvas, &pixels));
    return sr_transform_chain_apply(b->chain, b->canvas);
}

static void add_stages(int64_t *stages, const sr_canvas_times *before, const sr_canvas_times *now,
                       int64_t all) {
    const int64_t part[] = {now->decode.header - before->decode.header,
                            now->decode.entropy - before->decode.entropy,
                            now->decode.transform - before->decode.transform,
                            now->decode.colour - before->decode.colour,
                            now->decode.library - before->decode.library,
                            now->resize - before->resize};
    for (int i = 0; i < SR_DECODE_REST; i++) {
        stages[i] += part[i];
        all -= part[i];
    }
    stages[SR_DECODE_REST] += all;
}

// All pictures, b->repeats times. Each is normalised while it is still in the cache.
static sr_status take_round(sr_decode_bench *b, int64_t round, int way) {
    const sr_canvas_times before = sr_canvas_get_times(b->canvas);
    const int64_t length = b->count * b->repeats;
    int64_t decoding = 0, normalising = 0;
    for (int64_t i = 0; i < length; i++) {
        const int64_t begin = sr_clock_ns(), position = round * length + i;
        SR_TRY(take_picture(b, i % b->count, position, way));
        const int64_t middle = sr_clock_ns();
        void *const arrays[] = {b->pixels + offset_of_position(b, position),
                                b->floats + offset_of_position(b, position)};
        SR_TRY(sr_prepared_run(&b->normalise, &b->request, arrays, NULL, NULL));
        decoding += middle - begin;
        normalising += sr_clock_ns() - middle;
    }
    const sr_canvas_times now = sr_canvas_get_times(b->canvas);
    add_stages(b->stage_ns[way], &before, &now, decoding);
    b->stage_ns[way][SR_DECODE_NORMALISE] += normalising;
    b->images[way] += length;
    const double images = (double)length * (double)SR_NS_PER_S;
    sr_series_add(&b->per_s[way][SR_LOADER_BYTES], images / (double)decoding);
    sr_series_add(&b->per_s[way][SR_LOADER_FLOATS], images / (double)(decoding + normalising));
    return SR_OK;
}

static sr_status start_loaders(sr_decode_bench *b, const sr_cpu_set *cpus, int cpu) {
    if (!b->peers)
        return SR_OK;
    const sr_loader_options options = {.dataset = b->path,
                                       .split = b->split,
                                       .transforms = b->transforms,
                                       .transform_count = b->transform_count,
                                       .side = b->side,
                                       .memory = b->memory,
                                       .cpu = cpu,
                                       .cpus = *cpus};
    return sr_loaders_start(&options, &b->loaders);
}

static sr_status measure(sr_decode_bench *b) {
    const int64_t begin = sr_clock_ns();
    const int64_t length = (int64_t)(b->seconds * (double)SR_NS_PER_S);
    SR_TRY(take_round(b, 0, SR_DECODE_INDEXED)); // warm-up
    for (int way = 0; way < SR_DECODE_WAYS; way++) {
        for (int kind = 0; kind < SR_LOADER_KINDS; kind++)
            b->per_s[way][kind].count = 0;
        b->images[way] = 0;
        memset(b->stage_ns[way], 0, sizeof b->stage_ns[way]);
    }
    for (int64_t round = 1; round == 1 || sr_clock_ns() - begin < length; round++) {
        for (int way = 0; way < (b->has_index ? SR_DECODE_WAYS : 1); way++)
            SR_TRY(take_round(b, round, way));
        if (b->peers)
            sr_loaders_round(&b->loaders);
    }
    return SR_OK;
}

// ---- The command line ----

static const struct argp_option options[] = {
    {"image", 'i', "PX", 0, "side of the pictures after all transforms (default: 224)", 0},
    {"transform", 't', "'NAME KEY=VALUE ...'", 0,
     "add a transform (default: random_resized_crop and flip)", 0},
    {"split", KEY_SPLIT, "NAME", 0, "split of the data set (default: train)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "seconds to measure, rounded up to whole rounds (default: 10)",
     0},
    {"memory", KEY_MEMORY, "MIB", 0, "maximum size of the records to use (default: 1024)", 0},
    {"peers", KEY_PEERS, NULL, 0,
     "compare with the loaders of FFCV, DALI and torchvision (see also bench data)", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0}};

static const char about[] =
    "Measure how many pictures one core decodes, transforms and normalises per second, and how "
    "long each stage takes."
    "\v"
    "SERRIED_PEER_PYTHON is the Python in which the other loaders are installed "
    "(tests/peers/install --data).";

static error_t parse_option(int key, char *value, struct argp_state *state) {
    sr_decode_bench *b = state->input;
    switch (key) {
    case 'i':
        b->side = sr_command_number(state, "--image", value, 1, 8192);
        return 0;
    case 't':
        if (b->transform_count == SR_DECODE_TRANSFORMS)
            argp_error(state, "more than %d transforms", SR_DECODE_TRANSFORMS);
        b->transforms[b->transform_count++] = sr_command_transform(value);
        return 0;
    case KEY_SPLIT:
        b->split = value;
        return 0;
    case KEY_SECONDS:
        b->seconds = (double)sr_command_number(state, "--seconds", value, 1, 1 << 20);
        return 0;
    case KEY_MEMORY:
        b->memory = (int64_t)sr_command_number(state, "--memory", value, 1, 1 << 20) << 20;
        return 0;
    case KEY_PEERS:
        b->peers = true;
        return 0;
    case KEY_JSON:
        b->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (b->path)
            argp_error(state, "more than one data set");
        b->path = value;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "DATASET is missing: a folder that 'serried pack' wrote, or a shard");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int sr_bench_decode(int argc, char **argv) {
    static const struct argp parser = {
        .options = options, .parser = parse_option, .args_doc = "DATASET", .doc = about};
    sr_decode_bench b = {.split = "train", .side = 224, .memory = INT64_C(1) << 30, .seconds = 10};
    if (argp_parse(&parser, argc, argv, 0, NULL, &b) != 0)
        return sr_status_exit_code(SR_E_USAGE);
    if (b.transform_count == 0) {
        b.transforms[b.transform_count++] = (sr_transform_spec){.name = "random_resized_crop"};
        b.transforms[b.transform_count++] = (sr_transform_spec){.name = "flip"};
    }
    sr_cpu_set cpus;
    int cpu;
    sr_status status = sr_bench_one_core(&cpus, &cpu);
    if (status == SR_OK)
        status = open_bench(&b);
    if (status == SR_OK)
        status = start_loaders(&b, &cpus, cpu);
    if (status == SR_OK)
        status = measure(&b);
    if (status == SR_OK)
        status = sr_decode_report(&b);
    if (status == SR_OK && b.peers)
        status = sr_loaders_check(&b.loaders);
    sr_loaders_stop(&b.loaders);
    close_bench(&b);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
