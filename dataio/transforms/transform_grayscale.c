// SPDX-License-Identifier: Apache-2.0
// Removes colour with a probability: every channel becomes luma.
#include "dataio/image/adjust.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double probability;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "0.1", "share of pictures that become grayscale"),
};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    uint8_t *p;
    if (!sr_draw_chance(call->rng, o->probability))
        return SR_OK;
    SR_TRY(sr_canvas_pixels(canvas, &p));
    sr_adjust_saturation(p, sr_canvas_width(canvas) * sr_canvas_height(canvas), 0);
    return SR_OK;
}

const sr_transform sr_transform_grayscale = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "grayscale",
    .help = "convert to grayscale",
    .options = {.name = "grayscale",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
