// SPDX-License-Identifier: Apache-2.0
// Blends with a smoothed picture, with a probability: factors above 1 sharpen, below 1 smooth
// (torchvision's RandomAdjustSharpness).
#include "dataio/image/adjust.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double probability, factor;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "0.5", "share of pictures that are changed"),
    {.name = "factor",
     .help = "0: smoothed; 1: unchanged; 2: twice as sharp",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, factor),
     .default_text = "2",
     .min = 0,
     .max = 10},
};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    if (!sr_draw_chance(call->rng, o->probability))
        return SR_OK;
    return sr_adjust_sharpness(canvas, sr_adjust_factor(o->factor));
}

const sr_transform sr_transform_sharpness = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "sharpness",
    .help = "sharpen or smooth",
    .options = {.name = "sharpness",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
