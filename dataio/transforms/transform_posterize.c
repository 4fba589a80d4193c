// SPDX-License-Identifier: Apache-2.0
// Keeps only the highest bits of each value, with a probability.
#include "dataio/image/adjust.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double probability;
    int64_t bits;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "0.5", "share of pictures that are posterized"),
    {.name = "bits",
     .help = "bits that are kept",
     .type = SR_OPT_INT,
     .offset = offsetof(options, bits),
     .default_text = "4",
     .min = 0,
     .max = 8},
};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    uint8_t *p;
    if (!sr_draw_chance(call->rng, o->probability))
        return SR_OK;
    SR_TRY(sr_canvas_pixels(canvas, &p));
    sr_adjust_posterize(p, sr_canvas_width(canvas) * sr_canvas_height(canvas), (int)o->bits);
    return SR_OK;
}

const sr_transform sr_transform_posterize = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "posterize",
    .help = "keep the highest bits of each value",
    .options = {.name = "posterize",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
