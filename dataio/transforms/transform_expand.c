// SPDX-License-Identifier: Apache-2.0
// Zooms out: with a probability, pads the picture to sides that are longer by a random factor, at a
// random position. Liu et al., "SSD: Single Shot MultiBox Detector" (2016); torchvision's
// RandomZoomOut.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double probability;
    sr_float_list ratio;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "0.5", "share of pictures that are padded"),
    {.name = "ratio",
     .help = "smallest and largest factor by which the sides grow",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, ratio),
     .default_text = "[1, 4]",
     .min = 1,
     .max = 16},
    SR_ROW_FILL(options, "[124, 116, 104]", "red, green and blue of the padding"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("expand", "ratio", &o->ratio));
    return sr_check_color("expand", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    if (!sr_draw_chance(call->rng, o->probability))
        return SR_OK;
    const double ratio = sr_draw_range(call->rng, &o->ratio);
    sr_padding padding = {.width = (int64_t)((double)w * ratio),
                          .height = (int64_t)((double)h * ratio)};
    padding.x = sr_rng_below(call->rng, (uint32_t)(padding.width - w) + 1);
    padding.y = sr_rng_below(call->rng, (uint32_t)(padding.height - h) + 1);
    sr_color_bytes(&o->fill, padding.color);
    return sr_canvas_pad(canvas, &padding);
}

const sr_transform sr_transform_expand = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "expand",
    .help = "zoom out: pad to a random larger size at a random position",
    .options = {.name = "expand",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
