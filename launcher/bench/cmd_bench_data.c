// SPDX-License-Identifier: Apache-2.0
// serried bench data DATASET: how fast the pipeline delivers samples, and which stage limits it.
//
// Runs the pipeline as training does, but takes slots as soon as they are ready, for some seconds
// after a warm-up of one step. A stage's images/s is the rate of a core that runs only this stage.
// The stages run concurrently, so the rate of the pipeline is at most cores / sum of (1 / rate).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "dataio/pipeline/moves.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "launcher/bench/bench.h"
#include "launcher/bench/bench_loaders_internal.h"
#include "launcher/bench/bench_pipeline_internal.h"
#include "launcher/commands/command.h"

typedef struct arguments {
    sr_bench_pipeline pipeline;
    double seconds;
    int64_t order_epochs; // 0: measure
    int ranks;
    bool one_core, peers, json;
} arguments;

enum { KEY_SECONDS = 256, KEY_JSON, KEY_ORDER_HASH, KEY_RANKS, KEY_ONE_CORE, KEY_PEERS };

static const struct argp_option options[] = {
    {"seconds", KEY_SECONDS, "S", 0, "seconds to measure (default: 5, with --peers 120)", 0},
    {"one-core", KEY_ONE_CORE, NULL, 0,
     "run all processes on one processor, with one DataTransformer", 0},
    {"peers", KEY_PEERS, NULL, 0,
     "like --one-core, and compare with the loaders of FFCV, DALI and torchvision", 0},
    {"order-hash", KEY_ORDER_HASH, "EPOCHS", 0,
     "measure nothing; deliver this many epochs and print a hash of the order and augmentation of "
     "each",
     0},
    {"ranks", KEY_RANKS, "N", 0, "with --order-hash: divide the lanes among N ranks (default: 1)",
     0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static error_t parse(int key, char *text, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->pipeline;
        return 0;
    case KEY_SECONDS:
        a->seconds = strtod(text, NULL);
        if (!(a->seconds > 0))
            argp_error(state, "--seconds=%s: expected a positive number of seconds", text);
        return 0;
    case KEY_ORDER_HASH:
        a->order_epochs = sr_bench_whole_number(text, "order-hash", state);
        return 0;
    case KEY_RANKS:
        a->ranks = (int)sr_bench_whole_number(text, "ranks", state);
        return 0;
    case KEY_ONE_CORE:
        a->one_core = true;
        return 0;
    case KEY_PEERS:
        a->peers = true;
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

typedef struct rates {
    double seconds, images_per_s;
    sr_pipeline_stats stats; // of the measured period
    double moves_per_s;      // draws for pictures that stay on a device; 0: they cannot
} rates;

static void subtract(sr_pipeline_stats *from, const sr_pipeline_stats *warm) {
    from->samples -= warm->samples;
    from->bytes_read -= warm->bytes_read;
    from->seeks -= warm->seeks;
    from->wait_ns -= warm->wait_ns;
    from->read_ns -= warm->read_ns;
    from->decode_ns -= warm->decode_ns;
    from->augment_ns -= warm->augment_ns;
    from->assemble_ns -= warm->assemble_ns;
}

static sr_status measure(sr_pipeline *pipeline, const arguments *a, rates *out) {
    sr_pipeline_stats warm = {0};
    int64_t begin = 0, until = INT64_MAX, now = 0;
    for (int64_t slots = 0; now < until; slots++) {
        sr_slot slot;
        bool end;
        SR_TRY(sr_pipeline_next(pipeline, &slot, &end));
        if (end)
            break;
        sr_pipeline_release(pipeline, &slot);
        now = sr_clock_ns();
        if (slots + 1 == a->pipeline.options.lanes) {
            warm = sr_pipeline_get_stats(pipeline);
            begin = now;
            until = now + (int64_t)(a->seconds * 1e9);
        }
    }
    out->stats = sr_pipeline_get_stats(pipeline);
    subtract(&out->stats, &warm);
    if (begin == 0 || now <= begin || out->stats.samples < 1)
        return SR_FAIL(SR_E_USAGE,
                       "the data set ends within the warm-up of one step; use a smaller --batch");
    out->seconds = (double)(now - begin) / 1e9;
    out->images_per_s = (double)out->stats.samples / out->seconds;
    return SR_OK;
}

static sr_status draw_moves(sr_move_draws *draws, double seconds, double *per_s) {
    enum { BLOCK = 4096 };
    const int64_t begin = sr_clock_ns(), until = begin + (int64_t)(seconds * 1e9);
    int64_t position = 0, now = begin;
    for (; now < until; now = sr_clock_ns()) {
        sr_pixel_move move;
        for (int64_t end = position + BLOCK; position < end; position++)
            SR_TRY(sr_move_draws_at(draws, position, &move));
    }
    *per_s = (double)position / ((double)(now - begin) / 1e9);
    return SR_OK;
}

static sr_status measure_moves(const arguments *a, double *per_s) {
    const sr_pipeline_options *o = &a->pipeline.options;
    bool suffice;
    sr_dataset *dataset;
    sr_move_draws *draws;
    SR_TRY(sr_moves_suffice(o, &suffice));
    if (!suffice)
        return SR_OK;
    SR_TRY(sr_dataset_open(o->dataset, o->split, &dataset));
    sr_status status = sr_move_draws_create(o, dataset, &draws);
    if (status == SR_OK) {
        status = draw_moves(draws, a->seconds / 10, per_s);
        sr_move_draws_free(draws);
    }
    sr_dataset_free(dataset);
    return status;
}

static double rate(const rates *r, int64_t busy_ns) {
    return busy_ns > 0 ? (double)r->stats.samples / ((double)busy_ns / 1e9) : 0;
}

static double bytes_per_seek(const rates *r) {
    return (double)r->stats.bytes_read / (double)(r->stats.seeks > 0 ? r->stats.seeks : 1);
}

typedef struct stage_row {
    const char *name;
    int64_t busy_ns;
} stage_row;

#define STAGES 4

static void stage_rows(const rates *r, stage_row rows[STAGES]) {
    rows[0] = (stage_row){"read", r->stats.read_ns};
    rows[1] = (stage_row){"decode", r->stats.decode_ns};
    rows[2] = (stage_row){"augment", r->stats.augment_ns};
    rows[3] = (stage_row){"assemble", r->stats.assemble_ns};
}

static sr_status print_json(const rates *r, const arguments *a) {
    stage_row rows[STAGES];
    sr_text text;
    stage_rows(r, rows);
    sr_text_init(&text);
    sr_text_add(&text, "{\"bench\": \"data\", \"dataset\": ");
    sr_text_add_json_string(&text, a->pipeline.options.dataset);
    sr_text_add(&text, ", \"images_per_s\": %.1f, \"seconds\": %.3f, \"samples\": %" PRId64,
                r->images_per_s, r->seconds, r->stats.samples);
    for (int i = 0; i < STAGES; i++)
        sr_text_add(&text, ", \"%s_per_core_s\": %.1f", rows[i].name, rate(r, rows[i].busy_ns));
    if (r->moves_per_s > 0)
        sr_text_add(&text, ", \"resident_per_core_s\": %.1f", r->moves_per_s);
    sr_text_add(&text,
                ", \"bytes_per_s\": %.0f, \"bytes_per_seek\": %.0f, \"seeks\": %" PRId64
                ", \"fill_reader\": %.3f, \"fill_iterator\": %.3f}",
                (double)r->stats.bytes_read / r->seconds, bytes_per_seek(r), r->stats.seeks,
                r->stats.ring_fill[0], r->stats.ring_fill[1]);
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        printf("%s\n", text.data);
    sr_text_release(&text);
    return status;
}

static void print_table(const rates *r, const arguments *a) {
    stage_row rows[STAGES];
    char bytes[16], run[16];
    stage_rows(r, rows);
    printf("%.0f images/s: %" PRId64 " samples in %.1f s, images of %" PRId64 " x %" PRId64 "\n",
           r->images_per_s, r->stats.samples, r->seconds, a->pipeline.options.image_height,
           a->pipeline.options.image_width);
    printf("%-10s %18s %12s\n", "stage", "images/s per core", "busy cores");
    for (int i = 0; i < STAGES; i++)
        printf("%-10s %18.0f %12.2f\n", rows[i].name, rate(r, rows[i].busy_ns),
               (double)rows[i].busy_ns / 1e9 / r->seconds);
    printf("read %s/s, %" PRId64
           " seeks, %s between them; DataReader rings %.0f %% full, slots %.0f %% full\n",
           sr_text_bytes((uint64_t)((double)r->stats.bytes_read / r->seconds), bytes),
           r->stats.seeks, sr_text_bytes((uint64_t)bytes_per_seek(r), run),
           100 * r->stats.ring_fill[0], 100 * r->stats.ring_fill[1]);
    if (r->moves_per_s > 0)
        printf(
            "if pictures of this size stay on a device (data.resident), without these stages: %.0f "
            "images/s per core\n",
            r->moves_per_s);
}

static sr_status bench(arguments *a) {
    sr_pipeline *pipeline;
    rates r = {0};
    if (a->one_core) {
        sr_cpu_set all;
        int cpu;
        SR_TRY(sr_bench_one_core(&all, &cpu));
        a->pipeline.options.workers = 1;
    }
    SR_TRY(sr_pipeline_open(&a->pipeline.options, &pipeline));
    sr_status status = measure(pipeline, a, &r);
    sr_pipeline_close(pipeline);
    SR_TRY(status);
    SR_TRY(measure_moves(a, &r.moves_per_s));
    if (a->json)
        return print_json(&r, a);
    print_table(&r, a);
    return SR_OK;
}

int sr_bench_data(int argc, char **argv) {
    static const struct argp_child children[] = {{&sr_bench_pipeline_argp, 0, NULL, 0}, {0}};
    static const struct argp parser = {
        options,   parse,
        "DATASET", "Measure how fast the data pipeline delivers, and find its slowest stage.",
        children,  NULL,
        NULL};
    arguments a = {.ranks = 1};
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        return sr_status_exit_code(SR_E_USAGE);
    if (!(a.seconds > 0))
        a.seconds = a.peers ? 120 : 5;
    sr_status status = SR_OK;
    if (a.order_epochs > 0)
        status = sr_bench_order(&a.pipeline.options, a.order_epochs, a.ranks, a.json);
    else if (a.peers)
        status = sr_bench_data_peers(&a.pipeline.options, a.seconds, a.json);
    else
        status = bench(&a);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
