// SPDX-License-Identifier: Apache-2.0
// A phase of a step: one model, whose parameters and buffers are stored one after the other in a
// flat space of fp32, its optimiser and its exchange. The engine creates it.
#ifndef SR_TRAINER_PHASE_H
#define SR_TRAINER_PHASE_H

#include "trainer/models/built_model.h"
#include "trainer/optimizers/optimizer.h"
#include "trainer/schedules/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

// A phase of an engine (sr_engine_get_phase). One thread at a time, that of the engine.
typedef struct sr_phase sr_phase;

// What a phase consists of.
typedef struct sr_phase_info {
    const char *name; // "" or "G"
    const sr_model *model;
    const sr_optimizer_desc *optimizer;
    int64_t elements; // of the flat space, which begins with the model
    int states;       // of the optimiser, as many as its options need
    int arrays;       // arrays of 'elements' floats: values, sums of gradients, states, average
    int64_t scratch;  // additional floats that the update of matrices needs
} sr_phase_info;
// The info is constant; its pointers are borrowed until the engine is freed.
sr_phase_info sr_phase_get_info(const sr_phase *phase);

// The average of the parameters in one step, e = decay e + (1 - decay) p. The phase has an average
// if the recipe sets ema.decay. Running statistics are averaged like parameters, or are those of
// the last step (ema.buffers). It starts at the values that the parameters have when
// sr_phase_start_average is called or weights are loaded; sr_engine_use_average evaluates it.
typedef struct sr_ema_settings {
    double decay;   // of this step; 0: no EMA
    bool due;       // this step updates it
    bool lookahead; // when it is due, the parameters are set to the average
} sr_ema_settings;

// Computes the lengths of groups in samples, once those of the run are known.
void sr_phase_set_lengths(sr_phase *phase, const sr_schedule_lengths *lengths);
// Computes the settings of all groups for the step that begins at 'position' (before
// sr_engine_step).
void sr_phase_set_step(sr_phase *phase, int64_t step, int64_t position, double lr,
                       double gradient_scale, sr_ema_settings ema);
// The gradients of the last step. With fp16 the loss is scaled, and a step whose gradients are not
// finite is skipped: it leaves parameters, states, average and running statistics unchanged.
typedef struct sr_gradient_report {
    double norm; // Euclidean, of all gradients; NaN unless clip_norm or fp16 is used
    bool skipped;
    double loss_scale;     // after it; 0: the loss is not scaled
    int64_t skipped_steps; // so far
} sr_gradient_report;
// The report of the last step.
sr_gradient_report sr_phase_get_gradients(const sr_phase *phase);

// Arrays of a phase; SR_PHASE_STATE + i is state i of the optimiser.
typedef enum sr_phase_array {
    SR_PHASE_VALUES = 0,
    SR_PHASE_AVERAGE,
    SR_PHASE_STATE
} sr_phase_array;
// Host access to an array between steps, 'elements' long: for checkpoints, digests and reports.
// Every map is followed by an unmap.
SR_NODISCARD sr_status sr_phase_map(const sr_phase *phase, int array, float **out);
// Ends the access; 'write': the array was changed.
SR_NODISCARD sr_status sr_phase_unmap(const sr_phase *phase, int array, float *mapped, bool write);
// Value of a scalar after a step: 'which' of the task's, element.
double sr_phase_scalar(const sr_phase *phase, int which, int element);
// Sum of the losses of all samples of the step, over all lanes.
double sr_phase_loss_sum(const sr_phase *phase);
// Sets the average to the parameters (for a new run, or after weights were loaded).
SR_NODISCARD sr_status sr_phase_start_average(sr_phase *phase);
// Whether a parameter or buffer of the model changes in training: false for frozen ones.
bool sr_phase_trains(const sr_phase *phase, int param);
// Whether the phase has an average of its parameters.
bool sr_phase_has_average(const sr_phase *phase);
// Collective, between steps: SR_E_NUMERICS if the ranks' values differ. Call this after writing
// your own initial values through sr_phase_map.
SR_NODISCARD sr_status sr_phase_compare(const sr_phase *phase);
// Nanoseconds that steps have spent waiting only for the exchange.
int64_t sr_phase_exposed_ns(const sr_phase *phase);
// The first parameter or buffer, in the model's order, with a value in 'flat' that is not finite;
// NULL if all are finite.
const sr_param *sr_values_not_finite(const sr_model *model, const float *flat, bool buffers_only);
// The same for an array of a phase, SR_PHASE_VALUES or SR_PHASE_AVERAGE.
SR_NODISCARD sr_status sr_phase_find_not_finite(const sr_phase *phase, int array, bool buffers_only,
                                                const sr_param **out);
// Whether any rank requested a stop in this step: the same answer on every rank.
bool sr_phase_stop_agreed(const sr_phase *phase);

#ifdef __cplusplus
}
#endif
#endif
