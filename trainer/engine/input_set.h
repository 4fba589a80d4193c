// SPDX-License-Identifier: Apache-2.0
// The inputs of a replay, on the device: those of one lane, or of several side by side
// (sr_compile_lanes).
//
// A set has fixed memory for each input slot of a program, so that addresses stay the same from
// replay to replay; an executor has two, one of which is filled while the other is read. If kernels
// read host memory in place, a set only stores its address.
#ifndef SR_TRAINER_INPUT_SET_H
#define SR_TRAINER_INPUT_SET_H

#include "graph/context.h"

typedef struct sr_input_set {
    sr_device *device;
    int lanes;                        // that it has room for
    sr_address slots[SR_INPUT_SLOTS]; // for sr_run.inputs
    sr_address memory[SR_INPUT_SLOTS];
    size_t capacity[SR_INPUT_SLOTS];
} sr_input_set;

// lanes: 1 where host memory is read in place.
void sr_input_set_init(sr_input_set *set, sr_device *device, int lanes);
// Legal only when no replay uses the set any more.
void sr_input_set_release(sr_input_set *set);
// Whether host memory is read in place, so that it must not change until the replay is complete;
// otherwise it must not change until the copies that were enqueued have run.
bool sr_input_set_in_place(const sr_input_set *set);
// Reserves memory for a slot's values, each of 'bytes' bytes; what was in it is lost if it grows.
SR_NODISCARD sr_status sr_input_set_reserve(sr_input_set *set, int slot, size_t bytes);
// Gives a slot the value of a lane, 0 .. lanes - 1: 'bytes' bytes of host memory, 64-byte aligned,
// as many for each lane. Copies are enqueued on the stream.
SR_NODISCARD sr_status sr_input_set_fill(sr_input_set *set, int slot, int lane, const void *host,
                                         size_t bytes, sr_stream *stream);
// The same for a value that the caller makes in the set's own memory: *out is its place.
SR_NODISCARD sr_status sr_input_set_place(sr_input_set *set, int slot, int lane, size_t bytes,
                                          sr_address *out);

#endif
