// SPDX-License-Identifier: Apache-2.0
// Rotation, scale, shear and translation of a canvas, as torchvision's functional.affine has them.
#ifndef SR_DATAIO_AFFINE_H
#define SR_DATAIO_AFFINE_H

#include "dataio/image/canvas.h"
#include "kernels/base/status.h"

// How warped pictures are made, of an option table.
typedef struct sr_warp_style {
    bool bilinear;
    uint8_t color[3]; // what is beside the picture
} sr_warp_style;

// About the middle of the picture, in this order: shear, scale, rotation, translation.
typedef struct sr_affine {
    double degrees; // clockwise
    double scale;
    double shear_x, shear_y; // degrees
    double x, y;             // pixels, after all else
    bool to_target;          // the new picture has the image size, its middle on the old one's
} sr_affine;

// Carries it out; the size stays unless to_target says otherwise.
SR_NODISCARD sr_status sr_affine_apply(sr_canvas *canvas, const sr_affine *affine,
                                       const sr_warp_style *style);

#endif
