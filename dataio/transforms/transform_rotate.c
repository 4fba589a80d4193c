// SPDX-License-Identifier: Apache-2.0
// Rotates about the centre by a random angle, counter-clockwise, without changing the size
// (torchvision's RandomRotation).
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_float_list degrees;
    int filter;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "degrees",
     .help = "smallest and largest angle, counter-clockwise",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, degrees),
     .default_text = "[-15, 15]",
     .min = -180,
     .max = 180},
    SR_ROW_WARP_FILTER(options, "bilinear"),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("rotate", "degrees", &o->degrees));
    return sr_check_color("rotate", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    const double degrees = sr_draw_range(call->rng, &o->degrees);
    return sr_affine_apply(canvas, &(sr_affine){.degrees = -degrees, .scale = 1}, &style);
}

const sr_transform sr_transform_rotate = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "rotate",
    .help = "rotate about the centre by a random angle",
    .options = {.name = "rotate",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
