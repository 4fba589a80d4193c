// SPDX-License-Identifier: Apache-2.0
// serried bench ranks: steps of one job on several ranks, compared with as many jobs of one rank
// each that run at the same time on the same cores.
//
// Run under mpirun. Every process has two engines: one of the common job, which has a lane for each
// rank, and one of a separate job with one lane of the same size. Blocks of the common job and of
// the separate jobs alternate, on all ranks at once. The difference is the cost of the exchange
// (reduced by the updates that a rank need not compute for the parameters of others) and of waiting
// for each other. 'mean' compares with the mean time of the separate jobs; 'slowest' with the
// slowest of them, which leaves out what waiting alone explains. 'processor' compares the processor
// time of all ranks: the cost of the exchange without waiting, hardly disturbed by other processes.
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "launcher/bench/bench.h"
#include "launcher/bench/bench_engine_internal.h"
#include "launcher/bench/bench_step_internal.h"
#include "launcher/commands/command.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/placement.h"
#include "trainer/engine/plugins.h"

enum { WARM_STEPS = 2, MAX_RANKS = 256, LINE = 64, FIXED_OVERRIDES = 5 };
enum { SMALL_IMAGE = 64, CLASSES = 1000, SMALL_CLASSES = 10 };
static const double MS_PER_S = 1e3;

// Seconds of a rank's blocks: wall clock and processor time.
typedef struct block_times {
    double common, own, common_cpu, own_cpu;
} block_times;

typedef struct ranks_bench {
    const char *recipe, *precision;
    int64_t samples, image; // samples of a rank
    int pairs, steps;       // steps of a block
    double seconds;
    bool json;
    const char **overrides;
    int override_count;

    sr_comm *comm; // of the common job; also exchanges times between steps
    sr_comm *self; // of the separate job
    sr_placement place;
    sr_recipe *common_recipe, *own_recipe;
    sr_bench_engine common, own;
    block_times times[MAX_RANKS];       // of a pair, of each rank
    sr_series mean, slowest, processor; // ratios
    sr_series common_ms, own_ms;        // of a step
} ranks_bench;

static sr_status load(const ranks_bench *b, int64_t lanes, sr_recipe **out) {
    char text[FIXED_OVERRIDES][LINE];
    const char **list = sr_alloc_array((size_t)b->override_count + FIXED_OVERRIDES, sizeof *list,
                                       "overrides of a recipe");
    int n = 0;
    if (!list)
        return SR_E_MEMORY;
    for (; n < b->override_count; n++)
        list[n] = b->overrides[n];
    const long long batch = b->samples * lanes;
    (void)snprintf(text[0], LINE, "batch=%lld", batch);
    (void)snprintf(text[1], LINE, "lanes=%lld", (long long)lanes);
    (void)snprintf(text[2], LINE, "image=%lld", (long long)b->image);
    (void)snprintf(text[3], LINE, "precision=%s", b->precision);
    (void)snprintf(text[4], LINE, "data.repeats=1"); // copies of a sample need as many lanes
    for (int i = 0; i < FIXED_OVERRIDES; i++)
        list[n++] = text[i];
    sr_status status = sr_choose_recipe(b->recipe, list, n, out);
    sr_free(list);
    return status;
}

static sr_status create(ranks_bench *b) {
    const sr_comm_options alone = {.alone = true};
    const int64_t classes = b->image > SMALL_IMAGE ? CLASSES : SMALL_CLASSES;
    double seconds;
    SR_TRY(load(b, sr_comm_size(b->comm), &b->common_recipe));
    SR_TRY(load(b, 1, &b->own_recipe));
    SR_TRY(sr_plugins_load(b->own_recipe, SR_PLUGINS_NAMED));
    SR_TRY(sr_comm_create(&alone, &b->self));
    SR_TRY(sr_bench_engine_create(b->own_recipe, b->self, b->place.threads, classes, &b->own));
    SR_TRY(
        sr_bench_engine_create(b->common_recipe, b->comm, b->place.threads, classes, &b->common));
    SR_TRY(sr_bench_engine_step(&b->own, WARM_STEPS, &seconds));
    return sr_bench_engine_step(&b->common, WARM_STEPS, &seconds);
}

// ---- Pairs ----

static sr_status take_block(ranks_bench *b, sr_bench_engine *e, double *seconds, double *cpu) {
    SR_TRY(sr_comm_barrier(b->comm, "block of steps"));
    const double before = sr_own_cpu_seconds();
    SR_TRY(sr_bench_engine_step(e, b->steps, seconds));
    *cpu = sr_own_cpu_seconds() - before;
    return SR_OK;
}

static sr_status take_pair(ranks_bench *b) {
    const int ranks = sr_comm_size(b->comm);
    block_times here, sum = {0};
    double common = 0, slowest = 0;
    SR_TRY(take_block(b, &b->common, &here.common, &here.common_cpu));
    SR_TRY(take_block(b, &b->own, &here.own, &here.own_cpu));
    SR_TRY(sr_comm_all_gather(b->comm, &here, sizeof here, b->times, "times of a pair"));
    for (int r = 0; r < ranks; r++) {
        const block_times *t = &b->times[r];
        common = t->common > common ? t->common : common;
        slowest = t->own > slowest ? t->own : slowest;
        sum.own += t->own;
        sum.common_cpu += t->common_cpu;
        sum.own_cpu += t->own_cpu;
    }
    sr_series_add(&b->mean, common * ranks / sum.own);
    sr_series_add(&b->slowest, common / slowest);
    sr_series_add(&b->processor, sum.common_cpu / sum.own_cpu);
    sr_series_add(&b->common_ms, MS_PER_S * common / b->steps);
    sr_series_add(&b->own_ms, MS_PER_S * sum.own / ranks / b->steps);
    return SR_OK;
}

static void add_json(sr_text *out, const char *name, const sr_series *s) {
    sr_text_add(out, ", \"%s\": {\"median\": ", name);
    sr_text_add_json_number(out, sr_series_median(s));
    sr_text_add(out, ", \"min\": ");
    sr_text_add_json_number(out, sr_series_min(s));
    sr_text_add(out, ", \"max\": ");
    sr_text_add_json_number(out, sr_series_max(s));
    sr_text_add(out, "}");
}

static void add_row(sr_text *out, const char *name, const sr_series *s, int digits) {
    sr_text_add(out, "%-44s %9.*f %9.*f %9.*f\n", name, digits, sr_series_median(s), digits,
                sr_series_min(s), digits, sr_series_max(s));
}

static void add_table(const ranks_bench *b, sr_text *out) {
    sr_text_add(out,
                "%s: %lld px, %lld samples a rank, %s, %d ranks x %d thread%s%s, %d pairs of %d "
                "step%s\n%s\n\n%-44s %9s %9s %9s\n",
                b->own_recipe->name, (long long)b->image, (long long)b->samples, b->precision,
                sr_comm_size(b->comm), b->place.threads, b->place.threads == 1 ? "" : "s",
                b->place.bound ? "" : " (not bound to cores)", b->mean.count, b->steps,
                b->steps == 1 ? "" : "s", sr_cpu_model(), "", "median", "min", "max");
    add_row(out, "ms per step, one job on all ranks", &b->common_ms, 1);
    add_row(out, "ms per step, one job on each rank, mean", &b->own_ms, 1);
    add_row(out, "ratio to the mean of the jobs", &b->mean, 4);
    add_row(out, "ratio to the slowest of the jobs", &b->slowest, 4);
    add_row(out, "ratio of processor time", &b->processor, 4);
}

static sr_status report(const ranks_bench *b) {
    sr_text out;
    sr_text_init(&out);
    if (b->json) {
        sr_text_add(&out, "{\"recipe\": ");
        sr_text_add_json_string(&out, b->own_recipe->name);
        sr_text_add(&out,
                    ", \"image\": %lld, \"samples_per_rank\": %lld, \"precision\": \"%s\", "
                    "\"ranks\": %d, \"threads_per_rank\": %d, \"bound\": %s, \"pairs\": %d, "
                    "\"steps\": %d",
                    (long long)b->image, (long long)b->samples, b->precision, sr_comm_size(b->comm),
                    b->place.threads, b->place.bound ? "true" : "false", b->mean.count, b->steps);
        add_json(&out, "common_ms", &b->common_ms);
        add_json(&out, "own_ms", &b->own_ms);
        add_json(&out, "ratio_to_mean", &b->mean);
        add_json(&out, "ratio_to_slowest", &b->slowest);
        add_json(&out, "ratio_of_processor_time", &b->processor);
        sr_text_add(&out, "}\n");
    } else {
        add_table(b, &out);
    }
    return sr_command_print(SR_OK, &out);
}

static sr_status run(ranks_bench *b) {
    const int ranks = sr_comm_size(b->comm);
    if (ranks < 2 || ranks > MAX_RANKS)
        return SR_FAIL(SR_E_USAGE,
                       "bench ranks needs 2 to 256 ranks, got %d; run: mpirun -n 2 serried bench "
                       "ranks %s",
                       ranks, b->recipe);
    SR_TRY(sr_placement_make(b->comm, &b->place));
    SR_TRY(create(b));
    const int64_t begin = sr_clock_ns();
    for (int i = 0; i < b->pairs; i++) {
        double spent = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
        SR_TRY(sr_comm_broadcast(b->comm, 0, &spent, sizeof spent, "time spent"));
        if (spent > b->seconds)
            break;
        SR_TRY(take_pair(b));
    }
    return sr_comm_rank(b->comm) == 0 ? report(b) : SR_OK;
}

// ---- The command line ----

enum {
    KEY_BATCH = 'b',
    KEY_PRECISION = 'p',
    KEY_IMAGE = 'i',
    KEY_PAIRS = 0x100,
    KEY_STEPS,
    KEY_SECONDS,
    KEY_JSON
};

static const struct argp_option options[] = {
    {"batch", KEY_BATCH, "N", 0, "samples per rank (default: 16)", 0},
    {"precision", KEY_PRECISION, "P", 0, "fp32, bf16 or fp16 (default: fp32)", 0},
    {"image", KEY_IMAGE, "PX", 0, "side of the pictures (default: 224)", 0},
    {"pairs", KEY_PAIRS, "N", 0,
     "pairs of blocks, one of the joint job and one of the separate jobs (default: 15)", 0},
    {"steps", KEY_STEPS, "K", 0, "steps per block (default: 1)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "start no further pair after S seconds (default: 300)", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0}};

static const char about[] =
    "Measure how much slower ranks are because they train together: steps of one job on all "
    "ranks alternate with steps of separate jobs, one on each rank at the same time. Run it "
    "under mpirun."
    "\v"
    "  mpirun -n 2 serried bench ranks resnet50\n"
    "  mpirun -n 2 serried bench ranks resnet50 --precision bf16 --json";

static error_t parse_option(int key, char *value, struct argp_state *state) {
    ranks_bench *b = state->input;
    switch (key) {
    case KEY_BATCH:
        b->samples = sr_command_number(state, NULL, value, 1, 1 << 20);
        return 0;
    case KEY_PRECISION:
        if (strcmp(value, "fp32") != 0 && strcmp(value, "bf16") != 0 && strcmp(value, "fp16") != 0)
            argp_error(state, "'%s' is not fp32, bf16 or fp16", value);
        b->precision = value;
        return 0;
    case KEY_IMAGE:
        b->image = sr_command_number(state, NULL, value, 1, 8192);
        return 0;
    case KEY_PAIRS:
        b->pairs = (int)sr_command_number(state, NULL, value, 1, SR_SERIES_MAX);
        return 0;
    case KEY_STEPS:
        b->steps = (int)sr_command_number(state, NULL, value, 1, 1 << 20);
        return 0;
    case KEY_SECONDS:
        b->seconds = (double)sr_command_number(state, NULL, value, 1, 1 << 20);
        return 0;
    case KEY_JSON:
        b->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!b->recipe && !strchr(value, '='))
            b->recipe = value;
        else
            b->overrides[b->override_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (!b->recipe)
            argp_error(state, "which recipe? 'serried recipe list' lists them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void release(ranks_bench *b) {
    sr_bench_engine_release(&b->own);
    sr_bench_engine_release(&b->common);
    sr_comm_free(b->self);
    sr_comm_free(b->comm);
    sr_recipe_free(b->common_recipe);
    sr_recipe_free(b->own_recipe);
    sr_free(b->overrides);
}

int sr_bench_ranks(int argc, char **argv) {
    static const struct argp parser = {options, parse_option, "RECIPE [key=value...]", about, NULL,
                                       NULL,    NULL};
    ranks_bench b = {
        .precision = "fp32", .samples = 16, .image = 224, .pairs = 15, .steps = 1, .seconds = 300};
    b.overrides = sr_alloc_array((size_t)argc + 1, sizeof *b.overrides, "overrides of a recipe");
    if (!b.overrides)
        return sr_command_fail(SR_E_MEMORY);
    argp_err_exit_status = 2;
    if (argp_parse(&parser, argc, argv, 0, NULL, &b) != 0)
        return 2;
    const sr_comm_options all = {0};
    sr_status status = sr_comm_create(&all, &b.comm);
    if (status == SR_OK)
        status = run(&b);
    const int code = status == SR_OK ? 0 : sr_command_fail(status);
    if (status != SR_OK && b.comm)
        sr_comm_abort(b.comm, status, sr_error_message());
    release(&b);
    return code;
}
