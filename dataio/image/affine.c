// SPDX-License-Identifier: Apache-2.0
// The inverse matrix of an affine transform.
//
// The forward transform, about the centre, is T(x, y) R(a) S(s) Hy(-tan shear_y) Hx(-tan shear_x).
// The inverse is computed factor by factor, from the left. sr_sin and sr_cos give the same pixels
// on every machine.
#include "dataio/image/affine.h"

#include "kernels/base/math.h"

#define RADIAN (3.14159265358979323846 / 180)

static double tangent(double degrees) {
    return sr_sin(degrees * RADIAN) / sr_cos(degrees * RADIAN);
}

sr_status sr_affine_apply(sr_canvas *canvas, const sr_affine *affine, const sr_warp_style *style) {
    const double w = (double)sr_canvas_width(canvas), h = (double)sr_canvas_height(canvas);
    const double sine = sr_sin(affine->degrees * RADIAN) / affine->scale;
    const double cosine = sr_cos(affine->degrees * RADIAN) / affine->scale;
    const double tx = tangent(affine->shear_x), ty = tangent(affine->shear_y);
    // Inverse of R and S: [cosine sine; -sine cosine]. Then y += tan(shear_y) x, x += tan(shear_x)
    // y.
    const double c = ty * cosine - sine, d = ty * sine + cosine;
    const double a = cosine + tx * c, b = sine + tx * d;
    sr_warp warp = {.width = sr_canvas_width(canvas),
                    .height = sr_canvas_height(canvas),
                    .bilinear = style->bilinear,
                    .color = {style->color[0], style->color[1], style->color[2]}};
    if (affine->to_target) {
        warp.width = sr_canvas_target_width(canvas);
        warp.height = sr_canvas_target_height(canvas);
    }
    const double x = (double)warp.width / 2 + affine->x, y = (double)warp.height / 2 + affine->y;
    const double inverse[6] = {a, b, w / 2 - a * x - b * y, c, d, h / 2 - c * x - d * y};
    for (int i = 0; i < 6; i++)
        warp.inverse[i] = inverse[i];
    return sr_canvas_warp(canvas, &warp);
}
