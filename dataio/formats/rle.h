// SPDX-License-Identifier: Apache-2.0
// Run lengths of COCO's masks: counts of zeros, ones, zeros, ..., down the columns from the left.
//
// Records (dataio/record/record.h, key mask of an object) contain them as COCO's compressed string,
// which its tools read: each number in groups of five bits, lowest first, as characters from '0'
// on; bit 5 marks that more follow, the highest bit of the last group is the sign; from the third
// number on, the difference to the number two before is stored. Source: the format as the COCO API
// documents and reads it (maskApi.h, https://cocodataset.org).
#ifndef SR_DATAIO_RLE_H
#define SR_DATAIO_RLE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Growing buffers; zero-initialised is empty.
typedef struct sr_rle {
    void *counts; // uint32_t
    size_t count, capacity;
    void *text; // compressed
    size_t text_bytes, text_capacity;
    void *pixels; // for resizing
    size_t pixel_capacity;
} sr_rle;

void sr_rle_release(sr_rle *rle);
// Adds one run length.
SR_NODISCARD sr_status sr_rle_add(sr_rle *rle, uint32_t length);
// Fills counts from a compressed string. SR_E_DATA.
SR_NODISCARD sr_status sr_rle_parse(sr_rle *rle, const void *text, size_t bytes);
// Fills text from counts.
SR_NODISCARD sr_status sr_rle_print(sr_rle *rle);
// Checks that the counts cover exactly height x width pixels. SR_E_DATA.
SR_NODISCARD sr_status sr_rle_check(const sr_rle *rle, uint64_t height, uint64_t width);
// Resizes the mask; each new pixel is the old one at its centre. The counts cover height x width.
SR_NODISCARD sr_status sr_rle_resize(sr_rle *rle, int64_t height, int64_t width, int64_t new_height,
                                     int64_t new_width);

#ifdef __cplusplus
}
#endif
#endif
