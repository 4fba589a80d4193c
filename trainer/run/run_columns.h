// SPDX-License-Identifier: Apache-2.0
// The columns of a run's metrics.csv: those that every run has, one of some kinds for each phase,
// and between them what the task logs in training and measures in evaluations.
//
// A phase without a name has plain columns, "train/loss" and "lr"; those of others begin with the
// phase, as its tensors do: "train/D.loss", "D.lr". exit.json, `val` and checkpoints have the same
// names with an underscore for the slash.
#ifndef SR_TRAINER_RUN_COLUMNS_H
#define SR_TRAINER_RUN_COLUMNS_H

#include "kernels/base/memory.h"
#include "trainer/engine/choices.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_run_column {
    SR_RUN_STEP = 0,
    SR_RUN_SAMPLES,       // consumed: the position that a resume cuts at
    SR_RUN_EPOCH,         // fractional
    SR_RUN_LOSS,          // of each phase: mean since the row before
    SR_RUN_TRAIN,         // each of the scalars, by samples, since the row before
    SR_RUN_LR,            // of each phase
    SR_RUN_IMAGES_PER_S,  // since the row before
    SR_RUN_DATA_WAIT,     // 0..1 of the time
    SR_RUN_COMM_EXPOSED,  // 0..1 of the time
    SR_RUN_MEM_PEAK,      // bytes on this rank
    SR_RUN_VAL,           // each column of the task's metrics
    SR_RUN_SECONDS,       // of the whole run, over all sessions
    SR_RUN_GRADIENT_NORM, // of each phase's step, where clipping or loss scaling needs it
    SR_RUN_LOSS_SCALE,    // of each phase, after the step
    SR_RUN_SKIPPED_STEPS, // of each phase, since the start, because gradients were not finite
    SR_RUN_COLUMNS
} sr_run_column;

enum { SR_RUN_COLUMNS_MAX = 5 * SR_MAX_PHASES + SR_MAX_SCALARS + SR_TASK_COLUMNS + SR_RUN_COLUMNS };

typedef struct sr_run_columns {
    int count;
    int at[SR_RUN_COLUMNS]; // number of the first column of a kind
    int of[SR_RUN_COLUMNS]; // how many there are
    const char *names[SR_RUN_COLUMNS_MAX];
    const char *keys[SR_RUN_COLUMNS_MAX]; // the same in exit.json and checkpoints: "val_top1"
    sr_column list[SR_RUN_COLUMNS_MAX];   // with names as in metrics.csv
    sr_choice_scalars scalars;            // besides the losses
    int phase_of[SR_MAX_SCALARS];         // of the recipe, that computes each of them; -1: none
    // Among those of SR_RUN_VAL:
    sr_choice_metrics chosen; // by the recipe
    int main;                 // the task's own
} sr_run_columns;

// The columns of a recipe's run; texts have memory of the arena. SR_E_USAGE for a
// checkpoint.metric that the task does not measure.
SR_NODISCARD sr_status sr_run_columns_make(sr_recipe *recipe, const sr_task_desc *task,
                                           sr_arena *arena, sr_run_columns *out);

#ifdef __cplusplus
}
#endif
#endif
