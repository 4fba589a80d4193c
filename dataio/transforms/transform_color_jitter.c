// SPDX-License-Identifier: Apache-2.0
// Changes brightness, contrast, saturation and hue by random amounts, in random order: Howard,
// "Some Improvements on Deep Convolutional Neural Network Based Image Classification" (2013), with
// the ranges of torchvision's ColorJitter.
#include "dataio/image/adjust.h"
#include "dataio/transforms/transform.h"

typedef struct options {
    double brightness, contrast, saturation, hue;
} options;

static const sr_option rows[] = {
    {.name = "brightness",
     .help = "factor from 1 - x to 1 + x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, brightness),
     .default_text = "0.4",
     .min = 0,
     .max = 10},
    {.name = "contrast",
     .help = "factor from 1 - x to 1 + x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, contrast),
     .default_text = "0.4",
     .min = 0,
     .max = 10},
    {.name = "saturation",
     .help = "factor from 1 - x to 1 + x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, saturation),
     .default_text = "0.4",
     .min = 0,
     .max = 10},
    {.name = "hue",
     .help = "rotation of the colour wheel by -x to x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, hue),
     .default_text = "0",
     .min = 0,
     .max = 0.5},
};

static int64_t factor_of(sr_rng *rng, double x) {
    double low = x < 1 ? 1 - x : 0;
    return sr_adjust_factor(sr_rng_uniform(rng, low, 1 + x));
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    uint32_t order[4] = {0, 1, 2, 3};
    uint8_t *p;
    SR_TRY(sr_canvas_pixels(canvas, &p));
    int64_t pixels = sr_canvas_width(canvas) * sr_canvas_height(canvas);
    // Always draw all factors, so that disabling one does not change the other draws.
    sr_rng_shuffle(call->rng, order, 4);
    int64_t b = factor_of(call->rng, o->brightness), c = factor_of(call->rng, o->contrast);
    int64_t s = factor_of(call->rng, o->saturation);
    double turn = sr_rng_uniform(call->rng, -o->hue, o->hue) * SR_ADJUST_TURN;
    int shift = (int)(turn < 0 ? turn - 0.5 : turn + 0.5);
    for (int i = 0; i < 4; i++) {
        if (order[i] == 0 && b != SR_ADJUST_ONE)
            sr_adjust_brightness(p, pixels, b);
        if (order[i] == 1 && c != SR_ADJUST_ONE)
            sr_adjust_contrast(p, pixels, c);
        if (order[i] == 2 && s != SR_ADJUST_ONE)
            sr_adjust_saturation(p, pixels, s);
        if (order[i] == 3 && shift != 0)
            sr_adjust_hue(p, pixels, shift);
    }
    return SR_OK;
}

const sr_transform sr_transform_color_jitter = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "color_jitter",
    .help = "random brightness, contrast, saturation and hue",
    .options = {.name = "color_jitter",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
