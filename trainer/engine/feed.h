// SPDX-License-Identifier: Apache-2.0
// Where the lanes of a step come from: slots of named arrays, from the data pipeline or from a
// source of your own.
#ifndef SR_TRAINER_FEED_H
#define SR_TRAINER_FEED_H

#include "dataio/pipeline/pipeline.h"
#include "kernels/device/device.h"
#include "kernels/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

// Makes an array of a lane in the device's memory, in the order of a stream, where there are no
// values on the host. What it reads of the host must stay until 'done' of the lane.
typedef struct sr_array_maker {
    sr_status (*make)(void *user, int lane, sr_address to, sr_stream *stream);
    void *user;
} sr_array_maker;

// Provides a lane's inputs and takes them back when the lane's program has run. sr_feed_source is
// the pipeline's. A source of your own (tests/samples/own_source.c) sets the arrays that the task
// reads (sr_engine_get_slot lists all arrays), 64-byte aligned, and leaves them unchanged until
// 'done' of their lane. Both are called on the thread of sr_engine_step, 'get' for the local lanes
// in order. Earlier lanes may still run then, so each lane needs its own buffers. To give the same
// bits on any number of ranks, a lane's samples must depend only on (step, lane).
typedef struct sr_lane_source {
    sr_status (*get)(void *user, int lane, sr_slot *out);
    void (*done)(void *user, int lane);
    void *user;
    // Optional: if the slot that the next 'get' of this lane will return is ready, gets it, with
    // the same arrays; otherwise returns false. A device that copies inputs can then copy those of
    // the first lanes of a step while it computes the last lanes of the previous step.
    bool (*ahead)(void *user, int lane, sr_slot *out);
    // With 'ahead', a number that is unique among all sources, past and present, of this process
    // (sr_lane_source_number).
    uint64_t number;
} sr_lane_source;

// A number for a new source. Any thread.
uint64_t sr_lane_source_number(void);

// The training data of a rank as a source of lanes: its pipeline, or pictures that stay on the
// device. One thread at a time.
typedef struct sr_feed sr_feed;

// Opens the pipeline. uses: how often a step requests the same lane (its number of phases that are
// due). device: the slots' memory is registered with it, if possible, so that copies are fast; the
// feed must be freed before the device is closed. NULL: none.
SR_NODISCARD sr_status sr_feed_create(const sr_pipeline_options *options, int uses,
                                      sr_device *device, sr_feed **out);
// Reads the pictures to the device instead (sr_resident_create), for options that were measured.
SR_NODISCARD sr_status sr_feed_create_resident(const sr_pipeline_options *options, int uses,
                                               sr_device *device, sr_feed **out);
// Closes the pipeline; NULL is legal.
void sr_feed_free(sr_feed *feed);
// From the next step on, each lane is requested so often, at least once. Called between steps.
void sr_feed_set_uses(sr_feed *feed, int uses);
// For sr_engine_step; borrowed until free. A slot returns to the pipeline after its last use.
const sr_lane_source *sr_feed_source(sr_feed *feed);
// Nanoseconds that steps have waited for their slots.
int64_t sr_feed_wait_ns(const sr_feed *feed);
// The damaged samples that were replaced (sr_pipeline_get_damage). Borrowed until the next slot.
sr_pipeline_damage sr_feed_get_damage(const sr_feed *feed);
// The slot that the next use of a local lane will get, with its pixels; this call does not count as
// a use. Borrowed until that use is done, or until the next call.
SR_NODISCARD sr_status sr_feed_peek(sr_feed *feed, int lane, const sr_slot **out);

// Memory of slots, registered with a device; all zero: none.
typedef struct sr_pinned_memory {
    sr_device *device;
    void *memory; // NULL: not registered
} sr_pinned_memory;

// Registers memory that a device copies slots from. It can also copy from unregistered memory, so a
// failure is only a warning.
void sr_slot_memory_pin(sr_pinned_memory *pinned, void *memory, size_t bytes, sr_device *device);
// Unregisters it, before it is freed and the device is closed; no copy may be in progress.
void sr_slot_memory_unpin(sr_pinned_memory *pinned);

// All memory of a pipeline's slots; all zero: none.
typedef struct sr_pinned_slots {
    sr_pinned_memory memory[SR_PIPELINE_MEMORIES];
} sr_pinned_slots;

// The same as a feed does, for a pipeline without one.
void sr_slots_pin(sr_pinned_slots *pinned, const sr_pipeline *pipeline, sr_device *device);
// Before the pipeline and the device are closed; no copy may be in progress.
void sr_slots_unpin(sr_pinned_slots *pinned);

#ifdef __cplusplus
}
#endif
#endif
