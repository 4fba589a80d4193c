// SPDX-License-Identifier: Apache-2.0
// Rotation, scale, shear and translation of a canvas, as torchvision's functional.affine has them.
#ifndef SR_DATAIO_AFFINE_H
#define SR_DATAIO_AFFINE_H

#include "dataio/image/canvas.h"
#include "kernels/base/status.h"

// How pictures are warped, from a transform's options.
typedef struct sr_warp_style {
    bool bilinear;
    uint8_t color[3]; // outside the picture
} sr_warp_style;

// About the centre of the picture, in this order: shear, scale, rotation, translation.
typedef struct sr_affine {
    double degrees; // clockwise
    double scale;
    double shear_x, shear_y; // degrees
    double x, y;             // pixels, after all else
    bool to_target;          // the new picture has the image size; the centres coincide
} sr_affine;

// Applies the transform; the size does not change unless to_target is set.
SR_NODISCARD sr_status sr_affine_apply(sr_canvas *canvas, const sr_affine *affine,
                                       const sr_warp_style *style);

#endif
