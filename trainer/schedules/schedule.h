// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: a factor on the base learning rate as a function of samples consumed.
//
// A schedule does not depend on steps or ranks: the same samples give the same rate whatever the
// batch. All schedules share linear warm-up: during the first 'warmup' samples the factor rises
// from 'warmup_start' to 1; the descriptor's curve covers the rest. All arithmetic is in double
// with serried's own elementary functions (kernels/base/math.h), so the bits are the same
// everywhere.
#ifndef SR_TRAINER_SCHEDULE_H
#define SR_TRAINER_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/options.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_SCHEDULE_ABI 2 // of sr_schedule_desc

// The point in the run for which a factor is computed.
typedef struct sr_schedule_point {
    double done;         // fraction of the samples after warm-up, 0..1
    double epochs;       // since the start of the run, warm-up included
    double total_epochs; // of the whole run
} sr_schedule_point;

// A schedule's descriptor. Immutable.
typedef struct sr_schedule_desc {
    uint32_t struct_size, abi;
    const char *name, *help;
    const sr_option_table *options;                               // gamma, power, ...
    sr_status (*check)(const void *options, double total_epochs); // NULL: nothing to check
    double (*factor)(const void *options, const sr_schedule_point *point);
} sr_schedule_desc;

// All schedules: those of trainer/schedules/schedule_list.def, then those of plug-ins.
const sr_schedule_desc *const *sr_schedules(size_t *count);
// Adds the schedules of a plug-in (trainer/engine/plugins.h). 'origin' must stay valid.
SR_NODISCARD sr_status sr_schedules_add(const sr_schedule_desc *const *list, const char *origin);
// The schedule of a name; SR_E_USAGE with "did you mean" otherwise.
SR_NODISCARD sr_status sr_schedule_find(const char *name, const sr_schedule_desc **out);

// Embedded, plain data, immutable after init. 'options' is borrowed.
typedef struct sr_schedule {
    const sr_schedule_desc *desc;
    const void *options; // of desc->options
    double lr;           // base learning rate
    double warmup;       // samples
    double warmup_start; // factor at the first sample
    double total;        // samples of the whole run
    double epoch;        // samples of an epoch
    double batch;        // samples of a step
} sr_schedule;

// The lengths of a run, in samples.
typedef struct sr_schedule_lengths {
    int64_t total; // samples of the whole run, > 0
    int64_t epoch; // samples of an epoch, > 0
    int64_t batch; // samples of a step, > 0
} sr_schedule_lengths;

// SR_E_USAGE if the warm-up is longer than the run or the options do not fit it.
SR_NODISCARD sr_status sr_schedule_init(sr_schedule *schedule, const sr_schedule_desc *desc,
                                        const void *options, double lr, sr_length warmup,
                                        double warmup_start, const sr_schedule_lengths *lengths);
// The learning rate after a number of samples (>= 0; after the end that of the end).
double sr_schedule_lr_at(const sr_schedule *schedule, double samples);
// The learning rate of the step that begins at 'position': the rate at its middle, so that it is
// not 0 in the first step of a warm-up from 0 or in the last of a decay to 0.
double sr_schedule_lr(const sr_schedule *schedule, int64_t position);
// The absolute rate for a rate that is meant for batches of lr_per samples (0: it is absolute).
double sr_schedule_scale_lr(double lr, double lr_per, int64_t batch);
// A length in samples.
double sr_length_samples(sr_length length, const sr_schedule_lengths *lengths);
// The most samples of a run, below 2^53: positions are exact as doubles, too.
#define SR_MOST_SAMPLES 9000000000000000
// The same as a position, rounded down; SR_MOST_SAMPLES for longer ones.
int64_t sr_length_position(sr_length length, const sr_schedule_lengths *lengths);

#ifdef __cplusplus
}
#endif
#endif
