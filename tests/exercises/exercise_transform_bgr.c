// SPDX-License-Identifier: Apache-2.0
// Swaps red and blue, with a probability.
#include "dataio/image/adjust.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double probability;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "0.5", "share of pictures whose red and blue are swapped"),
};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    uint8_t *p;
    if (!sr_draw_chance(call->rng, o->probability))
        return SR_OK;
    SR_TRY(sr_canvas_pixels(canvas, &p));
    const int64_t pixels = sr_canvas_width(canvas) * sr_canvas_height(canvas);
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        const uint8_t red = p[0];
        p[0] = p[2];
        p[2] = red;
    }
    return SR_OK;
}

const sr_transform sr_transform_bgr = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "bgr",
    .help = "swap red and blue",
    .options = {.name = "bgr",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
