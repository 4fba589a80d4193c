// SPDX-License-Identifier: Apache-2.0
// Schedules: warm-up and lengths. The curves are in schedule_X.c.
#include "trainer/schedules/schedule.h"

#include "kernels/base/log.h"

double sr_length_samples(sr_length length, const sr_schedule_lengths *lengths) {
    switch (length.unit) {
    case SR_LENGTH_EPOCHS:
        return length.count * (double)lengths->epoch;
    case SR_LENGTH_STEPS:
        return length.count * (double)lengths->batch;
    case SR_LENGTH_PERCENT:
        return length.count * (double)lengths->total / 100;
    case SR_LENGTH_SAMPLES:
        break;
    }
    return length.count;
}

int64_t sr_length_position(sr_length length, const sr_schedule_lengths *lengths) {
    const double samples = sr_length_samples(length, lengths);
    return samples < (double)SR_MOST_SAMPLES ? (int64_t)samples : SR_MOST_SAMPLES;
}

double sr_schedule_scale_lr(double lr, double lr_per, int64_t batch) {
    return lr_per > 0 ? lr * (double)batch / lr_per : lr;
}

sr_status sr_schedule_init(sr_schedule *schedule, const sr_schedule_desc *desc, const void *options,
                           double lr, sr_length warmup, double warmup_start,
                           const sr_schedule_lengths *lengths) {
    if (lengths->total <= 0 || lengths->epoch <= 0 || lengths->batch <= 0)
        return SR_FAIL(SR_E_ARGUMENT,
                       "schedule '%s': samples, epoch and batch of a run must be above 0",
                       desc->name);
    double samples = sr_length_samples(warmup, lengths), total = (double)lengths->total;
    if (samples < 0 || samples > total)
        return SR_FAIL(SR_E_USAGE,
                       "schedule.warmup: %.0f samples do not fit into a run of %.0f samples: "
                       "shorten the warm-up or train longer",
                       samples, total);
    if (samples > total / 2)
        SR_WARN("schedule.warmup takes %.0f %% of this run, so that the full learning rate comes "
                "late; schedule.warmup=5%% fits runs of any length",
                100 * samples / total);
    if (desc->check != NULL)
        SR_TRY(desc->check(options, total / (double)lengths->epoch));
    *schedule = (sr_schedule){.desc = desc,
                              .options = options,
                              .lr = lr,
                              .warmup = samples,
                              .warmup_start = warmup_start,
                              .total = total,
                              .epoch = (double)lengths->epoch,
                              .batch = (double)lengths->batch};
    return SR_OK;
}

double sr_schedule_lr_at(const sr_schedule *schedule, double samples) {
    if (samples < schedule->warmup) {
        double start = schedule->warmup_start;
        return schedule->lr * (start + (1 - start) * (samples / schedule->warmup));
    }
    double rest = schedule->total - schedule->warmup;
    sr_schedule_point point = {.done = rest > 0 ? (samples - schedule->warmup) / rest : 1,
                               .epochs = samples / schedule->epoch,
                               .total_epochs = schedule->total / schedule->epoch};
    if (point.done > 1)
        point.done = 1;
    return schedule->lr * schedule->desc->factor(schedule->options, &point);
}

double sr_schedule_lr(const sr_schedule *schedule, int64_t position) {
    return sr_schedule_lr_at(schedule, (double)position + schedule->batch / 2);
}
