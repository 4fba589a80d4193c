// SPDX-License-Identifier: Apache-2.0
// Shears about the centre by random angles along each axis, without changing the size.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_float_list x, y;
    int filter;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "x",
     .help = "smallest and largest angle along the rows, in degrees",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, x),
     .default_text = "[-10, 10]",
     .min = -80,
     .max = 80},
    {.name = "y",
     .help = "smallest and largest angle along the columns, in degrees",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, y),
     .default_text = "[0, 0]",
     .min = -80,
     .max = 80},
    SR_ROW_WARP_FILTER(options, "bilinear"),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("shear", "x", &o->x));
    SR_TRY(sr_check_range("shear", "y", &o->y));
    return sr_check_color("shear", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    sr_affine affine = {.scale = 1};
    affine.shear_x = sr_draw_range(call->rng, &o->x);
    affine.shear_y = sr_draw_range(call->rng, &o->y);
    return sr_affine_apply(canvas, &affine, &style);
}

const sr_transform sr_transform_shear = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "shear",
    .help = "shear by random angles",
    .options = {.name = "shear",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
