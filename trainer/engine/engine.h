// SPDX-License-Identifier: Apache-2.0
// The engine of a rank: one device, one context, executors for the local lanes, the parameter sets
// and the phases that train them.
//
// A step runs its phases one after the other. A phase records its lane program once, compiles it
// (which finds the plan of the previous step if nothing changed) and replays it for every local
// lane, several at a time, each on its own executor. Lane-reduced outputs go to its set's
// exchange as soon as they are complete; when the exchange is done, every rank has the new values.
#ifndef SR_TRAINER_ENGINE_H
#define SR_TRAINER_ENGINE_H

#include "collective/comm.h"
#include "trainer/engine/feed.h"
#include "trainer/engine/phase.h"
#include "trainer/tasks/task.h"

#ifdef __cplusplus
extern "C" {
#endif

// The parts and settings of an engine; borrowed until sr_engine_free.
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
    bool plans_only; // nothing will run: skips initialising parameters, which takes a while
} sr_engine_options;

// The engine of a rank. One thread at a time.
typedef struct sr_engine sr_engine;

// Collective: opens the device, builds the models of all sets with their initial values, and
// creates their exchanges. Returns the errors of these parts, SR_E_USAGE for more ranks than lanes
// or for ranks with different settings, and SR_E_NUMERICS if the initial values differ between
// ranks.
SR_NODISCARD sr_status sr_engine_create(const sr_engine_options *options, sr_engine **out);
// NULL is legal.
void sr_engine_free(sr_engine *engine);

// The parts of an engine, and how its work is divided.
typedef struct sr_engine_info {
    const sr_task_desc *task;
    const void *task_options; // NULL: it has none
    sr_recipe *recipe;
    sr_comm *comm;
    sr_device *device;
    sr_context *context; // for its counters, and for reports on what it has recorded
    uint64_t seed;
    double mean[3], std[3]; // for normalising pictures
    int phases, sets;
    int infers; // the set that inference uses
    int64_t batch, lane_samples, image_height, image_width;
    int lanes, lane_begin, lane_end; // of the batch; lanes of this rank
    int executors, threads;          // replays that run at a time; threads of all of them
    int at_once;                     // lanes of a replay, side by side
} sr_engine_info;
// The info is constant; its pointers are borrowed until the engine is freed.
sr_engine_info sr_engine_get_info(const sr_engine *engine);
// Sets the lengths of the run, once they are known. From then on, settings that begin or end at a
// length take effect there. Without this call the run has no end, and all settings stay as in its
// first step.
void sr_engine_set_lengths(sr_engine *engine, const sr_schedule_lengths *lengths);
// The size of a step's pictures.
void sr_engine_get_size(const sr_engine *engine, int64_t step, int64_t *height, int64_t *width);
// A parameter set by its number, in the order of the task. Borrowed until the engine is freed.
sr_param_set *sr_engine_get_set(const sr_engine *engine, int set);
// A phase by its number, in the order of a step. Borrowed until the engine is freed.
sr_phase *sr_engine_get_phase(const sr_engine *engine, int phase);
// Describes a lane's slot in training: the arrays of the task's transformer, without data. The task
// may read only some of them. Borrowed until free.
const sr_slot *sr_engine_get_slot(const sr_engine *engine);

// How many phases run in a step.
int sr_engine_phases_due(const sr_engine *engine, int64_t step);
// One step of one phase with the settings of sr_phase_set_step. A step runs its phases in order,
// those that are due (sr_phase_is_due). The source is asked once for each of them. SR_E_ARGUMENT or
// SR_E_SHAPE for a slot that does not match sr_engine_get_slot.
SR_NODISCARD sr_status sr_engine_step(sr_engine *engine, int phase, int64_t step,
                                      const sr_lane_source *source);

// *bytes: what the values of the largest phase need in a replay. On a device that runs beside the
// host, cheap values are recomputed from now on, or else fewer lanes run side by side, if all
// replays at a time need more than 'room', of which a sixteenth is left to libraries: they allocate
// when their kernels first run. Does not change a bit. Between steps.
SR_NODISCARD sr_status sr_engine_fit_lanes(sr_engine *engine, uint64_t room, uint64_t *bytes);
// Records and compiles a phase's program of one lane without running it (reports, benchmarks). The
// plan is borrowed as with sr_compile.
SR_NODISCARD sr_status sr_engine_compile(sr_engine *engine, int phase, sr_plan **out);
// The same for the lanes that run side by side (at_once).
SR_NODISCARD sr_status sr_engine_compile_lanes(sr_engine *engine, int phase, sr_plan **out);
// The program of one lane for pictures of another size than the step's largest.
SR_NODISCARD sr_status sr_engine_compile_size(sr_engine *engine, int phase, int64_t height,
                                              int64_t width, sr_plan **out);
// Records inference on 'samples' samples with pictures of this size as a program of the engine's
// context (sr_engine_info): the one that evaluation and prediction run. *outputs: what its targets
// give, in order, without data. SR_E_UNSUPPORTED for a task without inference.
SR_NODISCARD sr_status sr_engine_record_inference(sr_engine *engine, int64_t samples,
                                                  int64_t height, int64_t width,
                                                  sr_task_outputs *outputs,
                                                  sr_target targets[SR_TASK_OUTPUTS]);
// Compiles that program, with the same errors.
SR_NODISCARD sr_status sr_engine_compile_inference(sr_engine *engine, int64_t samples,
                                                   int64_t height, int64_t width, sr_plan **out);
// The task's outputs for a slot (classification: "logits", f32 [N,classes]), in memory of the
// engine until the next call. It uses the values that sr_engine_use_average selected, with fixed
// running statistics. The slot needs the arrays that the task reads, except targets
// (classification: "image" u8 [N,H,W,3], 64-byte aligned), with any number of samples; a slot
// without arrays has slot->valid of them. Random numbers depend on the seed and first_position.
SR_NODISCARD sr_status sr_engine_infer(sr_engine *engine, const sr_slot *slot,
                                       sr_task_outputs *out);
// A lane's samples as the network sees them, mixed by the recipe's `mix`; memory of the caller.
typedef struct sr_mixed_lane {
    float *x;         // [n,H,W,3], normalised by data.mean and data.std
    int32_t *partner; // [n]: the label that was mixed in
    float *weight;    // [n]: weight of the own label, 1 if nothing was mixed in
} sr_mixed_lane;

// Mixes a lane's samples as the step does. SR_E_UNSUPPORTED for a task that does not mix samples.
SR_NODISCARD sr_status sr_engine_mix(sr_engine *engine, int64_t step, int lane, const sr_slot *slot,
                                     const sr_mixed_lane *out);
// Switches the variables of the set that infers to its average (after gathering it on every rank)
// or back to the parameters. Without an average they stay as they are.
SR_NODISCARD sr_status sr_engine_use_average(sr_engine *engine, bool average);

#ifdef __cplusplus
}
#endif
#endif
