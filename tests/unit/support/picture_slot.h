// SPDX-License-Identifier: Apache-2.0
// A lane of square pictures with labels or masks, as the data pipeline would deliver it.
#ifndef SR_TESTS_UNIT_PICTURE_SLOT_H
#define SR_TESTS_UNIT_PICTURE_SLOT_H

#include "dataio/pipeline/pipeline.h"

static inline sr_slot picture_slot(int64_t samples, int64_t side, uint8_t *images,
                                   int32_t *labels) {
    return (sr_slot){
        .valid = samples,
        .arrays = 2,
        .array = {
            {.name = "image",
             .dtype = SR_U8,
             .rank = 4,
             .shape = {samples, side, side, 3},
             .data = images},
            {.name = "label", .dtype = SR_I32, .rank = 1, .shape = {samples}, .data = labels}}};
}

// masks: u8 [samples, side, side].
static inline sr_slot mask_slot(int64_t samples, int64_t side, uint8_t *images, uint8_t *masks) {
    sr_slot slot = picture_slot(samples, side, images, NULL);
    slot.array[1] = (sr_array){
        .name = "mask", .dtype = SR_U8, .rank = 3, .shape = {samples, side, side}, .data = masks};
    return slot;
}

#endif
