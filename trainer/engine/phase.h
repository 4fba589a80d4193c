// SPDX-License-Identifier: Apache-2.0
// A phase of a step: the lane program that the task records for it, and the parameter set that it
// trains. Classification has one; a GAN has one for each of its networks. Several phases may train
// the same set, and a phase may run only in every k-th step. The engine creates it.
#ifndef SR_TRAINER_PHASE_H
#define SR_TRAINER_PHASE_H

#include "trainer/engine/param_set.h"

#ifdef __cplusplus
extern "C" {
#endif

// A phase of an engine (sr_engine_get_phase). One thread at a time, that of the engine.
typedef struct sr_phase sr_phase;

// What a phase consists of.
typedef struct sr_phase_info {
    const char *name; // "" or "G"
    int set;          // that it trains: a number for sr_engine_get_set
    int64_t every;    // it runs in steps whose number is a multiple
} sr_phase_info;
// The info is constant; its pointers are borrowed until the engine is freed.
sr_phase_info sr_phase_get_info(const sr_phase *phase);
// Whether the phase runs in the step of this number.
bool sr_phase_is_due(const sr_phase *phase, int64_t step);

// Computes the settings of all groups of the set for the step that begins at 'position' samples,
// immediately before sr_engine_step of this phase. The optimiser counts the updates of its set, of
// all phases, without skipped ones. The average is updated once a step, by the last phase of the
// set.
void sr_phase_set_step(sr_phase *phase, int64_t step, int64_t position, double lr,
                       double gradient_scale, sr_ema_settings ema);
// The gradients of a step. With fp16 the loss is scaled, and a step whose gradients are not finite
// is skipped: it leaves parameters, states, average and running statistics unchanged.
typedef struct sr_gradient_report {
    double norm; // Euclidean, of all gradients; NaN unless clip_norm or fp16 is used
    bool skipped;
    double loss_scale;     // of the set; 0: the loss is not scaled
    int64_t skipped_steps; // of the set, so far
} sr_gradient_report;

// What the last step of the phase gave:
sr_gradient_report sr_phase_get_gradients(const sr_phase *phase);
// The sum of the losses of all samples, over all lanes.
double sr_phase_loss_sum(const sr_phase *phase);
// Value of a scalar: 'which' of those that are logged besides the loss, element.
double sr_phase_scalar(const sr_phase *phase, int which, int element);
// The learning rate that sr_phase_set_step got.
double sr_phase_lr(const sr_phase *phase);
// Whether any rank requested a stop in this step: the same answer on every rank.
bool sr_phase_stop_agreed(const sr_phase *phase);

#ifdef __cplusplus
}
#endif
#endif
