// SPDX-License-Identifier: Apache-2.0
// Resizing of RGB u8 pictures in integer arithmetic, and nearest-neighbour resizing of masks.
//
// Follows Pillow (and torchvision with antialias): a triangle or cubic filter whose width grows
// with the reduction, evaluated at pixel centres, with taps outside the box dropped and weights
// normalised. SR_FILTER_FAST is the triangle of one pixel's width (torchvision without antialias).
// Results are bit-identical on every processor and within one level of Pillow's, except where
// Pillow's cubic clips overshoot between the two passes.
#ifndef SR_DATAIO_RESAMPLE_H
#define SR_DATAIO_RESAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/image/canvas.h"
#include "dataio/jpeg/decode.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reuses its tables and buffers from picture to picture. One thread at a time.
typedef struct sr_resampler sr_resampler;

typedef struct sr_resize {
    double x, y, width, height;          // box of the input that is resized, in its pixels
    int64_t output_width, output_height; // of the whole resized box
    sr_region window;                    // part of the output to compute
    bool flip;                           // mirror the window left to right
    sr_resize_filter filter;
} sr_resize;

SR_NODISCARD sr_status sr_resampler_create(sr_resampler **out);
void sr_resampler_free(sr_resampler *resampler);
// Writes window.height x window.width packed RGB pixels. The window must be inside the output
// (SR_E_ARGUMENT). in->x and in->y are ignored: the box is relative to the first pixel of in->data.
// It may exceed the input as long as the window's pixels do not need what is missing.
SR_NODISCARD sr_status sr_resample(sr_resampler *resampler, const sr_pixels *in,
                                   const sr_resize *resize, uint8_t *out);
// The same for a plane of one byte per pixel; each output is the input pixel that contains its
// centre. 'columns' has room for window.width numbers.
void sr_resample_nearest(const uint8_t *in, int64_t width, int64_t height, const sr_resize *resize,
                         int32_t *columns, uint8_t *out);

#ifdef __cplusplus
}
#endif
#endif
