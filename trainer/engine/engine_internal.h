// SPDX-License-Identifier: Apache-2.0
// The engine's struct, shared by the files that implement it.
#ifndef SR_TRAINER_ENGINE_INTERNAL_H
#define SR_TRAINER_ENGINE_INTERNAL_H

#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/feed_internal.h"
#include "trainer/engine/phase_internal.h"

// Host memory of an output of inference.
typedef struct sr_engine_result {
    void *data;
    size_t capacity;
} sr_engine_result;

// One executor's current lanes: one, or on a device that runs beside the host several side by side.
typedef struct sr_lane_run {
    sr_engine *engine;
    const sr_param_set *set; // that its phase trains
    const sr_plan *plan;
    int lane; // the first
    int target_count;
    bool busy;
    bool holds_inputs; // the source's memory is read until the lane is complete
    sr_exchange_value values[SR_EXCHANGE_VALUES]; // that are not yet put
    int value_count;
    sr_lane_settings *settings; // [2][most_at_once], for each set
    sr_input_set inputs[2];     // one is filled while the other is read
    int next;                   // the set to fill
    sr_slot *ahead;             // [most_at_once]: copied there ahead of requests; no arrays: none
    uint64_t ahead_source;      // sr_lane_source.number: the addresses of closed sources are reused
} sr_lane_run;

struct sr_engine {
    const sr_task_desc *task;
    const void *task_options; // NULL: it has none
    sr_recipe *recipe;
    sr_comm *comm;
    sr_device *device;
    sr_context *context;
    sr_param_set *sets[SR_MAX_SETS];
    sr_model *models[SR_MAX_SETS]; // of the sets
    int set_count;
    sr_phase *phases[SR_MAX_PHASES];
    int phase_count;
    sr_choice_loss loss;
    sr_choice_scalars scalars;
    sr_arena arena;

    sr_dtype dtype;
    double mean[3], std[3];
    uint64_t seed;
    bool plans_only;
    double mix_until; // samples; 0: to the end
    sr_image_growth growth;
    int64_t lane_side; // of square images in 'feed.lane'; image_width if they do not grow
    int64_t batch, lane_samples, image_height, image_width;
    int lanes, lane_begin, lane_end;
    int norm_lanes; // of a group that shares statistics; 1: none

    sr_executor **executors;
    int executor_count, threads;
    int at_once;       // lanes of an executor, side by side; they divide the rank's lanes
    int most_at_once;  // that executors have inputs for
    bool recomputes;   // cheap values, since memory would not suffice
    int running_lanes; // that compute at a time; the others wait at a stop
    sr_lane_run *runs; // one for each executor
    sr_target *targets;
    int *target_segment;
    int target_capacity;
    sr_tensor *lane_values; // scratch of recording
    sr_statistics statistics;
    int *report; // index of a buffer's first report in 'statistics', by the variable's slot
    uint32_t report_capacity;
    sr_input_feed feed;
    sr_engine_result results[SR_TASK_OUTPUTS];
    struct sr_engine_trace *trace; // NULL: none
};

// engine_lanes.c: replays the plan for all lanes of this rank.
SR_NODISCARD sr_status sr_engine_run_lanes(sr_engine *e, const sr_param_set *set, int64_t step,
                                           sr_plan *plan, int target_count,
                                           const sr_lane_source *source);
// Lanes of this rank that run at a time: 'usual', or as many as a group has here, if that is more.
int sr_engine_lanes_at_once(const sr_engine *e, int usual);
// Fills the key of a lane's random numbers.
void sr_engine_set_key(const sr_engine *e, uint32_t third, uint32_t fourth, int32_t *key);

#endif
