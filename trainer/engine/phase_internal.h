// SPDX-License-Identifier: Apache-2.0
// The phase's struct, for the engine.
#ifndef SR_TRAINER_PHASE_INTERNAL_H
#define SR_TRAINER_PHASE_INTERNAL_H

#include "trainer/engine/param_set_internal.h"
#include "trainer/engine/phase.h"

struct sr_phase {
    const char *name;
    int number;                    // of the task
    int set_number;                // of the engine
    sr_param_set *set;             // that it trains
    int64_t every;                 // steps
    struct sr_phase *const *peers; // all phases of a step, in order
    int peer_count;
    // Of its last step:
    double lr;
    double gradient_norm;
    bool skipped;
    float *scalars; // all of the set's, from set->scalar_begin on
};

// What a phase is created from; borrowed until sr_phase_free.
typedef struct sr_phase_options {
    const char *name;
    int number, set_number;
    sr_param_set *set;
    int64_t every;
    struct sr_phase *const *peers; // complete before the first step
    int peer_count;
} sr_phase_options;

// SR_E_MEMORY.
SR_NODISCARD sr_status sr_phase_create(const sr_phase_options *options, sr_phase **out);
// NULL is legal.
void sr_phase_free(sr_phase *phase);
// Collects what the step gave, after its exchange.
SR_NODISCARD sr_status sr_phase_end_step(sr_phase *phase);

#endif
