// SPDX-License-Identifier: Apache-2.0
// Training pictures that stay in the device's memory, where transforms only move their pixels: each
// step then sends where every pixel of a lane comes from, instead of pixels, and there are no data
// processes. The bits are those of the pipeline.
#ifndef SR_TRAINER_RESIDENT_H
#define SR_TRAINER_RESIDENT_H

#include "dataio/pipeline/pipeline.h"
#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// The pictures of a split, and slots of this rank's lanes that are made from them. One thread at a
// time.
typedef struct sr_resident sr_resident;

// The bytes that 'count' pictures would take of the device. 0: these options need the pipeline.
SR_NODISCARD sr_status sr_resident_measure(const sr_pipeline_options *options, int64_t count,
                                           uint64_t *bytes);
// Reads all pictures, for options that were measured: through a pipeline of its own, so with its
// errors. SR_E_SHAPE for a picture that has not the image's size.
SR_NODISCARD sr_status sr_resident_create(const sr_pipeline_options *options, sr_device *device,
                                          sr_resident **out);
// Before the device is closed; NULL is legal.
void sr_resident_free(sr_resident *resident);
// The slot of a local lane in a step, counted from the start of training: its pictures have a maker
// (trainer/engine/feed.h). It stays until the lane's next one.
SR_NODISCARD sr_status sr_resident_fill(sr_resident *resident, int64_t step, int lane,
                                        sr_slot *out);
// Copies the pictures of such a slot to the host: *out is the slot with their pixels, until the
// next call.
SR_NODISCARD sr_status sr_resident_show(sr_resident *resident, const sr_slot *slot, sr_slot *out);

#ifdef __cplusplus
}
#endif
#endif
