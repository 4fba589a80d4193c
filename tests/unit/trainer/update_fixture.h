// SPDX-License-Identifier: Apache-2.0
// A parameter set whose gradients are drawn, not computed: what its exchange and its optimiser make
// of them. tests/golden/optimizers_golden.py draws the same.
#ifndef SR_TESTS_UNIT_UPDATE_FIXTURE_H
#define SR_TESTS_UNIT_UPDATE_FIXTURE_H

#include "trainer/engine/param_set_internal.h"

// What a run is made of.
typedef struct update_settings {
    const char *device;    // NULL: the default
    const char *optimizer; // of the recipe, as "{name: adam, lr: 0.1}"
    bool large;            // tensors of several blocks
    bool averages;         // has a moving average
    bool keeps_buffers;    // which has the present running statistics
    double loss_scale;     // 0: none
    int lanes;
    int64_t bucket_bytes;
} update_settings;

// One rank of it.
typedef struct update_fixture {
    update_settings settings;
    sr_recipe *recipe;
    sr_arena arena;
    sr_device *device;
    sr_context *context;
    sr_param_set *set;
    int first_lane, end_lane; // of this rank
    sr_stream *stream;
    sr_address gradients; // of a lane, f32, as the set's flat space
    float *host;
    int64_t broken_step; // its gradients have an infinity; -1: none
} update_fixture;

// Collective; borrows the communicator. *f is zero before, and is closed after a failure, too.
SR_NODISCARD sr_status update_open(update_fixture *f, const update_settings *settings,
                                   sr_comm *comm);
void update_close(update_fixture *f);
// Runs steps [first, end).
SR_NODISCARD sr_status update_steps(update_fixture *f, int64_t first, int64_t end);
// Collective: parameters, buffers, average and states, one after the other; memory of the caller
// (sr_free).
SR_NODISCARD sr_status update_read(const update_fixture *f, float **out, int64_t *count);
// Puts there what update_read gave, on every rank.
SR_NODISCARD sr_status update_write(const update_fixture *f, const float *from);

#endif
