// SPDX-License-Identifier: Apache-2.0
// A transform of one's own: solarization, which inverts what is bright (as in AutoAugment, Cubuk et
// al. 2019), with some probability. `augment: [flip, solarize: {threshold: 128}]`.
//
// What it draws comes from the stream of the call, so a sample's pixels are a function of seed and
// position, whichever process works on it.
#include <serried.h>

typedef struct options {
    int64_t threshold;
    double probability;
} options;

static const sr_option rows[] = {{.name = "threshold",
                                  .help = "values from here on are inverted",
                                  .type = SR_OPT_INT,
                                  .offset = offsetof(options, threshold),
                                  .default_text = "128",
                                  .max = 256},
                                 {.name = "p",
                                  .help = "how often it happens",
                                  .type = SR_OPT_FLOAT,
                                  .offset = offsetof(options, probability),
                                  .default_text = "0.5",
                                  .max = 1}};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    uint8_t *pixels;
    if (!(sr_rng_uniform(call->rng, 0, 1) < o->probability))
        return SR_OK;
    SR_TRY(sr_canvas_pixels(canvas, &pixels));
    int64_t values = 3 * sr_canvas_width(canvas) * sr_canvas_height(canvas);
    for (int64_t i = 0; i < values; i++)
        if (pixels[i] >= o->threshold)
            pixels[i] = (uint8_t)(255 - pixels[i]);
    return SR_OK;
}

static const sr_transform transform = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "solarize",
    .help = "inverts bright values",
    .options = {.name = "solarize", .options = rows, .count = 2, .struct_size = sizeof(options)},
    .apply = apply};

static const sr_transform *const transforms[] = {&transform, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "solarize", .transforms = transforms};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
