// SPDX-License-Identifier: Apache-2.0
// Draws outlines and run lengths of objects as one mask of classes.
//
// A polygon covers the pixels that the COCO API gives it (rleFrPoly of maskApi.c): its boundary is
// traced on a grid five times as fine, and each column is filled between the crossings. Several
// polygons of an object are joined. Where objects overlap, a pixel belongs to the one that covers
// fewer pixels, of two equal ones to the first: what lies before something else is mostly the
// smaller of the two, and would be lost under it. The areas of crowds have no class (255) where no
// single object is.
#ifndef SR_DATAIO_OUTLINE_MASK_H
#define SR_DATAIO_OUTLINE_MASK_H

#include <stdint.h>

#include "dataio/formats/rle.h"
#include "dataio/import/annotations.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Growing buffers; zero-initialised is empty. One thread at a time.
typedef struct sr_outline_mask {
    void *ids; // uint8_t [height, width]: the mask
    int64_t width, height;
    size_t first, last; // range of 'inside' that the current object may cover
    size_t id_capacity, area_capacity, inside_capacity, crossing_capacity;
    void *areas;     // uint32_t [height, width]: pixels of the object that a pixel belongs to
    void *inside;    // uint8_t [width, height] and one: the current object
    void *crossings; // uint8_t [width, height] and one: odd numbers of crossings
    sr_rle rle;
} sr_outline_mask;

void sr_outline_mask_release(sr_outline_mask *mask);
// Begins a mask, all of one class.
SR_NODISCARD sr_status sr_outline_mask_begin(sr_outline_mask *mask, int64_t width, int64_t height,
                                             uint8_t background);
// Draws an object of a class. SR_E_DATA where it has neither polygons nor run lengths, or run
// lengths of another size.
SR_NODISCARD sr_status sr_outline_mask_add(sr_outline_mask *mask, const sr_annotation *object,
                                           uint8_t class_number);

#ifdef __cplusplus
}
#endif
#endif
