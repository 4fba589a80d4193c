// SPDX-License-Identifier: Apache-2.0
// Mirrors left to right with a probability.
#include "dataio/transforms/transform.h"

typedef struct options {
    double probability;
} options;

static const sr_option rows[] = {
    {.name = "probability",
     .help = "share of pictures that are mirrored",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, probability),
     .default_text = "0.5",
     .min = 0,
     .max = 1},
};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    if (sr_rng_uniform(call->rng, 0, 1) < o->probability)
        sr_canvas_flip(canvas);
    return SR_OK;
}

const sr_transform sr_transform_flip = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "flip",
    .help = "mirror left to right",
    .options = {.name = "flip",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
    .moves = true,
};
