// SPDX-License-Identifier: Apache-2.0
// Training steps of a recipe's model on fixed random data in memory, so that only the step is
// measured. Data are random, not zeros, on which some processors are faster. A device that copies
// inputs copies them as in training: from pinned memory, and those of the next step's first lanes
// while it computes the last lanes of a step.
#ifndef SR_LAUNCHER_BENCH_ENGINE_INTERNAL_H
#define SR_LAUNCHER_BENCH_ENGINE_INTERNAL_H

#include "trainer/engine/engine.h"

typedef struct sr_bench_engine {
    sr_engine *engine;
    sr_slot *slots; // of each lane
    void *inputs;   // of all slots
    sr_pinned_memory pinned;
    uint64_t source; // sr_lane_source.number
    int64_t step;
} sr_bench_engine;

// The engine of one rank of 'comm' on a device (NULL: the recipe's), without data: its steps can be
// compiled. To be released even after a failure. What follows holds here, too.
SR_NODISCARD sr_status sr_bench_engine_make(sr_recipe *recipe, sr_comm *comm, const char *device,
                                            int threads, int64_t classes, sr_bench_engine *out);
// The engine of one rank of 'comm' and its data. The recipe gives batch, lanes and picture size;
// recipe and communicator must outlive the engine.
SR_NODISCARD sr_status sr_bench_engine_create(sr_recipe *recipe, sr_comm *comm, int threads,
                                              int64_t classes, sr_bench_engine *out);
// Runs 'count' steps of all phases; *seconds: the time that they took.
SR_NODISCARD sr_status sr_bench_engine_step(sr_bench_engine *e, int count, double *seconds);
void sr_bench_engine_release(sr_bench_engine *e);

#endif
