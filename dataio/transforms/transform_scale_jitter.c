// SPDX-License-Identifier: Apache-2.0
// Large-scale jitter: resizes to a random factor of the largest size that fits, then crops at
// random where the result is larger than the image size and pads on the right and below where it is
// smaller. Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method" (2021).
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_float_list scale;
    int filter;
    bool exact;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "scale",
     .help = "smallest and largest factor",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, scale),
     .default_text = "[0.1, 2]",
     .min = 0.01,
     .max = 100},
    SR_ROW_RESIZE_FILTER(options),
    SR_ROW_EXACT(options),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("scale_jitter", "scale", &o->scale));
    return sr_check_color("scale_jitter", "fill", &o->fill);
}

// Draws the offset of a side that is too long.
static int64_t draw_begin(sr_rng *rng, int64_t have, int64_t want) {
    const int64_t free = have > want ? have - want : 0;
    return -(int64_t)sr_rng_below(rng, (uint32_t)free + 1);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    sr_padding padding = {.width = sr_canvas_target_width(canvas),
                          .height = sr_canvas_target_height(canvas)};
    const double scale = sr_draw_range(call->rng, &o->scale);
    int64_t w, h;
    sr_fit_inside(sr_canvas_width(canvas), sr_canvas_height(canvas),
                  (int64_t)(scale * (double)padding.width + 0.5),
                  (int64_t)(scale * (double)padding.height + 0.5), &w, &h);
    SR_TRY(sr_canvas_resize(canvas, w, h, (sr_resize_filter)o->filter, o->exact));
    padding.x = draw_begin(call->rng, w, padding.width);
    padding.y = draw_begin(call->rng, h, padding.height);
    sr_color_bytes(&o->fill, padding.color);
    return sr_canvas_pad(canvas, &padding);
}

const sr_transform sr_transform_scale_jitter = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "scale_jitter",
    .help = "resize by a random factor, then crop or pad to the image size",
    .options = {.name = "scale_jitter",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
