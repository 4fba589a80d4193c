// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training run: manifest, saving, resuming.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/watch.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/engine/fingerprint.h"
#include "trainer/run/eval_view.h"
#include "trainer/run/training_internal.h"

// NaN where this position was not evaluated.
static double metric_now(const sr_training *t) {
    const double values[SR_BEST_METRICS] = {
        [SR_BEST_TOP1] = t->val_top1, [SR_BEST_TOP5] = t->val_top5, [SR_BEST_LOSS] = t->val_loss};
    return t->evaluated_here ? values[t->metric] : (double)NAN;
}

bool sr_training_is_best(const sr_training *t) {
    double now = metric_now(t), best = t->best_saved;
    if (isnan(now) || isnan(best))
        return !isnan(now);
    return t->metric == SR_BEST_LOSS ? now < best : now > best;
}

// ---- Numbers that exit.json and the next row of metrics.csv need in addition to the state ----

enum { NUMBERS = 10, NUMBER_BYTES = 32, VIEW_BYTES = 192 };

typedef struct saved_number {
    const char *key;
    double *real;
    int64_t *integer; // instead of 'real'
} saved_number;

static void list_numbers(sr_training *t, saved_number out[NUMBERS]) {
    const saved_number all[NUMBERS] = {
        {"train_loss", &t->last_loss, NULL},     {"val_loss", &t->val_loss, NULL},
        {"val_top1", &t->val_top1, NULL},        {"val_top5", &t->val_top5, NULL},
        {"val_samples", NULL, &t->val_position}, {"best_val_top1", &t->best_top1, NULL},
        {"window_loss", &t->window.loss, NULL},  {"window_samples", NULL, &t->window.samples},
        {"window_hits", NULL, &t->window.hits1}, {"evaluation_due", NULL, &t->evaluation_due}};
    memcpy(out, all, sizeof all);
}

static void format_numbers(sr_training *t, char text[NUMBERS][NUMBER_BYTES],
                           sr_metadata out[NUMBERS]) {
    saved_number numbers[NUMBERS];
    list_numbers(t, numbers);
    for (int i = 0; i < NUMBERS; i++) {
        const saved_number *n = &numbers[i];
        if (n->real)
            (void)snprintf(text[i], NUMBER_BYTES, "%.17g", *n->real);
        else
            (void)snprintf(text[i], NUMBER_BYTES, "%lld", (long long)*n->integer);
        out[i] = (sr_metadata){.key = n->key, .value = text[i]};
    }
}

// The settings of an evaluation that its metrics depend on.
static const char *describe_view(const sr_training *t, char out[VIEW_BYTES]) {
    sr_eval_view view;
    sr_eval_view_of(t->recipe, &view);
    (void)snprintf(out, VIEW_BYTES, "%s crop=%lldx%lld flip=%d", view.resize,
                   (long long)view.height, (long long)view.width, t->recipe->eval.flip);
    return out;
}

static void read_numbers(sr_training *t, const sr_manifest *m) {
    saved_number numbers[NUMBERS];
    list_numbers(t, numbers);
    for (int i = 0; i < NUMBERS; i++) {
        const char *value = sr_manifest_extra(m, numbers[i].key);
        if (value && numbers[i].real)
            *numbers[i].real = strtod(value, NULL);
        else if (value)
            *numbers[i].integer = strtoll(value, NULL, 10);
    }
}

// Whether the manifest has this text under the key, or nothing (of an earlier version).
static bool is_as_before(const sr_manifest *m, const char *key, const char *now) {
    const char *before = sr_manifest_extra(m, key);
    return !before || strcmp(before, now) == 0;
}

// Values of another metric, of other pictures or of pictures seen otherwise are not comparable with
// those that follow.
static void forget_other_evaluation(sr_training *t, const sr_manifest *m) {
    const char *now = sr_best_metric_name(t->metric), *other = NULL;
    char view[VIEW_BYTES];
    if (!is_as_before(m, SR_EXTRA_VAL_DATA, t->inputs.val_identity)) {
        other = "evaluation pictures";
        t->best_top1 = (double)NAN;
    } else if (!is_as_before(m, SR_EXTRA_VAL_VIEW, describe_view(t, view))) {
        other = "evaluation settings (eval)";
        t->best_top1 = (double)NAN;
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
                     .metric = sr_best_metric_name(t->metric),
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
        if (param)
            return SR_FAIL(SR_E_NON_FINITE,
                           "%s is not finite after step %lld: lower %s.lr or warm up longer; %s",
                           param->name, (long long)t->step,
                           t->recipe->sets[s].optimizer.choice.path,
                           sr_training_describe_last(t, last));
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

static sr_status save(sr_training *t) {
    char fingerprint[SR_FINGERPRINT_BYTES], text[NUMBERS][NUMBER_BYTES], view[VIEW_BYTES];
    sr_metadata extra[NUMBERS + 2];
    if (sr_training_is_best(t)) {
        t->best_saved = metric_now(t);
        t->best_step = t->step;
    }
    sr_manifest manifest = make_manifest(t, sr_fingerprint(&t->device, fingerprint));
    format_numbers(t, text, extra);
    extra[NUMBERS] = (sr_metadata){.key = SR_EXTRA_VAL_DATA, .value = t->inputs.val_identity};
    extra[NUMBERS + 1] = (sr_metadata){.key = SR_EXTRA_VAL_VIEW, .value = describe_view(t, view)};
    manifest.extra = extra;
    manifest.extra_count = NUMBERS + 2;
    if (t->rank == 0) {
        SR_TRY(sr_run_folder_check(t->run));
        SR_TRY(sr_csv_sync(t->metrics));
        SR_TRY(sr_csv_sync(t->digests));
    }
    return write_generation(t, &manifest);
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
        read_numbers(t, m);
        forget_other_evaluation(t, m);
        t->saved_position = t->position;
        if (t->rank == 0 && sr_checkpoint_link(t->location.folder, m) != SR_OK)
            SR_WARN("%s", sr_error_message());
        (void)snprintf(t->digest, sizeof t->digest, "%s", m->digest);
    }
    sr_checkpoint_free(checkpoint);
    return status;
}
