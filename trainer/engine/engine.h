// SPDX-License-Identifier: Apache-2.0
// The engine of a rank: one device, one context, executors for the local lanes, the phases.
//
// A step runs its phases one after the other. A phase records its lane program once, compiles it
// (which finds the plan of the step before when nothing changed) and replays it for every local
// lane, several at a time, one executor each. Lane-reduced outputs go to the phase's exchange the
// moment they are complete; when the exchange is done, the new values are there on every rank.
#ifndef SR_TRAINER_ENGINE_H
#define SR_TRAINER_ENGINE_H

#include "collective/comm.h"
#include "trainer/engine/feed.h"
#include "trainer/engine/phase.h"
#include "trainer/tasks/task.h"

#ifdef __cplusplus
extern "C" {
#endif

// What an engine is made of; borrowed until sr_engine_free.
typedef struct sr_engine_options {
    sr_recipe *recipe;
    const sr_task_desc *task;
    sr_comm *comm;
    const char *device; // NULL: the default of sr_device_open
    int threads;        // of this rank; 0: its processors
    bool one_executor;  // inference: all threads work on one batch
    int64_t classes;
    int64_t batch, lanes; // global
    int64_t image_height, image_width;
    uint64_t seed;
    bool plans_only; // nothing is run: parameters get no first values, which takes a while
} sr_engine_options;

// The engine of a rank. One thread at a time.
typedef struct sr_engine sr_engine;

// Collective: opens the device, builds the models of all phases with their first values, and makes
// their exchanges. Errors of these parts; SR_E_USAGE for more ranks than lanes and for ranks that
// were given different things, SR_E_NUMERICS if their first values differ.
SR_NODISCARD sr_status sr_engine_create(const sr_engine_options *options, sr_engine **out);
// NULL is legal.
void sr_engine_free(sr_engine *engine);

// What an engine was made of, and how its work is divided.
typedef struct sr_engine_info {
    const sr_task_desc *task;
    sr_recipe *recipe;
    sr_comm *comm;
    sr_device *device;
    sr_context *context; // for its counters, and for reports on what it has recorded
    uint64_t seed;
    double mean[3], std[3]; // pictures are normalised by
    int phases;
    int64_t batch, lane_samples, image_height, image_width;
    int lanes, lane_begin, lane_end; // of the batch; those of this rank
    int executors, threads;          // lanes that run at a time; threads of all of them
} sr_engine_info;
// Constant; what it points to is borrowed until the engine is freed.
sr_engine_info sr_engine_get_info(const sr_engine *engine);
// The lengths of the run, once they are known: what begins or ends at a length does so from then
// on. Without this call the run has no end and everything is as in its first step.
void sr_engine_set_lengths(sr_engine *engine, const sr_schedule_lengths *lengths);
// The size of a step's pictures.
void sr_engine_get_size(const sr_engine *engine, int64_t step, int64_t *height, int64_t *width);
// A phase by its number. Borrowed until the engine is freed.
sr_phase *sr_engine_get_phase(const sr_engine *engine, int phase);
// What a lane's slot has, in training: the arrays of the task's transformer, without data, of which
// the task may read some only. Borrowed until free.
const sr_slot *sr_engine_get_slot(const sr_engine *engine);

// One step of one phase with the settings of sr_phase_set_step. With several phases the source is
// asked once for each phase ('done' comes after the last). SR_E_ARGUMENT or SR_E_SHAPE for a slot
// that is not like sr_engine_get_slot.
SR_NODISCARD sr_status sr_engine_step(sr_engine *engine, int phase, int64_t step,
                                      const sr_lane_source *source);

// Records and compiles a phase's lane program without running it (reports, benchmarks). Borrowed as
// sr_compile says.
SR_NODISCARD sr_status sr_engine_compile(sr_engine *engine, int phase, sr_plan **out);
// The same for pictures of another size than the step's largest.
SR_NODISCARD sr_status sr_engine_compile_size(sr_engine *engine, int phase, int64_t height,
                                              int64_t width, sr_plan **out);
// The same of inference on 'samples' samples with pictures of this size, as sr_engine_infer runs
// it. SR_E_UNSUPPORTED for a task without evaluation.
SR_NODISCARD sr_status sr_engine_compile_inference(sr_engine *engine, int64_t samples,
                                                   int64_t height, int64_t width, sr_plan **out);
// What the task infers from a slot (classification: logits), as f32, into 'out' of 'bytes' bytes.
// With the values that sr_engine_use_average chose, running statistics fixed. The slot needs the
// arrays that the task reads and that are no targets (classification: "image" u8 [N,H,W,3], 64-byte
// aligned), of any number of samples.
SR_NODISCARD sr_status sr_engine_infer(sr_engine *engine, const sr_slot *slot, float *out,
                                       size_t bytes);
// A lane's samples as the network sees them, mixed by the recipe's `mix`; memory of the caller.
typedef struct sr_mixed_lane {
    float *x;         // [n,H,W,3], normalised by data.mean and data.std
    int32_t *partner; // [n]: the label that was mixed in
    float *weight;    // [n]: the own label's share, 1 where nothing was mixed in
} sr_mixed_lane;

// Mixes a lane's samples as the step does. SR_E_UNSUPPORTED for a task that mixes none.
SR_NODISCARD sr_status sr_engine_mix(sr_engine *engine, int64_t step, int lane, const sr_slot *slot,
                                     const sr_mixed_lane *out);
// Puts variables on the average (gathered on every rank first) or back on the parameters.
SR_NODISCARD sr_status sr_engine_use_average(sr_engine *engine, bool average);

#ifdef __cplusplus
}
#endif
#endif
