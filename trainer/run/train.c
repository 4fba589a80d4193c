// SPDX-License-Identifier: Apache-2.0
// A training run from request to exit code (train.h): setup, steps, and an end that is the same on
// all ranks.
#include "trainer/run/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/watch.h"
#include "trainer/engine/plugins.h"
#include "trainer/engine/stop.h"
#include "trainer/report/results_plot.h"
#include "trainer/run/plan_report.h"
#include "trainer/run/run_recipe.h"
#include "trainer/run/training_internal.h"

static double run_seconds(const sr_training *t) {
    double session = t->session_start_ns ? (double)(sr_clock_ns() - t->session_start_ns) / 1e9 : 0;
    return t->previous_seconds + session;
}

enum { METRICS_MAX = SR_MAX_PHASES + SR_LOSS_PARTS + SR_TASK_COLUMNS + 1 };
// How long the end of a run waits for its pictures; one that is stopped may have little time left.
enum { PICTURES_S = 60, PICTURES_STOPPED_S = 10 };

// The metrics of exit.json.
typedef struct result_metrics {
    sr_run_metric list[METRICS_MAX];
    int count;
    char best[96];
} result_metrics;

static sr_run_result make_result(const sr_training *t, sr_status status, const char *message,
                                 result_metrics *metrics) {
    const sr_run_columns *c = &t->columns;
    metrics->count = 0;
    for (int i = 0; i < c->of[SR_RUN_LOSS]; i++)
        metrics->list[metrics->count++] =
            (sr_run_metric){c->keys[c->at[SR_RUN_LOSS] + i], t->last_losses[i]};
    for (int i = c->scalars.first_part; i < c->scalars.count; i++)
        metrics->list[metrics->count++] =
            (sr_run_metric){c->keys[c->at[SR_RUN_TRAIN] + i], t->last_scalars[i]};
    for (int i = 0; i < c->of[SR_RUN_VAL]; i++)
        metrics->list[metrics->count++] =
            (sr_run_metric){c->keys[c->at[SR_RUN_VAL] + i], t->val[i]};
    if (c->of[SR_RUN_VAL] > 0) {
        (void)snprintf(metrics->best, sizeof metrics->best, "best_%s",
                       c->keys[c->at[SR_RUN_VAL] + c->main]);
        metrics->list[metrics->count++] = (sr_run_metric){metrics->best, t->best_main};
    }
    return (sr_run_result){.status = status == SR_OK              ? SR_RUN_FINISHED
                                     : status == SR_E_INTERRUPTED ? SR_RUN_STOPPED
                                                                  : SR_RUN_FAILED,
                           .exit_code = sr_status_exit_code(status),
                           .message = status == SR_OK ? NULL : message,
                           .steps = t->step,
                           .samples = t->position,
                           .digest = t->digest[0] ? t->digest : NULL,
                           .wall_seconds = run_seconds(t),
                           .metrics = metrics->list,
                           .metric_count = metrics->count};
}

// A run without exit.json does not count as finished.
static sr_status write_exit(sr_training *t, sr_status status, const char *message) {
    result_metrics metrics;
    if (!t->run)
        return SR_OK;
    SR_TRY(sr_run_folder_check(t->run));
    const sr_run_result result = make_result(t, status, message, &metrics);
    SR_TRY(sr_run_finish(t->run, &result));
    char fields[128];
    (void)snprintf(fields, sizeof fields,
                   "\"step\": %lld, \"samples\": %lld, \"status\": \"%s\", \"exit_code\": %d",
                   (long long)t->step, (long long)t->position, result.status, result.exit_code);
    sr_run_event(t->run, "end", fields);
    return SR_OK;
}

static void print_json(const sr_training *t, sr_status status, const char *message) {
    result_metrics metrics;
    sr_text line;
    const sr_run_result result = make_result(t, status, message, &metrics);
    sr_text_init(&line);
    sr_run_result_add_line(&result, t->location.folder, &line);
    if (sr_text_check(&line) == SR_OK)
        (void)fputs(line.data, stdout);
    (void)fflush(stdout);
    sr_text_release(&line);
}

static void draw_results(const sr_training *t) {
    if (!t->run || t->step == 0 || sr_run_folder_check(t->run) != SR_OK)
        return;
    const sr_run_columns *c = &t->columns;
    const bool measured = c->of[SR_RUN_VAL] > 0;
    const sr_results results = {.folder = t->location.folder,
                                .columns = c->list,
                                .count = c->count,
                                .fractions = t->task->fractions,
                                .best = measured ? &c->list[c->at[SR_RUN_VAL] + c->main] : NULL};
    sr_results_draw(&results, t->drawing);
}

// The task's own column, and losses.
static void print_values(const sr_training *t) {
    const sr_run_columns *c = &t->columns;
    const int first = c->at[SR_RUN_VAL], own = c->main;
    if (c->of[SR_RUN_VAL] == 0 || isnan(t->val[own]))
        return;
    (void)printf("%s %.4f\n", c->keys[first + own], t->val[own]);
    for (int i = 0; i < c->of[SR_RUN_VAL]; i++)
        if (i != own && c->list[first + i].unit == SR_UNIT_LOSS)
            (void)printf("%s %.4f\n", c->keys[first + i], t->val[i]);
}

static void print_result(const sr_training *t) {
    char time[24];
    SR_INFO("finished %lld step%s in %s, %.0f images/s; digest %.16s...", (long long)t->step,
            t->step == 1 ? "" : "s", sr_progress_duration(run_seconds(t), time),
            (double)(t->position - t->session_start_position) /
                ((double)(sr_clock_ns() - t->session_start_ns - t->aside_ns) / 1e9),
            t->digest);
    if (t->request->json)
        return;
    print_values(t);
    (void)printf("digest %s\nrun %s\n", t->digest, t->location.folder);
    (void)fflush(stdout);
}

sr_status sr_train_load_recipe(const sr_train_request *request, sr_recipe **out) {
    const char *const *overrides = request->overrides;
    if (!request->stored_recipe)
        return sr_choose_recipe(request->recipe, overrides, request->override_count, out);
    const sr_status status =
        sr_run_recipe_load(request->recipe, overrides, request->override_count, out);
    return status != SR_E_NOT_FOUND
               ? status
               : SR_FAIL(status, "--resume %s: not a run folder: it has no recipe.yaml",
                         request->resume);
}

sr_plugins_trust sr_train_trust(const sr_train_request *request) {
    if (request->allow_plugins)
        return SR_PLUGINS_ALLOWED;
    return request->stored_recipe ? SR_PLUGINS_FOUND : SR_PLUGINS_NAMED;
}

static sr_status open_recipe(const sr_train_request *request, sr_recipe **out) {
    SR_TRY(sr_train_load_recipe(request, out));
    SR_TRY(sr_plugins_load(*out, sr_train_trust(request)));
    if (request->dry_run)
        return sr_recipe_check(*out);
    return SR_OK;
}

static sr_status train(sr_training *t) {
    SR_TRY(sr_stop_install());
    SR_TRY(sr_training_begin(t));
    return sr_training_run(t);
}

// Mistakes in recipes begin with file and line and are printed without a prefix.
static void print_failure(sr_status status, const char *message) {
    char visible[4096];
    if (status == SR_E_INTERRUPTED)
        SR_INFO("%s", message);
    else if (strstr(message, ": error: "))
        (void)fprintf(stderr, "%s\n", sr_text_visible_message(message, visible, sizeof visible));
    else
        SR_ERROR("%s", message);
}

// Rank 0 prints the message: it receives the failing rank's message through the communicator. The
// other ranks write it to their log file, once that is open.
static int end_run(sr_training *t, sr_status status) {
    char message[1024] = "";
    sr_log_progress_end();
    if (status != SR_OK)
        (void)snprintf(message, sizeof message, "%s", sr_error_message());
    if (status != SR_OK && t->rank != 0 && sr_comm_speaks(t->comm))
        sr_log_alarm("%s", message); // rank 0 is stopped
    else if (status != SR_OK && (t->rank == 0 || t->location.folder[0]))
        print_failure(status, message);
    sr_watch watch;
    sr_watch_begin_work(&watch, "exit.json and pictures to be written to %s", t->location.folder);
    if (t->rank == 0) {
        if (status != SR_E_NO_SPACE) // there is no space for a picture either
            draw_results(t);
        (void)sr_drawing_finish(t->drawing, status == SR_OK ? PICTURES_S : PICTURES_STOPPED_S);
        sr_status written = write_exit(t, status, message);
        if (written != SR_OK && status != SR_OK)
            SR_WARN("%s", sr_error_message());
        if (written != SR_OK && status == SR_OK) {
            status = written;
            (void)snprintf(message, sizeof message, "%s", sr_error_message());
            print_failure(status, message);
        }
        if (status == SR_OK)
            print_result(t);
        if (t->request->json && t->location.folder[0])
            print_json(t, status, message);
    }
    sr_watch_end(&watch);
    if (status != SR_OK && status != SR_E_INTERRUPTED)
        sr_comm_abort(t->comm, status, message);
    sr_training_release(t);
    return sr_status_exit_code(status);
}

// Starts the watchdog of this rank; 'who' names the rank in its messages.
static sr_status watch(const sr_recipe *recipe, const char *who, sr_board_entry *entry) {
    const sr_watch_options options = {.report_seconds = recipe->deadline_report,
                                      .act_seconds = recipe->deadline_act,
                                      .who = who,
                                      .beats = entry ? &entry->beats : NULL};
    return sr_watch_start(&options);
}

static sr_status start_watch(sr_training *t) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char who[64] = "";
    if (rank) {
        t->entry = sr_board_join(atoi(rank), t->recipe->deadline_report, t->recipe->deadline_act);
        (void)snprintf(who, sizeof who, "rank %s (pid %d)", rank, (int)getpid());
    }
    return watch(t->recipe, who, t->entry);
}

static sr_status name_watch(const sr_training *t) {
    char who[128] = "";
    if (t->ranks > 1)
        (void)snprintf(who, sizeof who, "rank %d (%s)", t->rank,
                       sr_comm_peer_name(t->comm, t->rank));
    return watch(t->recipe, who, t->entry);
}

int sr_train_main(const sr_train_request *request) {
    sr_training t = {.request = request};
    int code;
    sr_arena_init(&t.arena);
    sr_status status = open_recipe(request, &t.recipe);
    if (status == SR_OK && request->dry_run) {
        status = sr_plan_report(t.recipe, request->ranks);
        if (status != SR_OK)
            print_failure(status, sr_error_message());
        sr_recipe_free(t.recipe);
        return sr_status_exit_code(status);
    }
    sr_kept_error of_recipe = {.status = SR_OK};
    sr_error_keep(&of_recipe, status);
    if (status == SR_OK && start_watch(&t) != SR_OK)
        SR_WARN("running without a watchdog: %s", sr_error_message());
    const sr_comm_options comm = {.report_seconds = t.recipe ? t.recipe->deadline_report : 0,
                                  .act_seconds = t.recipe ? t.recipe->deadline_act : 0,
                                  .patience = SR_PATIENCE};
    status = sr_comm_create(&comm, &t.comm);
    if (status != SR_OK) {
        if (of_recipe.status != SR_OK)
            status = sr_error_restore(&of_recipe);
        print_failure(status, sr_error_message());
        code = sr_status_exit_code(status);
        goto done;
    }
    sr_board_connect(t.entry);
    t.rank = sr_comm_rank(t.comm);
    t.ranks = sr_comm_size(t.comm);
    sr_log_set_rank(t.rank, t.ranks);
    if (of_recipe.status == SR_OK && name_watch(&t) != SR_OK)
        SR_WARN("running without a watchdog: %s", sr_error_message());
    status = of_recipe.status == SR_OK ? train(&t) : sr_error_restore(&of_recipe);
    code = end_run(&t, status);
done:
    sr_board_leave(t.entry);
    sr_comm_free(t.comm);
    sr_watch_stop();
    sr_recipe_free(t.recipe);
    sr_log_close_file();
    return code;
}
