// SPDX-License-Identifier: Apache-2.0
// Joins slots to tensors, for training, evaluation and prediction alike: the arrays that a task
// reads become inputs of its lane programs, and are copied to the device on a separate stream.
#ifndef SR_TRAINER_FEED_INTERNAL_H
#define SR_TRAINER_FEED_INTERNAL_H

#include "trainer/engine/feed.h"
#include "trainer/engine/input_set.h"
#include "trainer/tasks/task.h"

// What a lane gets in addition to its slot, in host memory.
typedef struct sr_lane_settings {
    bool trains;                 // inference has a key alone, and no targets
    _Alignas(64) int32_t key[4]; // sr_lane_recording.key
    _Alignas(64) float stop[SR_FLAT_ALIGN];
    _Alignas(64) float loss_seed[1];
} sr_lane_settings;

// The inputs of a task's lane programs.
typedef struct sr_input_feed {
    const sr_task_desc *task;
    int inputs;      // of the task
    int64_t classes; // of the program that was recorded last: sr_lane_recording.classes
    sr_slot lane;    // the arrays of every lane in training, without data
    sr_stream *copies;
    sr_event *copied;
    double act_seconds;
} sr_input_feed;

// Must be released even after a failure. act_seconds: the deadline for copies.
SR_NODISCARD sr_status sr_input_feed_init(sr_input_feed *feed, sr_device *device,
                                          const sr_task_desc *task, double act_seconds);
void sr_input_feed_release(sr_input_feed *feed);
// Sets feed->lane, for lanes of 'samples' samples as pipelines with these options give them
// (sr_pipeline_describe). SR_E_INTERNAL if the task reads an array that its transformer does not
// provide.
SR_NODISCARD sr_status sr_input_feed_describe(sr_input_feed *feed,
                                              const sr_pipeline_options *options, int64_t samples);

// Samples of a slot; a slot without arrays has slot->valid of them.
int64_t sr_input_feed_samples(const sr_slot *slot);
// Records the task's inputs with the types and shapes that a slot's arrays have, and the key.
// SR_E_ARGUMENT for an array that is missing.
SR_NODISCARD sr_status sr_input_feed_record(const sr_input_feed *feed, const sr_slot *slot,
                                            sr_lane_recording *recording);
// Record sr_lane_settings.stop and loss_seed.
sr_tensor sr_input_feed_record_stop(sr_context *context);
sr_tensor sr_input_feed_record_loss_seed(sr_context *context);

// Reserves memory in a set for its lanes in training, so that steps allocate nothing.
SR_NODISCARD sr_status sr_input_feed_reserve(const sr_input_feed *feed, sr_input_set *set);
// Fills a lane of a set with the arrays of a slot: with its settings, for inference without
// targets. Returns when they have arrived. 'copied': sr_input_feed_copy has already copied these
// arrays to the set. SR_E_ARGUMENT for an array that is missing; in training SR_E_SHAPE for a type
// or shape that differs from feed->lane, and SR_E_DATA for a label of feed->classes or more:
// kernels cannot stop a run on every device.
SR_NODISCARD sr_status sr_input_feed_fill(sr_input_feed *feed, const sr_slot *slot,
                                          const sr_lane_settings *settings, bool copied,
                                          sr_input_set *set, int lane);
// Starts to copy the arrays of a slot of training to a lane of a set, with the same errors. The
// arrays must not change until sr_input_feed_wait.
SR_NODISCARD sr_status sr_input_feed_copy(sr_input_feed *feed, const sr_slot *slot,
                                          sr_input_set *set, int lane);
// Waits until all copies are complete.
SR_NODISCARD sr_status sr_input_feed_wait(sr_input_feed *feed);

#endif
