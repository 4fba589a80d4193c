// SPDX-License-Identifier: Apache-2.0
// Adds a random multiple of the principal components of ImageNet's colours: Krizhevsky et al.,
// "ImageNet Classification with Deep Convolutional Neural Networks" (2012), with the components
// that AlexNet's successors use (of RGB in 0..1).
#include "dataio/image/adjust.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double deviation;
} options;

static const sr_option rows[] = {
    {.name = "deviation",
     .help = "standard deviation of the random factor of each component",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, deviation),
     .default_text = "0.1",
     .min = 0,
     .max = 10},
};

static const double values[3] = {0.2175, 0.0188, 0.0045};
static const double vectors[3][3] = {{-0.5675, 0.7192, 0.4009}, // red, green, blue of each
                                     {-0.5808, -0.0045, -0.8140},
                                     {-0.5836, -0.6948, 0.4203}};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    int shift[3];
    double alpha[3];
    uint8_t *p;
    for (int i = 0; i < 3; i++)
        alpha[i] = sr_rng_normal(call->rng) * o->deviation * values[i] * 255;
    for (int c = 0; c < 3; c++) {
        const double v =
            vectors[c][0] * alpha[0] + vectors[c][1] * alpha[1] + vectors[c][2] * alpha[2];
        shift[c] = (int)(v < 0 ? v - 0.5 : v + 0.5);
    }
    SR_TRY(sr_canvas_pixels(canvas, &p));
    sr_adjust_shift(p, sr_canvas_width(canvas) * sr_canvas_height(canvas), shift);
    return SR_OK;
}

const sr_transform sr_transform_lighting = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "lighting",
    .help = "shift along the principal components of ImageNet's colours",
    .options = {.name = "lighting",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
