// SPDX-License-Identifier: Apache-2.0
// Tasks: what a lane program of a phase is made of. One file each (trainer/tasks/task_X.c).
#ifndef SR_TRAINER_TASK_H
#define SR_TRAINER_TASK_H

#include "trainer/losses/loss.h"
#include "trainer/models/built_model.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_TASK_ABI 1    // of sr_task_desc
#define SR_MAX_PHASES 4  // of a step
#define SR_MAX_SCALARS 8 // that a task logs beside the loss

// One recording of a phase's lane program (or of an evaluation).
typedef struct sr_lane_recording {
    sr_context *context;
    int phase;
    bool training;
    sr_dtype dtype;
    sr_model *const *models; // of all phases
    const double *mean, *std;
    const sr_loss_desc *loss_desc; // NULL where the task has a loss of its own
    const void *loss_options;
    sr_mix_opts mix;             // of training samples; alphas of 0: none
    sr_tensor image, label, key; // key: i32[4] (seed low, seed high, step, lane)
    sr_statistics *statistics;
    // To be filled by the task:
    sr_tensor loss;                    // f32 [N]: one number a sample; the step's loss is its mean
    sr_tensor scalars[SR_MAX_SCALARS]; // f32 sums over the lane, one element each
} sr_lane_recording;

// A task's descriptor. Immutable.
typedef struct sr_task_desc {
    uint32_t struct_size, abi;
    const char *name;
    const char *transformer;                   // of the data pipeline
    int phases;                                // exactly so many; 0: one
    const char *phase_names[SR_MAX_PHASES];    // in order, where there are several
    bool uses_loss;                            // the recipe's `loss`; else it has one of its own
    int scalars;                               // sums beside the loss, as logged
    const char *scalar_names[SR_MAX_SCALARS];  // "top1": number of hits
    void (*record)(sr_lane_recording *record); // of training: fills loss and scalars
    // Records the samples as the network of the first phase sees them, mixed by record->mix; NULL:
    // the recipe may have no `mix`.
    sr_mixed (*mix)(sr_lane_recording *record);
    // Records inference: f32 logits [N,classes] from record->image; NULL: nothing to evaluate.
    sr_tensor (*infer)(sr_lane_recording *record);
} sr_task_desc;

// Of a recipe's `task`; NULL where this build has none.
const sr_task_desc *sr_task_find(const char *name);

// Runs a model of a phase in a record.
sr_tensor sr_task_forward(sr_lane_recording *record, int phase, const sr_tensor *inputs,
                          bool with_statistics);

#ifdef __cplusplus
}
#endif
#endif
