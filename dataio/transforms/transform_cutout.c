// SPDX-License-Identifier: Apache-2.0
// Fills a square at a random position with one colour, clipped at the border: DeVries and Taylor,
// "Improved Regularization of Convolutional Neural Networks with Cutout" (2017).
#include "dataio/transforms/transform_options.h"

typedef struct options {
    int64_t size;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "size",
     .help = "pixels of the square's side",
     .type = SR_OPT_INT,
     .offset = offsetof(options, size),
     .default_text = "8",
     .min = 1,
     .max = 4096},
    SR_ROW_FILL(options, "[127, 127, 127]", "red, green and blue of the square"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("cutout", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    int64_t y0 = (int64_t)sr_rng_below(call->rng, (uint32_t)h) - o->size / 2;
    int64_t x0 = (int64_t)sr_rng_below(call->rng, (uint32_t)w) - o->size / 2;
    int64_t y1 = y0 + o->size < h ? y0 + o->size : h, x1 = x0 + o->size < w ? x0 + o->size : w;
    uint8_t *pixels;
    SR_TRY(sr_canvas_pixels(canvas, &pixels));
    for (int64_t y = y0 > 0 ? y0 : 0; y < y1; y++)
        for (int64_t x = x0 > 0 ? x0 : 0; x < x1; x++)
            for (int64_t c = 0; c < 3; c++)
                pixels[3 * (y * w + x) + c] = (uint8_t)o->fill.items[c];
    return SR_OK;
}

const sr_transform sr_transform_cutout = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "cutout",
    .help = "fill a square at a random position with one colour",
    .options = {.name = "cutout",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
