// SPDX-License-Identifier: Apache-2.0
// One picture of a slot whose pictures have their own sizes (pipeline.h).
#include "dataio/pipeline/pipeline.h"

enum { IMAGE_HEIGHT, IMAGE_WIDTH, MASK_HEIGHT, MASK_WIDTH, SIZES }; // a row of "size"

static bool fits(int64_t height, int64_t width, int64_t pixels) {
    return height > 0 && width > 0 && height <= pixels / width;
}

sr_status sr_slot_picture(const sr_slot *slot, int64_t sample, sr_slot *out) {
    const sr_array *image, *mask, *size;
    SR_TRY(sr_slot_get(slot, "image", &image));
    SR_TRY(sr_slot_get(slot, "mask", &mask));
    SR_TRY(sr_slot_get(slot, "size", &size));
    const int32_t *s = (const int32_t *)size->data + sample * SIZES;
    if (!fits(s[IMAGE_HEIGHT], s[IMAGE_WIDTH], image->shape[1]) ||
        !fits(s[MASK_HEIGHT], s[MASK_WIDTH], mask->shape[1])) {
        return SR_FAIL(SR_E_DATA,
                       "the data pipeline gave sample %lld a picture of %d x %d with a mask of "
                       "%d x %d, for which it has no room",
                       (long long)(slot->first_position + sample), s[IMAGE_WIDTH], s[IMAGE_HEIGHT],
                       s[MASK_WIDTH], s[MASK_HEIGHT]);
    }
    *out = (sr_slot){.step = slot->step,
                     .lane = slot->lane,
                     .first_position = slot->first_position + sample,
                     .valid = 1,
                     .height = s[MASK_HEIGHT],
                     .width = s[MASK_WIDTH],
                     .arrays = 2};
    out->array[0] = (sr_array){.name = image->name,
                               .dtype = SR_U8,
                               .rank = 4,
                               .shape = {1, s[IMAGE_HEIGHT], s[IMAGE_WIDTH], 3},
                               .count = 1,
                               .data = (uint8_t *)image->data + sample * image->shape[1] * 3};
    out->array[1] = (sr_array){.name = mask->name,
                               .dtype = SR_U8,
                               .rank = 3,
                               .shape = {1, s[MASK_HEIGHT], s[MASK_WIDTH]},
                               .count = 1,
                               .data = (uint8_t *)mask->data + sample * mask->shape[1]};
    return SR_OK;
}
