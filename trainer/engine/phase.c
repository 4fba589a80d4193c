// SPDX-License-Identifier: Apache-2.0
// Phases (phase.h): when they run, how often their set has been updated before, what a step gave.
#include "trainer/engine/phase.h"

#include <math.h>

#include "kernels/base/memory.h"
#include "trainer/engine/phase_internal.h"

sr_status sr_phase_create(const sr_phase_options *o, sr_phase **out) {
    sr_phase *phase = sr_alloc(sizeof *phase, "phase");
    if (!phase)
        return SR_E_MEMORY;
    phase->name = o->name;
    phase->number = o->number;
    phase->set_number = o->set_number;
    phase->set = o->set;
    phase->every = o->every;
    phase->peers = o->peers;
    phase->peer_count = o->peer_count;
    phase->gradient_norm = (double)NAN;
    phase->scalars = sr_alloc_array((size_t)sr_param_set_scalars(o->set), sizeof *phase->scalars,
                                    "scalars of a step");
    if (!phase->scalars) {
        sr_phase_free(phase);
        return SR_E_MEMORY;
    }
    *out = phase;
    return SR_OK;
}

void sr_phase_free(sr_phase *phase) {
    if (!phase)
        return;
    sr_free(phase->scalars);
    sr_free(phase);
}

sr_phase_info sr_phase_get_info(const sr_phase *phase) {
    return (sr_phase_info){.name = phase->name, .set = phase->set_number, .every = phase->every};
}

bool sr_phase_is_due(const sr_phase *phase, int64_t step) {
    return step % phase->every == 0;
}

// How often the set was updated, or its update skipped, before this phase of the step. A function
// of the step's number, so that no checkpoint needs to keep it.
static int64_t updates_before(const sr_phase *phase, int64_t step) {
    int64_t count = 0;
    bool earlier = true; // in the step
    for (int p = 0; p < phase->peer_count; p++) {
        const sr_phase *peer = phase->peers[p];
        earlier = earlier && peer != phase;
        if (peer->set == phase->set)
            count +=
                (step + peer->every - 1) / peer->every + (earlier && sr_phase_is_due(peer, step));
    }
    return count;
}

static bool is_last_of_set(const sr_phase *phase, int64_t step) {
    for (int p = phase->peer_count - 1; p >= 0 && phase->peers[p] != phase; p--)
        if (phase->peers[p]->set == phase->set && sr_phase_is_due(phase->peers[p], step))
            return false;
    return true;
}

void sr_phase_set_step(sr_phase *phase, int64_t step, int64_t position, double lr,
                       double gradient_scale, sr_ema_settings ema) {
    ema.due = ema.due && is_last_of_set(phase, step);
    phase->lr = lr;
    sr_param_set_use(phase->set, &(sr_set_step){.updates = updates_before(phase, step),
                                                .position = position,
                                                .lr = lr,
                                                .gradient_scale = gradient_scale,
                                                .ema = ema});
}

sr_status sr_phase_end_step(sr_phase *phase) {
    phase->gradient_norm = phase->set->gradient_norm;
    phase->skipped = phase->set->skipped;
    return sr_param_set_end_step(phase->set, phase->scalars);
}

sr_gradient_report sr_phase_get_gradients(const sr_phase *phase) {
    const sr_loss_scale *scale = &phase->set->loss_scale;
    return (sr_gradient_report){.norm = phase->gradient_norm,
                                .skipped = phase->skipped,
                                .loss_scale = scale->scale,
                                .skipped_steps = (int64_t)scale->skipped};
}

static double scalar(const sr_phase *phase, int segment, int element) {
    const sr_param_set *set = phase->set;
    return (double)phase->scalars[set->segments[segment].begin - set->scalar_begin + element];
}

double sr_phase_loss_sum(const sr_phase *phase) {
    return scalar(phase, phase->set->loss_segment, 0);
}

double sr_phase_scalar(const sr_phase *phase, int which, int element) {
    return scalar(phase, phase->set->loss_segment + 1 + which, element);
}

double sr_phase_lr(const sr_phase *phase) {
    return phase->lr;
}

bool sr_phase_stop_agreed(const sr_phase *phase) {
    return scalar(phase, phase->set->stop_segment, 0) > 0;
}
