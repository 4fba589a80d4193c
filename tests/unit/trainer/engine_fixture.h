// SPDX-License-Identifier: Apache-2.0
// A rank's engine on rendered lanes, without data sets and files: a few steps of a recipe.
#ifndef SR_TESTS_UNIT_ENGINE_FIXTURE_H
#define SR_TESTS_UNIT_ENGINE_FIXTURE_H

#include "trainer/engine/state.h"

enum { ENGINE_SIDE = 32, ENGINE_BATCH = 32, ENGINE_LANES = 4, ENGINE_CLASSES = 5 };

typedef struct engine_fixture {
    const char *device; // NULL: the default
    sr_comm *comm;      // NULL: one rank
    sr_recipe *recipe;
    sr_engine *engine;
    uint8_t *images;
    int32_t *labels;
    double gradient_scale; // 0: one over the batch
    const char *more;      // another override; NULL: none
} engine_fixture;

// An engine of a recipe with one override (NULL: none), and pictures for its lanes; *f is zero but
// for 'device', 'comm' and 'more'.
sr_status engine_open(engine_fixture *f, const char *recipe, int threads, const char *extra);
// The same, which must succeed.
void engine_begin(engine_fixture *f, const char *recipe, int threads, const char *extra);
// An engine of the fixture's recipe and communicator for another task, which gets no pictures.
sr_status engine_create_for(engine_fixture *f, const sr_task_desc *task, int threads);
// Frees all of it, the communicator included; also after engine_open has failed.
void engine_end(engine_fixture *f);
// Runs all phases of step 'number'; returns the loss of the last one.
double engine_step(engine_fixture *f, int64_t number);
// Runs steps 0 ... steps - 1: losses of the first and the last one, and the digest of the state.
void engine_run(const char *recipe, int threads, const char *extra, int steps, double *first,
                double *last, char digest[SR_SHA256_HEX]);

#endif
