// SPDX-License-Identifier: Apache-2.0
// The steps of a training run, and what happens between them: progress, rows of metrics.csv,
// evaluation at the end of an epoch, checkpoints, stop requests.
//
// Everything that all ranks must do together (evaluate, save, stop) is decided from numbers that
// are equal on all of them: the position, or scalars that went through the exchange.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/watch.h"
#include "trainer/run/training_internal.h"
#include "trainer/tasks/eval_view.h"

// Rows of metrics.csv: one every LOG_STEPS steps, each step in a short run.
enum { LOG_STEPS = 50, SHORT_RUN = 20 };

// Time without evaluations and checkpoints.
static int64_t train_ns(const sr_training *t) {
    return sr_clock_ns() - t->aside_ns;
}

static int64_t data_wait_ns(const sr_training *t) {
    return sr_feed_wait_ns(t->feed);
}

static int64_t exposed_ns(const sr_training *t) {
    int64_t sum = 0;
    for (int s = 0; s < t->info.sets; s++)
        sum += sr_param_set_exposed_ns(sr_engine_get_set(t->engine, s));
    return sum;
}

static void start_window(sr_training *t) {
    t->window = (sr_window){.start_position = t->position,
                            .start_ns = train_ns(t),
                            .data_wait_ns = data_wait_ns(t),
                            .exposed_ns = exposed_ns(t)};
}

// Continues the sums of a window that a checkpoint interrupted; its times start here.
static void continue_window(sr_training *t) {
    const sr_window before = t->window;
    start_window(t);
    memcpy(t->window.losses, before.losses, sizeof before.losses);
    memcpy(t->window.samples, before.samples, sizeof before.samples);
    memcpy(t->window.scalars, before.scalars, sizeof before.scalars);
}

// ---- One step ----

// The average's decay grows as (1 + n) / (10 + n) during its warm-up; a lookahead's as the cube of
// the progress (Zhang et al. 2019, as used with cifar-fast).
static sr_ema_settings average_settings(const sr_training *t) {
    const sr_recipe *r = t->recipe;
    if (r->ema.decay <= 0)
        return (sr_ema_settings){0};
    int64_t every = r->ema.every > 0 ? r->ema.every : 1;
    sr_ema_settings ema = {.decay = r->ema.decay,
                           .due = (t->step + 1) % every == 0 || t->step + 1 == t->total_steps,
                           .lookahead = r->ema.lookahead};
    if (r->ema.lookahead) { // the last step is always due: the run ends on the average
        double done = (double)(t->step + 1) / (double)t->total_steps;
        ema.decay *= done * done * done;
        return ema;
    }
    const sr_schedule_lengths lengths = {
        .total = t->total_samples, .epoch = t->inputs.count, .batch = r->batch};
    double n = (double)(t->step / every);
    double growing = (1 + n) / (10 + n);
    if ((double)t->position < sr_length_samples(r->ema.warmup, &lengths) && growing < ema.decay)
        ema.decay = growing;
    return ema;
}

static sr_status check_finite(const sr_training *t, const sr_phase *phase) {
    const sr_phase_info info = sr_phase_get_info(phase);
    const char *name = info.name;
    char last[96];
    if (isfinite(sr_phase_loss_sum(phase)))
        return SR_OK;
    const sr_param *where = NULL; // statistics of activations show where such values arose
    SR_TRY(sr_param_set_find_not_finite(sr_engine_get_set(t->engine, info.set), SR_SET_VALUES, true,
                                        &where));
    return SR_FAIL(
        SR_E_NON_FINITE,
        "the loss%s%s is not finite at step %lld (lr %g%s%s): lower %s.lr%s or warm up longer; %s",
        name[0] ? " of " : "", name, (long long)t->step, sr_phase_lr(phase),
        where ? ", first in " : "", where ? where->name : "",
        t->recipe->sets[info.set].optimizer.choice.path,
        t->info.sets > 1 ? ", or that of a set that the phase reads," : "",
        sr_training_describe_last(t, last));
}

// A step that is skipped now and then is how a loss scale is found; metrics.csv counts them.
static void report_skipped(const sr_training *t, const sr_phase *phase) {
    char fields[96];
    const char *name = sr_phase_get_info(phase).name;
    const sr_gradient_report g = sr_phase_get_gradients(phase);
    if (!g.skipped || t->rank != 0)
        return;
    SR_INFO("step %lld is skipped: gradients%s%s are not finite in fp16; loss scale %.9g, %lld "
            "step%s skipped so far",
            (long long)t->step, name[0] ? " of " : "", name, g.loss_scale,
            (long long)g.skipped_steps, g.skipped_steps == 1 ? "" : "s");
    (void)snprintf(fields, sizeof fields, "\"step\": %lld, \"loss_scale\": %.9g",
                   (long long)t->step, g.loss_scale);
    sr_run_event(t->run, "skipped_step", fields);
}

static sr_status run_step(sr_training *t, bool *stop) {
    const sr_lane_source *source = sr_feed_source(t->feed);
    double batch = (double)t->info.batch;
    *stop = false;
    sr_feed_set_uses(t->feed, sr_engine_phases_due(t->engine, t->step));
    for (int p = 0; p < t->info.phases; p++) {
        sr_phase *phase = sr_engine_get_phase(t->engine, p);
        if (!sr_phase_is_due(phase, t->step))
            continue;
        const sr_schedule *schedule = &t->schedules[sr_phase_get_info(phase).set];
        sr_phase_set_step(phase, t->step, t->position, sr_schedule_lr(schedule, t->position),
                          1 / batch, average_settings(t));
        const sr_status status = sr_engine_step(t->engine, p, t->step, source);
        if (status == SR_E_NON_FINITE) // debug.nan
            sr_error_prefix("step %lld", (long long)t->step);
        SR_TRY(status);
        double loss = sr_phase_loss_sum(phase);
        SR_TRY(check_finite(t, phase));
        report_skipped(t, phase);
        *stop = *stop || sr_phase_stop_agreed(phase);
        t->last_losses[p] = loss / batch;
        t->window.losses[p] += loss;
        t->window.samples[p] += t->info.batch;
        for (int i = 0; i < t->columns.scalars.count; i++) {
            if (t->columns.phase_of[i] != p)
                continue;
            const double sum = sr_phase_scalar(phase, i, 0);
            t->window.scalars[i] += sum;
            t->last_scalars[i] = sum / batch;
        }
    }
    t->step++;
    t->position += t->info.batch;
    t->evaluated_here = false;
    sr_drawing_set_step(t->drawing, t->step);
    return SR_OK;
}

// ---- Progress and metrics.csv ----

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

// A single rank waits for no other: its exchange time is the update of the parameters.
static double exposed_share(const sr_training *t, int64_t span) {
    return t->ranks > 1 ? share(exposed_ns(t) - t->window.exposed_ns, span) : (double)NAN;
}

// A phase's learning rate of the step before this position.
static double last_lr(const sr_training *t, int phase) {
    const sr_phase_info info = sr_phase_get_info(sr_engine_get_phase(t->engine, phase));
    return sr_schedule_lr(&t->schedules[info.set], t->position - t->info.batch);
}

static int64_t epochs_done(const sr_training *t, int64_t position) {
    return position / t->inputs.count;
}

// For an evaluation at this position: the epochs before it, all of them at the end.
static double epoch_at(const sr_training *t, int64_t position) {
    return position >= t->total_samples ? t->recipe->epochs : (double)epochs_done(t, position);
}

static void show(sr_training *t) {
    int64_t now = train_ns(t), span = now - t->window.start_ns;
    double rate;
    sr_rate_mark(&t->rate, t->position, now);
    rate = sr_rate_get(&t->rate);
    if (t->rank != 0)
        return;
    const sr_progress progress = {
        .epoch = fmin((double)(1 + (t->position - 1) / t->inputs.count), t->recipe->epochs),
        .epochs = t->recipe->epochs,
        .step = t->step,
        .steps = t->total_steps,
        .eta_seconds = (double)(t->total_samples - t->position) / rate,
        .loss = t->last_losses[t->logged],
        .lr = last_lr(t, t->logged),
        .val = t->val[t->columns.main],
        .val_column = &t->columns.list[t->columns.at[SR_RUN_VAL] + t->columns.main],
        .val_epoch = t->recipe->epochs > 0 ? epoch_at(t, t->val_position) : 0,
        .val_step = t->val_position / t->info.batch,
        .images_per_s = rate,
        .data_wait = share(data_wait_ns(t) - t->window.data_wait_ns, span),
        .comm_exposed = exposed_share(t, span),
        .mfu = (double)NAN,
        .memory_bytes =
            sr_memory_get_stats().live_bytes +
            sr_context_get_stats(t->info.context).planned_peak_bytes * (size_t)t->info.executors};
    sr_progress_show(&progress);
}

// What a phase's columns hold; 'at': of its kinds.
static void fill_phase(const sr_training *t, int p, const int *at, double *row) {
    const sr_gradient_report g = sr_phase_get_gradients(sr_engine_get_phase(t->engine, p));
    if (t->window.samples[p] > 0)
        row[at[SR_RUN_LOSS] + p] = t->window.losses[p] / (double)t->window.samples[p];
    row[at[SR_RUN_LR] + p] = last_lr(t, p);
    row[at[SR_RUN_GRADIENT_NORM] + p] = g.norm;
    if (g.loss_scale <= 0)
        return;
    row[at[SR_RUN_LOSS_SCALE] + p] = g.loss_scale;
    row[at[SR_RUN_SKIPPED_STEPS] + p] = (double)g.skipped_steps;
}

static void fill_window(const sr_training *t, const int *at, double *row) {
    const int64_t span = train_ns(t) - t->window.start_ns;
    for (int i = 0; i < t->columns.scalars.count; i++) {
        const int p = t->columns.phase_of[i];
        if (p >= 0 && t->window.samples[p] > 0)
            row[at[SR_RUN_TRAIN] + i] = t->window.scalars[i] / (double)t->window.samples[p];
    }
    if (t->window.samples[t->logged] == 0)
        return;
    row[at[SR_RUN_IMAGES_PER_S]] =
        (double)(t->position - t->window.start_position) / ((double)span / 1e9);
    row[at[SR_RUN_DATA_WAIT]] = share(data_wait_ns(t) - t->window.data_wait_ns, span);
    row[at[SR_RUN_COMM_EXPOSED]] = exposed_share(t, span);
}

static sr_status write_row(sr_training *t, bool with_evaluation) {
    double row[SR_RUN_COLUMNS_MAX];
    const int *at = t->columns.at, epoch = at[SR_RUN_EPOCH];
    if (t->rank != 0)
        return SR_OK;
    for (int i = 0; i < t->columns.count; i++)
        row[i] = (double)NAN;
    row[at[SR_RUN_STEP]] = (double)t->step;
    row[at[SR_RUN_SAMPLES]] = (double)t->position;
    row[epoch] = (double)t->position / (double)t->inputs.count;
    fill_window(t, at, row);
    for (int p = 0; p < t->info.phases; p++)
        fill_phase(t, p, at, row);
    row[at[SR_RUN_MEM_PEAK]] = (double)sr_memory_get_stats().peak_bytes;
    for (int i = 0; with_evaluation && i < t->columns.of[SR_RUN_VAL]; i++)
        row[at[SR_RUN_VAL] + i] = t->val[i];
    row[at[SR_RUN_SECONDS]] =
        t->previous_seconds + (double)(sr_clock_ns() - t->session_start_ns) / 1e9;
    sr_event_file_add_scalars(t->events, t->step, t->columns.names + epoch, row + epoch,
                              (size_t)(t->columns.count - epoch));
    return sr_csv_add_numbers(t->metrics, row);
}

// ---- Between steps ----

// "  val loss 1.2345  val top-1 31.20 %"; for the log, or as members of a JSON object.
static void add_values(const sr_training *t, bool json, sr_text *out) {
    const int first = t->columns.at[SR_RUN_VAL];
    for (int i = 0; i < t->columns.of[SR_RUN_VAL]; i++) {
        const sr_column *column = &t->columns.list[first + i];
        char text[SR_COLUMN_TEXT];
        if (json)
            sr_text_add(out, ", \"%s\": %.9g", t->columns.keys[first + i], t->val[i]);
        else
            sr_text_add(out, "  val %s %s", column->label, sr_column_text(column, t->val[i], text));
    }
}

// " (dice 0.2345, lovasz 0.3456)", the parts of the training loss since the last row.
static void add_parts(const sr_training *t, sr_text *out) {
    const sr_choice_scalars *scalars = &t->columns.scalars;
    for (int i = scalars->first_part; i < scalars->count; i++) {
        const int64_t samples = t->window.samples[t->columns.phase_of[i]];
        const char *label = scalars->list[i].mean.label;
        sr_text_add(out, "%s%.*s %.4f", i == scalars->first_part ? " (" : ", ",
                    (int)(strlen(label) - strlen(" loss")), label,
                    samples > 0 ? t->window.scalars[i] / (double)samples : t->last_scalars[i]);
    }
    if (scalars->count > scalars->first_part)
        sr_text_add(out, ")");
}

static void report_evaluation(const sr_training *t) {
    char epoch[64] = "";
    sr_text values, fields;
    const int64_t samples = t->window.samples[t->logged];
    const double epochs = t->recipe->epochs;
    if (epochs > 0)
        (void)snprintf(epoch, sizeof epoch, "epoch %g/%g  ", epoch_at(t, t->position), epochs);
    sr_text_init(&values);
    sr_text_init(&fields);
    add_parts(t, &values);
    add_values(t, false, &values);
    sr_text_add(&fields, "\"step\": %lld, \"samples\": %lld", (long long)t->step,
                (long long)t->position);
    add_values(t, true, &fields);
    if (!values.failed)
        SR_INFO("%sstep %lld/%lld  train loss %.4f%s", epoch, (long long)t->step,
                (long long)t->total_steps,
                samples ? t->window.losses[t->logged] / (double)samples : t->last_losses[t->logged],
                values.data);
    if (!fields.failed)
        sr_run_event(t->run, "evaluation", fields.data);
    sr_text_release(&values);
    sr_text_release(&fields);
}

static sr_status explain_not_finite(const sr_training *t, sr_status status) {
    char message[768], last[96];
    if (status != SR_E_NON_FINITE)
        return status;
    (void)snprintf(message, sizeof message, "%s", sr_error_message());
    return SR_FAIL(SR_E_NON_FINITE,
                   "the evaluation of epoch %.6g, step %lld, of %s: lower optimizer.lr or warm up "
                   "longer; %s",
                   (double)t->position / (double)t->inputs.count, (long long)t->step, message,
                   sr_training_describe_last(t, last));
}

// 'last': of the run.
static sr_status evaluate(sr_training *t, bool last, sr_examples *examples) {
    sr_measures result;
    const sr_evaluation evaluation = {.dataset = t->inputs.val_path,
                                      .identity = t->inputs.val_identity,
                                      .classes = t->inputs.class_count,
                                      .class_names = t->inputs.class_names,
                                      .samples = t->inputs.val_count,
                                      .extent = t->inputs.val_extent,
                                      .average = t->recipe->ema.decay > 0,
                                      .examples = examples,
                                      .finish = last ? sr_training_finish_metric : NULL,
                                      .user = t};
    SR_TRY(explain_not_finite(t, sr_evaluate_split(t->engine, t->comm, &evaluation, &result)));
    memcpy(t->val, result.values, sizeof t->val);
    t->val_position = t->position;
    t->evaluated_here = true;
    const int main = t->columns.main;
    if (sr_column_is_better(result.columns[main], t->val[main], t->best_main))
        t->best_main = t->val[main];
    const int stop = t->columns.chosen.stop;
    const bool better = sr_column_is_better(result.columns[stop], t->val[stop], t->stop_best);
    t->stop_best = better ? t->val[stop] : t->stop_best;
    t->stop_waited = better ? 0 : t->stop_waited + 1;
    if (t->rank == 0)
        report_evaluation(t);
    return SR_OK;
}

static sr_status evaluate_and_draw(sr_training *t, bool last) {
    sr_examples *examples = NULL;
    sr_status status = SR_OK;
    if (t->task->examples)
        status = sr_examples_create(t->task->examples, t->inputs.val_count, &examples);
    if (status == SR_OK)
        status = evaluate(t, last, examples);
    if (status == SR_OK && examples)
        sr_training_draw_examples(t, examples);
    sr_examples_free(examples);
    return status;
}

static sr_status evaluate_epoch(sr_training *t, bool end) {
    const int64_t begin = sr_clock_ns();
    const sr_status status = evaluate_and_draw(t, end || t->recipe->stop.patience > 0);
    t->aside_ns += sr_clock_ns() - begin;
    return status;
}

static sr_status draw_generated(sr_training *t) {
    const int64_t begin = sr_clock_ns();
    const sr_status status = sr_training_draw_generated(t);
    t->aside_ns += sr_clock_ns() - begin;
    return status;
}

static bool checkpoint_due(const sr_training *t, int64_t before) {
    const sr_schedule_lengths lengths = {
        .total = t->total_samples, .epoch = t->inputs.count, .batch = t->info.batch};
    double every = sr_length_samples(t->recipe->checkpoint.every, &lengths);
    if (t->step == t->total_steps)
        return true;
    return every > 0 && floor((double)t->position / every) > floor((double)before / every);
}

// Checkpoints by time: rank 0's clock decides for all ranks.
static sr_status checkpoint_by_time(sr_training *t, bool *due) {
    int32_t flag = 0;
    *due = false;
    if (t->recipe->checkpoint.seconds <= 0 || t->step % 10 != 0)
        return SR_OK;
    if (t->rank == 0)
        flag =
            (double)(sr_clock_ns() - t->last_checkpoint_ns) / 1e9 >= t->recipe->checkpoint.seconds;
    SR_TRY(sr_comm_broadcast(t->comm, 0, &flag, sizeof flag, "time for a checkpoint"));
    *due = flag != 0;
    return SR_OK;
}

static sr_status add_row(sr_training *t) {
    sr_watch watch;
    sr_watch_begin(&watch, "a row of metrics.csv to be written in %s", t->location.folder);
    sr_status status = write_row(t, t->evaluated_here);
    sr_watch_end(&watch);
    return status;
}

static sr_status save(sr_training *t) {
    const int64_t begin = sr_clock_ns();
    const sr_status status = sr_training_save(t);
    t->aside_ns += sr_clock_ns() - begin;
    return status;
}

static sr_status stopped(const sr_training *t) {
    return SR_FAIL(SR_E_INTERRUPTED,
                   "stopped at step %lld of %lld; the checkpoint is in %s: run the same command "
                   "again to resume",
                   (long long)t->step, (long long)t->total_steps, t->location.folder);
}

// The checkpoint is written before the evaluation, which may fail or be killed; the result is added
// to it afterwards. An evaluation may take long, so after a stop request the next session does it.
static sr_status evaluate_if_due(sr_training *t, bool to_save, bool stop) {
    if (!t->evaluation_due)
        return SR_OK;
    if (to_save && t->saved_position != t->position)
        SR_TRY(save(t));
    const sr_status status = stop ? SR_E_INTERRUPTED : evaluate_epoch(t, t->step == t->total_steps);
    if (status == SR_E_INTERRUPTED) {
        if (!to_save)
            SR_TRY(save(t));
        return stopped(t);
    }
    SR_TRY(status);
    t->evaluation_due = 0;
    return SR_OK;
}

// Ends the run here if it has not become better for long enough.
static void end_early(sr_training *t) {
    const int64_t patience = t->recipe->stop.patience;
    if (patience == 0 || !t->evaluated_here || t->stop_waited < patience ||
        t->step == t->total_steps)
        return;
    if (t->rank == 0) {
        SR_INFO(
            "ending at step %lld of %lld: %s has been no better than %.6g for %lld evaluation%s "
            "(stop.patience)",
            (long long)t->step, (long long)t->total_steps,
            t->columns.names[t->columns.at[SR_RUN_VAL] + t->columns.chosen.stop], t->stop_best,
            (long long)t->stop_waited, t->stop_waited == 1 ? "" : "s");
    }
    t->total_steps = t->step;
}

static sr_status after_step(sr_training *t, int64_t before, bool stop) {
    const int64_t every = t->recipe->eval.every;
    bool end = t->step == t->total_steps;
    bool epoch_end = epochs_done(t, t->position) > epochs_done(t, before) || end;
    bool by_time;
    SR_TRY(checkpoint_by_time(t, &by_time));
    if (epoch_end || stop)
        SR_TRY(sr_training_share_damage(t));
    bool to_save = checkpoint_due(t, before) || by_time || stop || t->saved_position == t->position;
    t->evaluation_due =
        t->inputs.val_path[0] && (end || (epoch_end && epochs_done(t, t->position) % every == 0));
    SR_TRY(evaluate_if_due(t, to_save, stop));
    if (epoch_end)
        SR_TRY(draw_generated(t));
    end_early(t);
    end = end || t->step == t->total_steps;
    to_save = to_save || end;
    if (epoch_end || t->step % LOG_STEPS == 0 || t->total_steps <= SHORT_RUN) {
        SR_TRY(add_row(t));
        start_window(t);
    }
    if (to_save || sr_training_is_best(t))
        SR_TRY(save(t));
    return stop && !end ? stopped(t) : SR_OK;
}

// What was measured before a step or an evaluation that failed is written to metrics.csv, where it
// shows what led to the failure.
static sr_status note_failure(sr_training *t, sr_status status) {
    sr_kept_error kept = {.status = SR_OK};
    if (status != SR_E_NON_FINITE || t->window.samples[t->logged] == 0)
        return status;
    sr_error_keep(&kept, status);
    if (add_row(t) != SR_OK)
        SR_WARN("%s", sr_error_message());
    return sr_error_restore(&kept);
}

sr_status sr_training_run(sr_training *t) {
    t->session_start_ns = t->last_checkpoint_ns = sr_clock_ns();
    t->session_start_position = t->position;
    sr_drawing_set_step(t->drawing, t->step);
    SR_TRY(sr_training_draw_first_batch(t));
    continue_window(t);
    sr_rate_mark(&t->rate, t->position, train_ns(t));
    if (t->evaluation_due)
        SR_TRY(after_step(t, t->position - t->info.batch, false));
    end_early(t);
    while (t->step < t->total_steps) {
        bool stop;
        int64_t before = t->position;
        SR_TRY(sr_training_trace_begin(t));
        SR_TRY(note_failure(t, run_step(t, &stop)));
        SR_TRY(sr_training_trace_end(t, stop || t->step == t->total_steps));
        show(t);
        sr_drawing_poll(t->drawing);
        SR_TRY(note_failure(t, after_step(t, before, stop)));
    }
    return t->rank == 0 ? sr_csv_sync(t->digests) : SR_OK; // row of the last checkpoint
}
