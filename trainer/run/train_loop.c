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
#include "trainer/run/eval_view.h"
#include "trainer/run/training_internal.h"

// Rows of metrics.csv: one every LOG_STEPS steps, each step in a short run.
enum { LOG_STEPS = 50, SHORT_RUN = 20, MAX_CONFUSION = 1000 };

// Time without evaluations and checkpoints.
static int64_t train_ns(const sr_training *t) {
    return sr_clock_ns() - t->aside_ns;
}

static int64_t data_wait_ns(const sr_training *t) {
    return sr_pipeline_get_stats(sr_feed_pipeline(t->feed)).wait_ns;
}

static int64_t exposed_ns(const sr_training *t) {
    int64_t sum = 0;
    for (int s = 0; s < t->info.sets; s++)
        sum += sr_param_set_exposed_ns(sr_engine_get_set(t->engine, s));
    return sum;
}

static void start_window(sr_training *t) {
    t->window = (sr_window){
        .start_ns = train_ns(t), .data_wait_ns = data_wait_ns(t), .exposed_ns = exposed_ns(t)};
}

// Continues the sums of a window that a checkpoint interrupted; its times start here.
static void continue_window(sr_training *t) {
    sr_window before = t->window;
    start_window(t);
    t->window.loss = before.loss;
    t->window.hits1 = before.hits1;
    t->window.samples = t->window.carried = before.samples;
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
        if (p != t->logged)
            continue;
        t->last_loss = loss / batch;
        t->window.loss += loss;
        if (t->task->scalars)
            t->window.hits1 += (int64_t)sr_phase_scalar(phase, 0, 0);
    }
    t->step++;
    t->position += t->info.batch;
    t->window.samples += t->info.batch;
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

// The learning rate of the step before this position.
static double last_lr(const sr_training *t) {
    const sr_phase_info info = sr_phase_get_info(sr_engine_get_phase(t->engine, t->logged));
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
        .loss = t->last_loss,
        .lr = last_lr(t),
        .val_top1 = t->val_top1,
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

static void add_gradient_columns(const sr_phase *phase, double *row) {
    const sr_gradient_report g = sr_phase_get_gradients(phase);
    row[SR_COLUMN_GRADIENT_NORM] = g.norm;
    if (g.loss_scale <= 0)
        return;
    row[SR_COLUMN_LOSS_SCALE] = g.loss_scale;
    row[SR_COLUMN_SKIPPED_STEPS] = (double)g.skipped_steps;
}

static sr_status write_row(sr_training *t, bool with_evaluation) {
    double row[SR_METRICS_COLUMNS];
    int64_t span = train_ns(t) - t->window.start_ns;
    if (t->rank != 0)
        return SR_OK;
    for (int i = 0; i < SR_METRICS_COLUMNS; i++)
        row[i] = (double)NAN;
    row[SR_COLUMN_STEP] = (double)t->step;
    row[SR_COLUMN_SAMPLES] = (double)t->position;
    row[SR_COLUMN_EPOCH] = (double)t->position / (double)t->inputs.count;
    if (t->window.samples > 0) {
        double samples = (double)t->window.samples;
        row[SR_COLUMN_TRAIN_LOSS] = t->window.loss / samples;
        if (t->task->scalars)
            row[SR_COLUMN_TRAIN_TOP1] = (double)t->window.hits1 / samples;
        row[SR_COLUMN_IMAGES_PER_S] = (samples - (double)t->window.carried) / ((double)span / 1e9);
        row[SR_COLUMN_DATA_WAIT] = share(data_wait_ns(t) - t->window.data_wait_ns, span);
        row[SR_COLUMN_COMM_EXPOSED] = exposed_share(t, span);
    }
    add_gradient_columns(sr_engine_get_phase(t->engine, t->logged), row);
    row[SR_COLUMN_LR] = last_lr(t);
    row[SR_COLUMN_MEM_PEAK] = (double)sr_memory_get_stats().peak_bytes;
    if (with_evaluation) {
        row[SR_COLUMN_VAL_LOSS] = t->val_loss;
        row[SR_COLUMN_VAL_TOP1] = t->val_top1;
        row[SR_COLUMN_VAL_TOP5] = t->val_top5;
    }
    row[SR_COLUMN_SECONDS] =
        t->previous_seconds + (double)(sr_clock_ns() - t->session_start_ns) / 1e9;
    sr_event_file_add_scalars(t->events, t->step, sr_metrics_column_names + SR_COLUMN_EPOCH,
                              row + SR_COLUMN_EPOCH, SR_METRICS_COLUMNS - SR_COLUMN_EPOCH);
    return sr_csv_add_numbers(t->metrics, row);
}

// ---- Between steps ----

static void report_evaluation(const sr_training *t) {
    char fields[192], epoch[64] = "";
    const double epochs = t->recipe->epochs;
    if (epochs > 0)
        (void)snprintf(epoch, sizeof epoch, "epoch %g/%g  ", epoch_at(t, t->position), epochs);
    SR_INFO(
        "%sstep %lld/%lld  train loss %.4f  val loss %.4f  val top-1 %.2f %%  val top-5 %.2f %%",
        epoch, (long long)t->step, (long long)t->total_steps,
        t->window.samples ? t->window.loss / (double)t->window.samples : t->last_loss, t->val_loss,
        100 * t->val_top1, 100 * t->val_top5);
    (void)snprintf(fields, sizeof fields,
                   "\"step\": %lld, \"samples\": %lld, \"val_loss\": %.9g, \"val_top1\": %.9g, "
                   "\"val_top5\": %.9g",
                   (long long)t->step, (long long)t->position, t->val_loss, t->val_top1,
                   t->val_top5);
    sr_run_event(t->run, "evaluation", fields);
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

static sr_status evaluate(sr_training *t, sr_confusion *confusion, sr_examples *examples) {
    sr_metrics result;
    const sr_evaluation evaluation = {.dataset = t->inputs.val_path,
                                      .identity = t->inputs.val_identity,
                                      .average = t->recipe->ema.decay > 0,
                                      .confusion = confusion,
                                      .examples = examples};
    SR_TRY(explain_not_finite(
        t, sr_evaluate_split(t->engine, t->comm, &evaluation, t->inputs.class_count, &result)));
    t->val_loss = result.loss;
    t->val_top1 = result.top1;
    t->val_top5 = result.top5;
    t->val_position = t->position;
    t->evaluated_here = true;
    if (!(t->val_top1 <= t->best_top1))
        t->best_top1 = t->val_top1;
    if (t->rank == 0)
        report_evaluation(t);
    return SR_OK;
}

// The last evaluation also draws the confusion matrix, unless it has too many classes to view.
static sr_status evaluate_and_draw(sr_training *t, bool end) {
    const bool with_confusion = end && t->inputs.class_count <= MAX_CONFUSION;
    sr_confusion confusion = {0};
    sr_examples *examples = NULL;
    sr_eval_view view;
    sr_eval_view_of(t->recipe, &view);
    sr_status status = sr_examples_create(t->inputs.val_count, view.width, view.height, &examples);
    if (status == SR_OK && with_confusion)
        status = sr_confusion_create(t->inputs.class_count, &confusion);
    if (status == SR_OK)
        status = evaluate(t, with_confusion ? &confusion : NULL, examples);
    if (status == SR_OK)
        sr_training_draw_examples(t, examples);
    if (status == SR_OK && with_confusion)
        sr_training_draw_confusion(t, &confusion);
    sr_confusion_release(&confusion);
    sr_examples_free(examples);
    return status;
}

static sr_status evaluate_epoch(sr_training *t, bool end) {
    const int64_t begin = sr_clock_ns();
    const sr_status status = evaluate_and_draw(t, end);
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

static sr_status after_step(sr_training *t, int64_t before, bool stop) {
    bool end = t->step == t->total_steps;
    bool epoch_end = epochs_done(t, t->position) > epochs_done(t, before) || end;
    bool by_time;
    SR_TRY(checkpoint_by_time(t, &by_time));
    if (epoch_end || stop)
        SR_TRY(sr_training_share_damage(t));
    const bool to_save =
        checkpoint_due(t, before) || by_time || stop || t->saved_position == t->position;
    t->evaluation_due = epoch_end && t->inputs.val_path[0];
    SR_TRY(evaluate_if_due(t, to_save, stop));
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
    if (status != SR_E_NON_FINITE || t->window.samples == 0)
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
