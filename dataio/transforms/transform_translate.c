// SPDX-License-Identifier: Apache-2.0
// Translates by a random number of whole pixels in each direction, without changing the size.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double x, y;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "x",
     .help = "largest share of the width",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, x),
     .default_text = "0.1",
     .min = 0,
     .max = 1},
    {.name = "y",
     .help = "largest share of the height",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, y),
     .default_text = "0.1",
     .min = 0,
     .max = 1},
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("translate", "fill", &o->fill);
}

// Draws an offset in whole pixels, up to a share of the side.
static int64_t draw(sr_rng *rng, double share, int64_t side) {
    const int64_t most = (int64_t)(share * (double)side);
    return (int64_t)sr_rng_below(rng, (uint32_t)(2 * most + 1)) - most;
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    sr_padding padding = {.width = sr_canvas_width(canvas), .height = sr_canvas_height(canvas)};
    padding.x = draw(call->rng, o->x, padding.width);
    padding.y = draw(call->rng, o->y, padding.height);
    sr_color_bytes(&o->fill, padding.color);
    return sr_canvas_pad(canvas, &padding);
}

const sr_transform sr_transform_translate = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "translate",
    .help = "translate by random whole pixels",
    .options = {.name = "translate",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
