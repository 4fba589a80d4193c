// SPDX-License-Identifier: Apache-2.0
// PyTorch in serried bench step: the processes of a setting, their blocks and their memory.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "launcher/bench/bench_step_internal.h"
#include "trainer/checkpoint/json_tree.h"

enum { MAX_ARGUMENTS = 44, MAX_ABOUT_NODES = 64, CPU_LIST = 6 * 64 };

// Limits: for importing, compiling and warming up; for an answer, in addition to a multiple of our
// time.
static const double ready_seconds = 600, answer_seconds = 60, answer_factor = 20;

// ---- Processes ----

typedef struct peer_arguments {
    const char *list[MAX_ARGUMENTS];
    int count;
    char numbers[8][24], cpus[CPU_LIST], features[80];
    int number_count;
} peer_arguments;

static void add(peer_arguments *w, const char *name, const char *value) {
    w->list[w->count++] = name;
    w->list[w->count++] = value;
}

static void add_number(peer_arguments *w, const char *name, int64_t value) {
    char *text = w->numbers[w->number_count++];
    (void)snprintf(text, sizeof w->numbers[0], "%lld", (long long)value);
    add(w, name, text);
}

static const char *get_or(const sr_recipe *recipe, const char *path, const char *otherwise) {
    const char *text = sr_recipe_get(recipe, path);
    return text ? text : otherwise;
}

// "0,1": the processors of process 'index', one per thread, as many as fit into the text.
static void add_cpus(peer_arguments *w, const sr_step_result *r, const sr_step_setting *s,
                     int index) {
    size_t used = 0;
    for (int i = 0; i < s->threads && used + 8 < sizeof w->cpus; i++) {
        const int cpu = r->cpus[(index * s->threads + i) % r->cpu_count];
        used += (size_t)snprintf(w->cpus + used, sizeof w->cpus - used, "%s%d", i ? "," : "", cpu);
    }
    add(w, "--cpus", w->cpus);
}

// Options of networks around another one.
static void add_maps(peer_arguments *w, const sr_recipe *recipe) {
    static const struct {
        const char *option, *key;
    } rows[] = {{"--backbone", "model.backbone.name"},
                {"--output-stride", "model.backbone.output_stride"},
                {"--channels", "model.channels"},
                {"--aux", "model.aux"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *value = sr_recipe_get(recipe, rows[i].key);
        if (value)
            add(w, rows[i].option, value);
    }
}

// The command line of process 'index'.
static void fill_arguments(peer_arguments *w, const sr_step_result *r, const sr_step_setting *s,
                           int index) {
    const sr_recipe *recipe = r->recipe;
    bool nesterov = strcmp(get_or(recipe, "optimizer.nesterov", "false"), "true") == 0;
    w->list[w->count++] = r->model;
    add_number(w, "--batch", r->batch / s->processes / s->passes);
    add_number(w, "--accumulate", s->passes);
    add_number(w, "--image", r->image);
    add_number(w, "--classes", r->classes);
    add_number(w, "--threads", s->threads);
    add(w, "--precision", s->precision);
    add(w, "--stem", get_or(recipe, "model.stem", "imagenet"));
    add(w, "--momentum", get_or(recipe, "optimizer.momentum", "0"));
    add(w, "--nesterov", nesterov ? "1" : "0");
    add(w, "--label-smoothing", get_or(recipe, "loss.label_smoothing", "0"));
    add_maps(w, recipe);
    add(w, "--mode", s->mode);
    add(w, "--malloc", s->malloc);
    if (!sr_step_is_on_cpu(r))
        add(w, "--device", "cuda");
    if (s->pinned)
        add_cpus(w, r, s, index);
    if (r->mask)
        add(w, "--features", sr_cpu_features_text(sr_cpu_features(), w->features));
    w->list[w->count] = NULL;
}

static const char *about_text(const sr_json *about, const char *key, const char *otherwise) {
    const char *text = sr_json_string(sr_json_get(about, key));
    return text ? text : otherwise;
}

// Parses what the first process reports about itself, for tables.
static sr_status read_about(sr_step_peers *p) {
    const sr_json *about;
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status =
        sr_json_parse(p->about, strlen(p->about), MAX_ABOUT_NODES, "the peer", &arena, &about);
    if (status == SR_OK) {
        (void)snprintf(p->name, sizeof p->name, "PyTorch %s", about_text(about, "torch", "?"));
        (void)snprintf(p->malloc, sizeof p->malloc, "%s", about_text(about, "malloc", "?"));
        (void)snprintf(p->capability, sizeof p->capability, "%s",
                       about_text(about, "capability", "?"));
    }
    sr_arena_release(&arena);
    return status;
}

sr_status sr_step_peers_start(const sr_step_result *r, const sr_step_setting *s, sr_step_peers *p) {
    const char *about = "";
    *p = (sr_step_peers){.count = s->processes};
    for (int i = 0; i < p->count; i++) {
        peer_arguments w = {.count = 0};
        fill_arguments(&w, r, s, i);
        SR_TRY(sr_peer_start("torch_step.py", w.list, &p->list[i]));
    }
    for (int i = 0; i < p->count; i++)
        SR_TRY(sr_peer_ready(p->list[i], ready_seconds, &about));
    (void)snprintf(p->about, sizeof p->about, "%s", about);
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

sr_status sr_step_peers_block(sr_step_peers *p, const sr_step_result *r, double our_seconds,
                              double *seconds, double *cpu) {
    const double before = cpu_seconds(p);
    double slowest = 0;
    for (int i = 0; i < p->count; i++)
        SR_TRY(sr_peer_begin(p->list[i], r->steps));
    for (int i = 0; i < p->count; i++) {
        double one;
        SR_TRY(sr_peer_wait(p->list[i], limit(our_seconds), &one));
        slowest = one > slowest ? one : slowest;
    }
    *seconds = slowest;
    *cpu = cpu_seconds(p) - before;
    return SR_OK;
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

static bool is_eager(const sr_step_setting *s, const sr_step_result *r) {
    return strcmp(s->mode, "eager") == 0 && sr_step_equal_groups(s, r->peer_precision);
}

// The memory of eager PyTorch with as many lanes in flight as ours: of a final if one has this
// setting, otherwise of new processes.
sr_status sr_step_peers_memory(sr_step_result *r) {
    sr_step_setting most = {.processes = 0};
    sr_step_options all = {.peer_mode = "eager", .peer_groups = SR_STEP_GROUPS_EQUAL};
    sr_step_setting list[SR_STEP_TRIES];
    if (sr_step_settings_list(&all, r, false, list) > 0)
        most = list[0];
    const sr_step_peers *peers = NULL;
    sr_step_peers fresh = {.count = 0};
    for (int i = 0; i < r->final_count; i++) {
        const sr_step_final *f = &r->finals[i];
        if (!f->reason[0] && is_eager(&f->setting, r) && f->setting.processes >= most.processes)
            peers = &f->peers;
    }
    double sum = 0;
    sr_status status = peers ? SR_OK : sr_step_peers_start(r, &most, &fresh);
    if (status == SR_OK)
        status = add_memory(peers ? peers : &fresh, &sum);
    sr_step_peers_stop(&fresh);
    if (status == SR_OK)
        r->their_memory = sum;
    return status;
}
