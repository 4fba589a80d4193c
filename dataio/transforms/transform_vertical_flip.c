// SPDX-License-Identifier: Apache-2.0
// Mirrors top to bottom with a probability, for pictures without a fixed orientation, such as
// aerial or microscope images.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double probability;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "0.5", "share of pictures that are mirrored"),
};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    if (!sr_draw_chance(call->rng, o->probability))
        return SR_OK;
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    return sr_canvas_warp(
        canvas, &(sr_warp){.width = w, .height = h, .inverse = {1, 0, 0, 0, -1, (double)h}});
}

const sr_transform sr_transform_vertical_flip = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "vertical_flip",
    .help = "mirror top to bottom",
    .options = {.name = "vertical_flip",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
