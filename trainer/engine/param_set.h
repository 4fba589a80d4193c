// SPDX-License-Identifier: Apache-2.0
// A parameter set: one model, whose parameters and buffers are stored one after the other in a flat
// space of fp32, its optimiser and its exchange. The engine creates it, and phases train it
// (phase.h).
#ifndef SR_TRAINER_PARAM_SET_H
#define SR_TRAINER_PARAM_SET_H

#include "trainer/models/built_model.h"
#include "trainer/optimizers/optimizer.h"
#include "trainer/schedules/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

// A set of an engine (sr_engine_get_set). One thread at a time, that of the engine.
typedef struct sr_param_set sr_param_set;

// What a set consists of.
typedef struct sr_param_set_info {
    const char *name; // "" or "G"
    const sr_model *model;
    const sr_optimizer_desc *optimizer;
    int64_t elements; // of the flat space, which begins with the model
    int states;       // of the optimiser, as many as its options need
    int arrays;       // arrays of 'elements' floats: values, sums of gradients, states, average
    int64_t scratch;  // additional floats that the update of matrices needs
    int launches;     // that add the sums of lanes side by side (sr_exchange_launches)
} sr_param_set_info;
// The info is constant; its pointers are borrowed until the engine is freed.
sr_param_set_info sr_param_set_get_info(const sr_param_set *set);

// The average of the parameters in one step, e = decay e + (1 - decay) p, of a set that has one.
typedef struct sr_ema_settings {
    double decay;   // of this step; 0: no EMA
    bool due;       // this step updates it
    bool lookahead; // when it is due, the parameters are set to the average
} sr_ema_settings;

// Arrays of a set; SR_SET_STATE + i is state i of the optimiser.
typedef enum sr_param_set_array {
    SR_SET_VALUES = 0,
    SR_SET_AVERAGE,
    SR_SET_STATE
} sr_param_set_array;
// Host access to an array between steps, 'elements' long: for checkpoints, digests and reports.
// Every map is followed by an unmap.
SR_NODISCARD sr_status sr_param_set_map(const sr_param_set *set, int array, float **out);
// Ends the access; 'write': the array was changed.
SR_NODISCARD sr_status sr_param_set_unmap(const sr_param_set *set, int array, float *mapped,
                                          bool write);
// Sets the average to the parameters (for a new run, or after weights were loaded).
SR_NODISCARD sr_status sr_param_set_start_average(sr_param_set *set);
// Whether a parameter or buffer of the model changes in training: false for frozen ones.
bool sr_param_set_trains(const sr_param_set *set, int param);
// Whether the set has an average of its parameters, which the recipe's `ema` decides. Running
// statistics are averaged like parameters, or are those of the last step (ema.buffers). It starts
// at the values that the parameters have when sr_param_set_start_average is called or weights are
// loaded; sr_engine_use_average evaluates it.
bool sr_param_set_has_average(const sr_param_set *set);
// Collective, between steps: SR_E_NUMERICS if the ranks' values differ. Call this after writing
// your own initial values through sr_param_set_map.
SR_NODISCARD sr_status sr_param_set_compare(const sr_param_set *set);
// Nanoseconds that steps have spent waiting only for the exchange.
int64_t sr_param_set_exposed_ns(const sr_param_set *set);
// The first parameter or buffer, in the model's order, with a value in 'flat' that is not finite;
// NULL if all are finite.
const sr_param *sr_values_not_finite(const sr_model *model, const float *flat, bool buffers_only);
// The same for an array of a set, SR_SET_VALUES or SR_SET_AVERAGE.
SR_NODISCARD sr_status sr_param_set_find_not_finite(const sr_param_set *set, int array,
                                                    bool buffers_only, const sr_param **out);

#ifdef __cplusplus
}
#endif
#endif
