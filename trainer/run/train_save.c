// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training run: manifest, saving, resuming.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/watch.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/engine/fingerprint.h"
#include "trainer/run/training_internal.h"
#include "trainer/tasks/eval_view.h"

static const sr_column *val_column(const sr_training *t, int which) {
    return &t->columns.list[t->columns.at[SR_RUN_VAL] + which];
}

// NaN where this position was not evaluated.
static double metric_now(const sr_training *t) {
    return t->evaluated_here ? t->val[t->columns.chosen.best] : (double)NAN;
}

bool sr_training_is_best(const sr_training *t) {
    return sr_column_is_better(val_column(t, t->columns.chosen.best), metric_now(t), t->best_saved);
}

// ---- Numbers that exit.json and the next row of metrics.csv need in addition to the state ----

enum { NUMBERS_MAX = SR_RUN_COLUMNS_MAX + 16, NUMBER_BYTES = 32, KEY_BYTES = 96, VIEW_BYTES = 192 };

typedef struct saved_number {
    char key[KEY_BYTES];
    double *real;
    int64_t *integer; // instead of 'real'
    char text[NUMBER_BYTES];
} saved_number;

typedef struct saved_numbers {
    saved_number list[NUMBERS_MAX];
    int count;
} saved_numbers;

static void add_number(saved_numbers *n, double *real, int64_t *integer, const char *prefix,
                       const char *name) {
    saved_number *number = &n->list[n->count++];
    number->real = real;
    number->integer = integer;
    (void)snprintf(number->key, KEY_BYTES, "%s%s", prefix, name);
}

static saved_numbers *list_numbers(sr_training *t) {
    const sr_run_columns *c = &t->columns;
    const char *const *losses = c->keys + c->at[SR_RUN_LOSS], *const *val =
                                                                  c->keys + c->at[SR_RUN_VAL];
    char window[KEY_BYTES - 16];
    saved_numbers *n = sr_alloc(sizeof *n, "numbers of a checkpoint");
    if (!n)
        return NULL;
    for (int i = 0; i < c->of[SR_RUN_LOSS]; i++)
        add_number(n, &t->last_losses[i], NULL, "", losses[i]);
    for (int i = 0; i < c->of[SR_RUN_VAL]; i++)
        add_number(n, &t->val[i], NULL, "", val[i]);
    add_number(n, NULL, &t->val_position, "", "val_samples");
    if (c->of[SR_RUN_VAL] > 0)
        add_number(n, &t->best_main, NULL, "best_", val[c->main]);
    for (int i = 0; i < c->of[SR_RUN_LOSS]; i++) {
        const char *phase = t->recipe->phases[i].name;
        (void)snprintf(window, sizeof window, "window_%s%s", phase, *phase ? "." : "");
        add_number(n, &t->window.losses[i], NULL, window, "loss");
        add_number(n, NULL, &t->window.samples[i], window, "samples");
    }
    for (int i = 0; i < c->scalars.count; i++)
        add_number(n, &t->window.scalars[i], NULL, "window_", c->scalars.list[i].name);
    for (int i = c->scalars.first_part; i < c->scalars.count; i++)
        add_number(n, &t->last_scalars[i], NULL, "", c->keys[c->at[SR_RUN_TRAIN] + i]);
    add_number(n, NULL, &t->evaluation_due, "", "evaluation_due");
    if (c->of[SR_RUN_VAL] > 0) { // those of another stop.metric are not found again
        add_number(n, &t->stop_best, NULL, "stop_best_", val[c->chosen.stop]);
        add_number(n, NULL, &t->stop_waited, "stop_waited_", val[c->chosen.stop]);
    }
    return n;
}

static void format_numbers(saved_numbers *n, sr_metadata *out) {
    for (int i = 0; i < n->count; i++) {
        saved_number *number = &n->list[i];
        if (number->real)
            (void)snprintf(number->text, NUMBER_BYTES, "%.17g", *number->real);
        else
            (void)snprintf(number->text, NUMBER_BYTES, "%lld", (long long)*number->integer);
        out[i] = (sr_metadata){.key = number->key, .value = number->text};
    }
}

// As checkpoint.metric names it; "" where nothing is evaluated.
static const char *best_name(const sr_training *t) {
    return t->columns.of[SR_RUN_VAL] > 0 ? val_column(t, t->columns.chosen.best)->name : "";
}

// The settings of an evaluation that its metrics depend on.
static const char *describe_view(const sr_training *t, char out[VIEW_BYTES]) {
    sr_eval_view view;
    t->task->view(t->recipe, t->info.task_options, &view);
    const int used = snprintf(out, VIEW_BYTES, "%s crop=%lldx%lld flip=%d", view.resize,
                              (long long)view.height, (long long)view.width, t->recipe->eval.flip);
    if (t->recipe->eval.shift > 0 && used > 0 && used < VIEW_BYTES)
        (void)snprintf(out + used, (size_t)(VIEW_BYTES - used), " shift=%lld",
                       (long long)t->recipe->eval.shift);
    return out;
}

static sr_status read_numbers(sr_training *t, const sr_manifest *m) {
    saved_numbers *n = list_numbers(t);
    if (!n)
        return SR_E_MEMORY;
    for (int i = 0; i < n->count; i++) {
        const char *value = sr_manifest_extra(m, n->list[i].key);
        if (value && n->list[i].real)
            *n->list[i].real = strtod(value, NULL);
        else if (value)
            *n->list[i].integer = strtoll(value, NULL, 10);
    }
    sr_free(n);
    return SR_OK;
}

// Whether the manifest has this text under the key, or nothing (of an earlier version).
static bool is_as_before(const sr_manifest *m, const char *key, const char *now) {
    const char *before = sr_manifest_extra(m, key);
    return !before || strcmp(before, now) == 0;
}

static void forget_values(sr_training *t) {
    t->best_main = t->stop_best = (double)NAN;
    t->stop_waited = 0;
}

// Values of another metric, of other pictures or of pictures seen otherwise are not comparable with
// those that follow.
static void forget_other_evaluation(sr_training *t, const sr_manifest *m) {
    const char *now = best_name(t), *other = NULL;
    char view[VIEW_BYTES];
    if (!is_as_before(m, SR_EXTRA_VAL_DATA, t->inputs.val_identity)) {
        other = "evaluation pictures";
        forget_values(t);
    } else if (!is_as_before(m, SR_EXTRA_VAL_VIEW, describe_view(t, view))) {
        other = "evaluation settings (eval)";
        forget_values(t);
    } else if (strcmp(m->metric, now) != 0) {
        other = "checkpoint.metric";
    }
    if (!other)
        return;
    if (t->rank == 0 && t->inputs.val_path[0] && t->best_step > 0)
        SR_WARN("%s changed since the last checkpoint: 'best' starts over", other);
    t->best_saved = (double)NAN;
    t->best_step = 0;
}

// ---- Saving and resuming ----

static sr_manifest make_manifest(const sr_training *t, const char *fingerprint) {
    const sr_param_set_info set =
        sr_param_set_get_info(sr_engine_get_set(t->engine, t->info.infers));
    sr_manifest m = {.position = t->position,
                     .step = t->step,
                     .epoch = t->position / t->inputs.count,
                     .lanes = t->info.lanes,
                     .batch = t->info.batch,
                     .seed = t->info.seed,
                     .task = t->task->name,
                     .model = set.model->desc->name,
                     .recipe = t->recipe_name,
                     .recipe_identity = t->identity,
                     .data_identity = t->inputs.identity,
                     .fingerprint = fingerprint,
                     .classes = t->inputs.class_names,
                     .class_count = t->inputs.class_count,
                     .image_height = t->info.image_height,
                     .image_width = t->info.image_width,
                     .channels = 3,
                     .metric = best_name(t),
                     .metric_value = metric_now(t),
                     .best_value = t->best_saved,
                     .best_step = t->best_step};
    for (int c = 0; c < 3; c++) {
        m.mean[c] = t->info.mean[c];
        m.std[c] = t->info.std[c];
    }
    return m;
}

const char *sr_training_describe_last(const sr_training *t, char out[96]) {
    (void)snprintf(out, 96, "there is no checkpoint yet");
    if (t->saved_position > 0)
        (void)snprintf(out, 96, "the checkpoint of step %lld is complete",
                       (long long)(t->saved_position / t->info.batch));
    return out;
}

// The loss shows a value that is not finite one step late, or never (a running statistic). A state
// that cannot be resumed must not replace one that can. The result is the same on all ranks,
// because the values are.
static sr_status check_values(const sr_training *t) {
    for (int s = 0; s < t->info.sets; s++) {
        const sr_param_set *set = sr_engine_get_set(t->engine, s);
        const sr_param *param;
        char last[96];
        SR_TRY(sr_param_set_find_not_finite(set, SR_SET_VALUES, false, &param));
        if (param) {
            return SR_FAIL(SR_E_NON_FINITE,
                           "%s is not finite after step %lld: lower %s.lr or warm up longer; %s",
                           param->name, (long long)t->step,
                           t->recipe->sets[s].optimizer.choice.path,
                           sr_training_describe_last(t, last));
        }
    }
    return SR_OK;
}

// A position has one row, even if its evaluation, after which the checkpoint is saved again, was in
// a later session.
sr_status sr_training_add_digest(sr_training *t) {
    char step[32], position[32];
    if (t->digest_position == t->position)
        return SR_OK;
    t->digest_position = t->position;
    (void)snprintf(step, sizeof step, "%lld", (long long)t->step);
    (void)snprintf(position, sizeof position, "%lld", (long long)t->position);
    return sr_csv_add_text(t->digests, (const char *const[]){step, position, t->digest});
}

// Rank 0, once a generation is durable.
static sr_status log_saved(sr_training *t) {
    char fields[192];
    SR_TRY(sr_training_add_digest(t));
    (void)snprintf(fields, sizeof fields, "\"step\": %lld, \"samples\": %lld, \"digest\": \"%s\"",
                   (long long)t->step, (long long)t->position, t->digest);
    sr_run_event(t->run, "checkpoint", fields);
    return SR_OK;
}

// After an evaluation, the state of this position is already saved and only its manifest changes.
static sr_status write_generation(sr_training *t, sr_manifest *manifest) {
    const bool there = t->saved_position == t->position;
    if (there && t->rank == 0) {
        manifest->generation = t->location.generation;
        manifest->digest = t->digest;
        return sr_checkpoint_amend(t->location.folder, manifest, (int)t->recipe->checkpoint.keep);
    }
    if (there)
        return SR_OK;
    SR_TRY(check_values(t));
    SR_TRY(sr_state_save(t->engine, t->location.folder, manifest, (int)t->recipe->checkpoint.keep,
                         t->digest));
    t->location.generation = manifest->generation;
    t->saved_position = t->position;
    t->last_checkpoint_ns = sr_clock_ns();
    return t->rank == 0 ? log_saved(t) : SR_OK;
}

static sr_status save_with(sr_training *t, saved_numbers *numbers) {
    char fingerprint[SR_FINGERPRINT_BYTES], view[VIEW_BYTES];
    sr_metadata extra[NUMBERS_MAX + 2];
    if (sr_training_is_best(t)) {
        t->best_saved = metric_now(t);
        t->best_step = t->step;
    }
    sr_manifest manifest = make_manifest(t, sr_fingerprint(&t->device, fingerprint));
    format_numbers(numbers, extra);
    extra[numbers->count] =
        (sr_metadata){.key = SR_EXTRA_VAL_DATA, .value = t->inputs.val_identity};
    extra[numbers->count + 1] =
        (sr_metadata){.key = SR_EXTRA_VAL_VIEW, .value = describe_view(t, view)};
    manifest.extra = extra;
    manifest.extra_count = numbers->count + 2;
    if (t->rank == 0) {
        SR_TRY(sr_run_folder_check(t->run));
        SR_TRY(sr_csv_sync(t->metrics));
        SR_TRY(sr_csv_sync(t->digests));
    }
    return write_generation(t, &manifest);
}

static sr_status save(sr_training *t) {
    saved_numbers *numbers = list_numbers(t);
    const sr_status status = numbers ? save_with(t, numbers) : SR_E_MEMORY;
    sr_free(numbers);
    return status;
}

sr_status sr_training_save(sr_training *t) {
    sr_watch watch;
    sr_watch_begin_work(&watch, "the checkpoint of step %lld to be written to %s",
                        (long long)t->step, t->location.folder);
    sr_status status = save(t);
    sr_watch_end(&watch);
    return status;
}

static sr_status check_numerics(const sr_training *t, const sr_manifest *m) {
    char here[SR_FINGERPRINT_BYTES];
    sr_text text;
    sr_status status = SR_OK;
    if (strcmp(m->fingerprint, sr_fingerprint(&t->device, here)) == 0)
        return SR_OK;
    sr_text_init(&text);
    sr_fingerprint_difference(&(sr_fingerprint_origin){m->fingerprint, "in the checkpoint"},
                              &(sr_fingerprint_origin){here, "here"}, &text);
    if (!t->request->allow_numerics_change) {
        status = SR_FAIL(
            SR_E_NUMERICS,
            "%s was computed with different numerics (%s); resume it where it was computed, or add "
            "--allow-numerics-change to resume it here, with a different result",
            t->location.folder, text.data);
    } else if (t->rank == 0) {
        SR_WARN("%s was computed with different numerics (%s): the result differs from that of a "
                "run without the change",
                t->location.folder, text.data);
    }
    sr_text_release(&text);
    return status;
}

static sr_status check_manifest(const sr_training *t, const sr_manifest *m) {
    if (m->lanes != t->info.lanes || m->batch != t->info.batch)
        return SR_FAIL(SR_E_USAGE,
                       "%s was trained with batch=%lld lanes=%d, not batch=%lld lanes=%d",
                       t->location.folder, (long long)m->batch, m->lanes, (long long)t->info.batch,
                       t->info.lanes);
    return check_numerics(t, m);
}

sr_status sr_training_load(sr_training *t) {
    sr_checkpoint *checkpoint;
    const sr_checkpoint_open_options options = {.generation = t->location.generation,
                                                .no_verify = t->rank != 0};
    SR_TRY(sr_checkpoint_open(t->location.folder, &options, &checkpoint));
    const sr_manifest *m = sr_checkpoint_manifest(checkpoint);
    sr_status status = check_manifest(t, m);
    if (status == SR_OK)
        status = sr_state_load(t->engine, checkpoint);
    if (status == SR_OK) {
        t->position = m->position;
        t->step = m->step;
        t->best_saved = m->best_value;
        t->best_step = m->best_step;
        t->evaluated_here = !isnan(m->metric_value);
        status = read_numbers(t, m);
        forget_other_evaluation(t, m);
        t->saved_position = t->position;
        if (t->rank == 0 && sr_checkpoint_link(t->location.folder, m) != SR_OK)
            SR_WARN("%s", sr_error_message());
        (void)snprintf(t->digest, sizeof t->digest, "%s", m->digest);
    }
    sr_checkpoint_free(checkpoint);
    return status;
}
