// SPDX-License-Identifier: Apache-2.0
// The command line of benchmarks that run a data pipeline (bench_pipeline_internal.h).
#include "launcher/bench/bench_pipeline_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/commands/command.h"

enum { KEY_ORDER = 512, KEY_LANES, KEY_THREADS, KEY_SPLIT, KEY_TRANSFORMER };

static const struct argp_option options[] = {
    {"image", 'i', "N|HxW", 0, "size of the images after all transforms (default: 224)", 0},
    {"transform", 't', "'NAME KEY=VALUE ...'", 0,
     "add a transform (default: random_resized_crop and flip)", 0},
    {"batch", 'b', "N", 0, "samples per step (default: 256)", 0},
    {"lanes", KEY_LANES, "N", 0, "lanes per step (default: 8)", 0},
    {"workers", 'w', "N", 0, "number of DataTransformer processes (default: one per core)", 0},
    {"order", KEY_ORDER, "ORDER", 0, "examples, chunks or sequential (default: examples)", 0},
    {"split", KEY_SPLIT, "NAME", 0, "split of the data set (default: train)", 0},
    {"transformer", KEY_TRANSFORMER, "NAME", 0, "classify, detect or segment (default: classify)",
     0},
    {"threads", KEY_THREADS, NULL, 0, "run the stages as threads instead of processes", 0},
    {0},
};

int64_t sr_bench_whole_number(const char *text, const char *name, struct argp_state *state) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0 || value > INT32_MAX)
        argp_error(state, "--%s=%s is not a whole number", name, text);
    return value;
}

static void parse_image(sr_pipeline_options *p, const char *text, struct argp_state *state) {
    int h, w, used = 0;
    if (sscanf(text, "%dx%d%n", &h, &w, &used) == 2 && text[used] == '\0' && h > 0 && w > 0) {
        p->image_height = h;
        p->image_width = w;
        return;
    }
    p->image_height = p->image_width = sr_bench_whole_number(text, "image", state);
}

static void add_transform(sr_bench_pipeline *b, char *text, struct argp_state *state) {
    if (b->options.transform_count == SR_BENCH_TRANSFORMS)
        argp_error(state, "more than %d transforms", SR_BENCH_TRANSFORMS);
    b->transforms[b->options.transform_count++] = sr_command_transform(text);
}

static void parse_order(sr_pipeline_options *p, const char *text, struct argp_state *state) {
    static const char *const names[] = {"sequential", "examples", "chunks"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            p->order = (sr_data_order)i;
            return;
        }
    argp_error(state, "--order=%s: expected examples, chunks or sequential", text);
}

static void begin(sr_bench_pipeline *b) {
    b->options = (sr_pipeline_options){.split = "train",
                                       .transforms = b->transforms,
                                       .image_height = 224,
                                       .image_width = 224,
                                       .order = SR_ORDER_EXAMPLES,
                                       .seed = 1,
                                       .batch = 256,
                                       .lanes = 8};
}

static void finish(sr_bench_pipeline *b) {
    sr_pipeline_options *p = &b->options;
    if (p->transform_count == 0) {
        b->transforms[p->transform_count++] = (sr_transform_spec){.name = "random_resized_crop"};
        b->transforms[p->transform_count++] = (sr_transform_spec){.name = "flip"};
    }
    p->lane_end = p->lanes;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    sr_bench_pipeline *b = state->input;
    sr_pipeline_options *p = &b->options;
    switch (key) {
    case ARGP_KEY_INIT:
        begin(b);
        return 0;
    case 'i':
        parse_image(p, text, state);
        return 0;
    case 't':
        add_transform(b, text, state);
        return 0;
    case 'b':
        p->batch = sr_bench_whole_number(text, "batch", state);
        return 0;
    case KEY_LANES:
        p->lanes = (int)sr_bench_whole_number(text, "lanes", state);
        return 0;
    case 'w':
        p->workers = (int)sr_bench_whole_number(text, "workers", state);
        return 0;
    case KEY_ORDER:
        parse_order(p, text, state);
        return 0;
    case KEY_SPLIT:
        p->split = text;
        return 0;
    case KEY_TRANSFORMER:
        p->transformer = text;
        return 0;
    case KEY_THREADS:
        p->threads = true;
        return 0;
    case ARGP_KEY_ARG:
        if (p->dataset)
            argp_error(state, "more than one data set");
        p->dataset = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "DATASET is missing: a folder that 'serried pack' wrote, or a shard");
        return EINVAL;
    case ARGP_KEY_END:
        finish(b);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp sr_bench_pipeline_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};
