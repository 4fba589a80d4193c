// SPDX-License-Identifier: Apache-2.0
// serried bench recover DATASET: how long training waits for data after a data process is killed.
//
// The consumer takes slots as fast as they arrive, which is the worst case: in training, slots that
// are ready cover part of the gap. For each kind of process it takes some slots undisturbed, sends
// SIGKILL at a random instant, and takes slots until the process has been replaced and the contents
// of its rings and slots are used up. The stall is the longest wait for one slot in that time,
// minus the median wait for an undisturbed slot. The delivered data are checked by tests
// (test_pipeline, test_order); only time is measured here.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/rng.h"
#include "kernels/base/text.h"
#include "launcher/bench/bench.h"
#include "launcher/bench/bench_internal.h"
#include "launcher/bench/bench_pipeline_internal.h"
#include "launcher/commands/command.h"

#define GOAL_MS 250
#define USUAL_KILLS 20
#define BEFORE_NS (400 * SR_NS_PER_MS) // undisturbed, before each kill
#define KINDS 3

typedef struct arguments {
    sr_bench_pipeline pipeline;
    int kills;
    bool json;
} arguments;

enum { KEY_KILLS = 256, KEY_JSON };

static const struct argp_option options[] = {
    {"kills", KEY_KILLS, "N", 0, "kills of each kind of process (default: 20)", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static error_t parse(int key, char *text, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->pipeline;
        return 0;
    case KEY_KILLS:
        a->kills = (int)sr_bench_whole_number(text, "kills", state);
        if (a->kills < 1 || a->kills > SR_SERIES_MAX)
            argp_error(state, "--kills=%s is not a number from 1 to %d", text, SR_SERIES_MAX);
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

typedef struct victim_kind {
    const char *name;
    sr_series stalls, lost; // milliseconds
} victim_kind;

typedef struct recover_bench {
    sr_pipeline *pipeline;
    sr_rng rng;
    sr_series waits; // for undisturbed slots, milliseconds
    int slots;       // that a kill may affect: all in flight, and one more step
    int workers;
    victim_kind kinds[KINDS];
} recover_bench;

// Takes and returns the next slot; *ms: the wait for it.
static sr_status take(recover_bench *b, double *ms) {
    sr_slot slot;
    bool end;
    const int64_t begin = sr_clock_ns();
    SR_TRY(sr_pipeline_next(b->pipeline, &slot, &end));
    *ms = (double)(sr_clock_ns() - begin) / 1e6;
    sr_pipeline_release(b->pipeline, &slot);
    return SR_OK;
}

// The series keeps the first SR_SERIES_MAX values.
static sr_status run_undisturbed(recover_bench *b, int64_t ns) {
    double ms;
    for (const int64_t until = sr_clock_ns() + ns; sr_clock_ns() < until;) {
        SR_TRY(take(b, &ms));
        sr_series_add(&b->waits, ms);
    }
    return SR_OK;
}

static pid_t choose_victim(recover_bench *b, int k) {
    const int first_transformer = 2;
    const int number =
        k < 2 ? k : first_transformer + (int)sr_rng_below(&b->rng, (uint32_t)b->workers);
    return sr_pipeline_stage_pid(b->pipeline, number);
}

static sr_status kill_one(recover_bench *b, int k) {
    const double usual = sr_series_median(&b->waits);
    const int64_t restarts = sr_pipeline_get_stats(b->pipeline).restarts;
    double ms, worst = 0, lost = 0;
    // A random instant between two slots.
    sr_clock_sleep_ns((int64_t)(sr_rng_uniform(&b->rng, 0, 1) * usual * 1e6));
    const pid_t victim = choose_victim(b, k);
    if (victim <= 0 || kill(victim, SIGKILL) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot kill the %s", b->kinds[k].name);
    for (int after = 0; after < b->slots;) {
        SR_TRY(take(b, &ms));
        worst = ms - usual > worst ? ms - usual : worst;
        lost += ms > usual ? ms - usual : 0;
        after += sr_pipeline_get_stats(b->pipeline).restarts > restarts;
    }
    sr_series_add(&b->kinds[k].stalls, worst);
    sr_series_add(&b->kinds[k].lost, lost);
    return SR_OK;
}

static sr_status measure(recover_bench *b, int kills) {
    double ms;
    for (int i = 0; i < b->slots; i++) // warm
        SR_TRY(take(b, &ms));
    SR_TRY(run_undisturbed(b, 5 * BEFORE_NS));
    for (int i = 0; i < kills; i++) {
        for (int k = 0; k < KINDS; k++) {
            SR_TRY(run_undisturbed(b, BEFORE_NS));
            SR_TRY(kill_one(b, k));
        }
    }
    return SR_OK;
}

static double worst_of_all(const recover_bench *b) {
    double worst = 0;
    for (int k = 0; k < KINDS; k++) {
        const double most = sr_series_max(&b->kinds[k].stalls);
        worst = most > worst ? most : worst;
    }
    return worst;
}

static void print_table(const recover_bench *b) {
    const double worst = worst_of_all(b);
    printf("a slot without a kill: %.1f ms (median of %d)\n", sr_series_median(&b->waits),
           b->waits.count);
    printf("%-12s %6s %16s %16s %16s\n", "killed", "times", "stall, median ms", "worst ms",
           "lost, median ms");
    for (int k = 0; k < KINDS; k++)
        printf("%-12s %6d %16.1f %16.1f %16.1f\n", b->kinds[k].name, b->kinds[k].stalls.count,
               sr_series_median(&b->kinds[k].stalls), sr_series_max(&b->kinds[k].stalls),
               sr_series_median(&b->kinds[k].lost));
    printf("goal: below %d ms; worst %.1f ms\n", GOAL_MS, worst);
}

static sr_status print_json(const recover_bench *b, const arguments *a) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "{\"bench\": \"recover\", \"dataset\": ");
    sr_text_add_json_string(&text, a->pipeline.options.dataset);
    sr_text_add(&text, ", \"slot_ms\": %.3f, \"goal_ms\": %d, \"worst_ms\": %.3f",
                sr_series_median(&b->waits), GOAL_MS, worst_of_all(b));
    for (int k = 0; k < KINDS; k++) {
        const victim_kind *one = &b->kinds[k];
        sr_text_add(&text,
                    ", \"%s\": {\"kills\": %d, \"stall_median_ms\": %.3f, "
                    "\"stall_worst_ms\": %.3f, \"lost_median_ms\": %.3f}",
                    one->name, one->stalls.count, sr_series_median(&one->stalls),
                    sr_series_max(&one->stalls), sr_series_median(&one->lost));
    }
    sr_text_add(&text, "}");
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        printf("%s\n", text.data);
    sr_text_release(&text);
    return status;
}

static sr_status run(arguments *a) {
    recover_bench b = {
        .kinds = {{.name = "reader"}, {.name = "iterator"}, {.name = "transformer"}}};
    sr_pipeline_options *o = &a->pipeline.options;
    if (o->threads)
        return SR_FAIL(SR_E_USAGE, "bench recover kills processes; remove --threads");
    sr_rng_init(&b.rng, (uint64_t)sr_clock_ns(), 0, 0, 0);
    sr_log_set_level(SR_LOG_ERROR); // each replacement would be a warning
    SR_TRY(sr_pipeline_open(o, &b.pipeline));
    b.workers = sr_pipeline_stage_count(b.pipeline) - 2;
    b.slots = 3 * o->lanes;
    sr_status status = measure(&b, a->kills);
    sr_pipeline_close(b.pipeline);
    SR_TRY(status);
    if (a->json)
        return print_json(&b, a);
    print_table(&b);
    return SR_OK;
}

int sr_bench_recover(int argc, char **argv) {
    static const struct argp_child children[] = {{&sr_bench_pipeline_argp, 0, NULL, 0}, {0}};
    static const struct argp parser = {
        options,   parse,
        "DATASET", "Measure how long training waits for data after a data process is killed.",
        children,  NULL,
        NULL};
    arguments a = {.kills = USUAL_KILLS};
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        return sr_status_exit_code(SR_E_USAGE);
    sr_status status = run(&a);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
