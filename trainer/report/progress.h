// SPDX-License-Identifier: Apache-2.0
// The progress line of a run.
#ifndef SR_TRAINER_PROGRESS_H
#define SR_TRAINER_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/tasks/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the line shows. A value that is not known is NaN (or 0 where it says so) and left out.
typedef struct sr_progress {
    const char *what;            // "train", "val"; NULL: train
    double epoch, epochs;        // the current one, from 1; epochs 0: a run measured in steps
    int64_t step, steps;         // steps 0: not known
    double eta_seconds;          //
    double loss, lr;             //
    double val;                  // of the latest evaluation
    const sr_column *val_column; // what it is; NULL where 'val' is NaN
    double val_epoch;            // after which it was made; 0: a run measured in steps
    int64_t val_step;            // the same in steps
    double images_per_s;         //
    double data_wait;            // 0..1 of the time; shown in percent, as those below
    double comm_exposed;         // 0..1 of the time
    double mfu;                  // 0..1 of the device's peak
    uint64_t memory_bytes;       // in use on this rank; 0: not known
} sr_progress;

// "epoch 3/90  step 1200/36000  ETA 1:02:33  loss 2.3145  lr 0.0987  1032 images/s  data 0.3 %
// comm 1.2 %  1.2 GiB  val top-1 31.20 % (epoch 2)" into out; returns out.
char *sr_progress_format(const sr_progress *progress, char *out, size_t bytes);
// Shows it as the live line (sr_log_progress: in place on a terminal, else a line now and then).
void sr_progress_show(const sr_progress *progress);
// "45 s", "3:07", "1:02:33", "2 d 03:04" into out (at least 24 bytes); returns out.
char *sr_progress_duration(double seconds, char *out);

// Rate over the last marks, for images a second and the remaining time.
#define SR_RATE_MARKS 32
typedef struct sr_rate {
    int64_t samples[SR_RATE_MARKS], ns[SR_RATE_MARKS];
    int64_t marks; // ever made
} sr_rate;

// Zero-initialise. Adds a mark: 'samples' in total were done at time 'ns' (monotonic).
void sr_rate_mark(sr_rate *rate, int64_t samples, int64_t ns);
// Samples a second over the marks kept; NaN before the second mark.
double sr_rate_get(const sr_rate *rate);

#ifdef __cplusplus
}
#endif
#endif
