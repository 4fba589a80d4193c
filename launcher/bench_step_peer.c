// SPDX-License-Identifier: Apache-2.0
// PyTorch beside serried bench step: its settings, which of them is kept, its blocks, its memory.
//
// A setting is a mode (eager, compile), an allocator and a number of processes. What is asked for
// is taken as it is; where several are in question (--peer-best) each gets warm, takes a few short
// blocks alone, and the one with the fastest block is kept for the blocks in turns with ours. A
// setting that fails or takes too long is "not measured", with the reason.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "launcher/bench_step_internal.h"
#include "trainer/json_tree.h"

enum { MAX_WORDS = 40, MAX_ABOUT_NODES = 64, TRY_BLOCKS = 3 };

// Time to import, compile and get warm; then for an answer, beside what ours would take.
static const double ready_seconds = 300, answer_seconds = 60, answer_factor = 20;

typedef struct setting {
    const char *mode, *malloc;
    int processes;
} setting;

// ---- Settings ----

// One process for each core, as far as 'parts' (lanes, or samples) go evenly into them.
static int most_processes(const sr_step_result *r, int64_t parts) {
    int most = r->threads < SR_STEP_PEERS ? r->threads : SR_STEP_PEERS;
    while (most > 1 && parts % most != 0)
        most--;
    return most;
}

sr_status sr_step_peers_check(const sr_step_options *o, const sr_step_result *r) {
    int n = o->peer_processes;
    if (n == 0 || r->lanes % n == 0)
        return SR_OK;
    if (!o->peer_any_groups)
        return SR_FAIL(SR_E_USAGE,
                       "--peer-processes %d does not divide %lld lane%s, so batch norm would see "
                       "other groups than ours; --peer-any-groups allows it",
                       n, (long long)r->lanes, r->lanes == 1 ? "" : "s");
    if (r->batch % n != 0)
        return SR_FAIL(SR_E_USAGE, "--peer-processes %d does not divide a batch of %lld", n,
                       (long long)r->batch);
    return SR_OK;
}

// Into 'out' (SR_STEP_TRIES); returns how many.
static int list_settings(const sr_step_options *o, const sr_step_result *r, setting *out) {
    const char *modes[] = {o->peer_best ? "eager" : "auto", "compile"};
    const char *mallocs[] = {o->peer_best ? "tcmalloc" : "auto", "default"};
    int processes[] = {most_processes(r, o->peer_any_groups ? r->batch : r->lanes), 1};
    int count = 0;
    if (o->peer_mode)
        modes[0] = o->peer_mode;
    if (o->peer_malloc)
        mallocs[0] = o->peer_malloc;
    if (o->peer_processes)
        processes[0] = o->peer_processes;
    int mode_count = o->peer_best && !o->peer_mode ? 2 : 1;
    int malloc_count = o->peer_best && !o->peer_malloc ? 2 : 1;
    int process_count = o->peer_best && !o->peer_processes && processes[0] > 1 ? 2 : 1;
    for (int p = 0; p < process_count; p++)
        for (int m = 0; m < mode_count; m++)
            for (int a = 0; a < malloc_count; a++)
                out[count++] = (setting){modes[m], mallocs[a], processes[p]};
    return count;
}

// ---- Processes ----

typedef struct words {
    const char *list[MAX_WORDS];
    int count;
    char numbers[8][24];
    int number_count;
} words;

static void add(words *w, const char *name, const char *value) {
    w->list[w->count++] = name;
    w->list[w->count++] = value;
}

static void add_number(words *w, const char *name, int64_t value) {
    char *text = w->numbers[w->number_count++];
    (void)snprintf(text, sizeof w->numbers[0], "%lld", (long long)value);
    add(w, name, text);
}

static const char *get_or(const sr_recipe *recipe, const char *path, const char *otherwise) {
    const char *text = sr_recipe_get(recipe, path);
    return text ? text : otherwise;
}

// Threads of each process.
static int threads_of(const sr_step_result *r, int processes) {
    return r->threads > processes ? r->threads / processes : 1;
}

// The command line of a process with its share of the lanes, or of the samples.
static void fill_words(words *w, const sr_step_result *r, const setting *s, char features[80]) {
    const sr_recipe *recipe = r->recipe;
    bool whole_lanes = r->lanes % s->processes == 0;
    bool nesterov = strcmp(get_or(recipe, "optimizer.nesterov", "false"), "true") == 0;
    w->list[w->count++] = r->model;
    add_number(w, "--batch", r->batch / (whole_lanes ? r->lanes : s->processes));
    add_number(w, "--accumulate", whole_lanes ? r->lanes / s->processes : 1);
    add_number(w, "--image", r->image);
    add_number(w, "--classes", r->classes);
    add_number(w, "--threads", threads_of(r, s->processes));
    add(w, "--precision", r->precision);
    add(w, "--stem", get_or(recipe, "model.stem", "imagenet"));
    add(w, "--momentum", get_or(recipe, "optimizer.momentum", "0"));
    add(w, "--nesterov", nesterov ? "1" : "0");
    add(w, "--label-smoothing", get_or(recipe, "loss.label_smoothing", "0"));
    add(w, "--mode", s->mode);
    add(w, "--malloc", s->malloc);
    if (r->mask)
        add(w, "--features", sr_cpu_features_text(sr_cpu_features(), features));
    w->list[w->count] = NULL;
}

static const char *about_text(const sr_json *about, const char *key, const char *otherwise) {
    const char *text = sr_json_string(sr_json_get(about, key));
    return text ? text : otherwise;
}

// What the first process says of itself, in words for tables.
static sr_status read_about(sr_step_peers *p) {
    const sr_json *about;
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status =
        sr_json_parse(p->about, strlen(p->about), MAX_ABOUT_NODES, "the peer", &arena, &about);
    if (status == SR_OK) {
        (void)snprintf(p->name, sizeof p->name, "PyTorch %s", about_text(about, "torch", "?"));
        (void)snprintf(p->mode, sizeof p->mode, "%s", about_text(about, "mode", "eager"));
        (void)snprintf(p->malloc, sizeof p->malloc, "%s", about_text(about, "malloc", "?"));
        (void)snprintf(p->capability, sizeof p->capability, "%s",
                       about_text(about, "capability", "?"));
    }
    sr_arena_release(&arena);
    return status;
}

static sr_status start(const sr_step_result *r, const setting *s, sr_step_peers *p) {
    words w = {.count = 0};
    char features[80];
    const char *about = "";
    fill_words(&w, r, s, features);
    *p = (sr_step_peers){.count = s->processes};
    for (int i = 0; i < p->count; i++)
        SR_TRY(sr_peer_start("torch_step.py", w.list, &p->list[i]));
    for (int i = 0; i < p->count; i++)
        SR_TRY(sr_peer_ready(p->list[i], ready_seconds, &about));
    (void)snprintf(p->about, sizeof p->about, "%s", about);
    int threads = threads_of(r, p->count);
    (void)snprintf(p->layout, sizeof p->layout, "%d process%s of %d thread%s", p->count,
                   p->count == 1 ? "" : "es", threads, threads == 1 ? "" : "s");
    return read_about(p);
}

void sr_step_peers_stop(sr_step_peers *p) {
    for (int i = 0; i < p->count; i++)
        sr_peer_stop(p->list[i]);
    p->count = 0;
}

static double cpu_seconds(const sr_step_peers *p) {
    double sum = 0;
    for (int i = 0; i < p->count; i++)
        sum += sr_peer_cpu_seconds(p->list[i]);
    return sum;
}

static double limit(double our_seconds) {
    return answer_seconds + answer_factor * our_seconds;
}

// Seconds of the slowest process.
static sr_status run_steps(sr_step_peers *p, int steps, double our_seconds, double *slowest) {
    double most = 0;
    for (int i = 0; i < p->count; i++)
        SR_TRY(sr_peer_begin(p->list[i], steps));
    for (int i = 0; i < p->count; i++) {
        double seconds;
        SR_TRY(sr_peer_wait(p->list[i], limit(our_seconds), &seconds));
        most = seconds > most ? seconds : most;
    }
    *slowest = most;
    return SR_OK;
}

sr_status sr_step_peers_block(sr_step_peers *p, double our_seconds, sr_step_result *r) {
    double seconds, cpu = cpu_seconds(p);
    SR_TRY(run_steps(p, r->steps, our_seconds, &seconds));
    sr_series_add(&r->theirs, (double)(r->steps * r->batch) / seconds);
    sr_series_add(&r->their_cpu, (cpu_seconds(p) - cpu) / r->steps);
    return SR_OK;
}

// ---- Choosing ----

static void note_failure(sr_step_try *t, const setting *s) {
    (void)snprintf(t->setting, sizeof t->setting, "%s, %s, %d process%s", s->mode, s->malloc,
                   s->processes, s->processes == 1 ? "" : "es");
    (void)snprintf(t->reason, sizeof t->reason, "%s", sr_error_message());
}

static sr_status try_setting(const sr_step_result *r, const setting *s, double our_seconds,
                             sr_step_peers *p, sr_step_try *t) {
    double best = (double)INFINITY;
    SR_TRY(start(r, s, p));
    for (int i = 0; i < TRY_BLOCKS; i++) {
        double seconds;
        SR_TRY(run_steps(p, r->steps, our_seconds, &seconds));
        best = seconds < best ? seconds : best;
    }
    t->images_per_s = (double)(r->steps * r->batch) / best;
    (void)snprintf(t->setting, sizeof t->setting, "%s, %s, %s", p->mode, p->malloc, p->layout);
    return SR_OK;
}

// Two settings are in memory at most: the best so far and the one that is tried.
static sr_status keep_best(sr_step_result *r, const setting *list, int count, double our_seconds,
                           sr_step_peers *best) {
    double most = 0;
    for (int i = 0; i < count; i++) {
        sr_step_peers p = {.count = 0};
        sr_step_try *t = &r->tries[r->try_count++];
        if (try_setting(r, &list[i], our_seconds, &p, t) != SR_OK)
            note_failure(t, &list[i]);
        sr_step_peers slower = p;
        if (t->images_per_s > most) {
            most = t->images_per_s;
            slower = *best;
            *best = p;
        }
        sr_step_peers_stop(&slower);
    }
    return best->count > 0 ? SR_OK : SR_FAIL(SR_E_PEER, "%s", r->tries[count - 1].reason);
}

sr_status sr_step_peers_start(const sr_step_options *o, sr_step_result *r, double our_seconds,
                              sr_step_peers *p) {
    setting list[SR_STEP_TRIES];
    int count = list_settings(o, r, list);
    if (count > 1)
        return keep_best(r, list, count, our_seconds, p);
    return start(r, &list[0], p);
}

// ---- Memory ----

static sr_status add_memory(const sr_step_peers *p, double *sum) {
    for (int i = 0; i < p->count; i++) {
        double bytes;
        SR_TRY(sr_peer_memory(p->list[i], answer_seconds, &bytes));
        *sum += bytes;
    }
    return SR_OK;
}

// Eager's, with as many lanes in flight as ours: where another setting was kept, that of fresh
// processes.
sr_status sr_step_peers_memory(const sr_step_peers *kept, sr_step_result *r) {
    sr_step_peers fresh = {.count = 0};
    const char *malloc = strcmp(kept->malloc, "tcmalloc") == 0 ? "tcmalloc" : "default";
    int in_flight = most_processes(r, r->lanes);
    bool plain = strcmp(kept->mode, "eager") == 0 && kept->count >= in_flight;
    const setting eager = {"eager", malloc, kept->count > in_flight ? kept->count : in_flight};
    double sum = 0;
    sr_status status = plain ? SR_OK : start(r, &eager, &fresh);
    if (status == SR_OK)
        status = add_memory(plain ? kept : &fresh, &sum);
    sr_step_peers_stop(&fresh);
    if (status == SR_OK)
        r->their_memory = sum;
    return status;
}
