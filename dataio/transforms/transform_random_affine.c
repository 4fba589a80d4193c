// SPDX-License-Identifier: Apache-2.0
// Random rotation, scale, shear and translation about the centre, in one warp (torchvision's
// RandomAffine). With to_image the new picture has the image size and the same centre, for use
// after mosaic.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_float_list degrees, translate, scale, shear;
    bool to_image;
    int filter;
    sr_int_list fill;
} options;

#define NAME "random_affine"

static sr_status check_shear(const sr_float_list *list) {
    const sr_float_list x = {list->items, list->count < 2 ? list->count : 2};
    if (list->count != 2 && list->count != 4)
        return SR_FAIL(SR_E_USAGE, NAME ": shear takes two or four angles, got %zu", list->count);
    if (list->count == 4)
        SR_TRY(sr_check_range(NAME, "shear", &(sr_float_list){list->items + 2, 2}));
    return sr_check_range(NAME, "shear", &x);
}

static const sr_option rows[] = {
    {.name = "degrees",
     .help = "smallest and largest angle, clockwise",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, degrees),
     .default_text = "[-10, 10]",
     .min = -180,
     .max = 180},
    {.name = "translate",
     .help = "largest share of width and of height",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, translate),
     .default_text = "[0.1, 0.1]",
     .min = 0,
     .max = 1},
    {.name = "scale",
     .help = "smallest and largest factor",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, scale),
     .default_text = "[0.9, 1.1]",
     .min = 0.01,
     .max = 100},
    {.name = "shear",
     .help = "smallest and largest angle along the rows, optionally also along the columns",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, shear),
     .default_text = "[0, 0]",
     .min = -80,
     .max = 80},
    {.name = "to_image",
     .help = "give the new picture the image size",
     .type = SR_OPT_BOOL,
     .offset = offsetof(options, to_image),
     .default_text = "false"},
    SR_ROW_WARP_FILTER(options, "bilinear"),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range(NAME, "degrees", &o->degrees));
    SR_TRY(sr_check_range(NAME, "scale", &o->scale));
    SR_TRY(check_shear(&o->shear));
    if (o->translate.count != 2)
        return SR_FAIL(SR_E_USAGE, NAME ": translate takes two fractions, got %zu",
                       o->translate.count);
    return sr_check_color(NAME, "fill", &o->fill);
}

// Rounds to whole pixels, ties away from zero.
static double whole(double v) {
    return (double)(int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

static double draw_shear(sr_rng *rng, const sr_float_list *list, size_t at) {
    return list->count > at ? sr_rng_uniform(rng, list->items[at], list->items[at + 1]) : 0;
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    sr_affine affine = {.to_target = o->to_image};
    const double w = (double)sr_canvas_width(canvas), h = (double)sr_canvas_height(canvas);
    const double x = o->translate.items[0] * w, y = o->translate.items[1] * h;
    affine.degrees = sr_draw_range(call->rng, &o->degrees);
    affine.x = whole(sr_rng_uniform(call->rng, -x, x));
    affine.y = whole(sr_rng_uniform(call->rng, -y, y));
    affine.scale = sr_draw_range(call->rng, &o->scale);
    affine.shear_x = draw_shear(call->rng, &o->shear, 0);
    affine.shear_y = draw_shear(call->rng, &o->shear, 2);
    return sr_affine_apply(canvas, &affine, &style);
}

const sr_transform sr_transform_random_affine = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "random_affine",
    .help = "rotate, scale, shear and translate in one warp",
    .options = {.name = "random_affine",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
