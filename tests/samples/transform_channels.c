// SPDX-License-Identifier: Apache-2.0
// A custom transform: red, green and blue in another order, with some probability (the last step of
// SSD's photometric distortion). `augment: [flip, channels: {p: 0.5}]`.
//
// It draws from the stream of the call, so a sample's pixels are a function of seed and position,
// whichever process transforms it.
#include <serried.h>
#include <string.h>

typedef struct options {
    double probability;
} options;

static const sr_option rows[] = {{.name = "p",
                                  .help = "how often it happens",
                                  .type = SR_OPT_FLOAT,
                                  .offset = offsetof(options, probability),
                                  .default_text = "0.5",
                                  .max = 1}};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    uint32_t order[3] = {0, 1, 2};
    uint8_t *pixels;
    if (!(sr_rng_uniform(call->rng, 0, 1) < o->probability))
        return SR_OK;
    sr_rng_shuffle(call->rng, order, 3);
    SR_TRY(sr_canvas_pixels(canvas, &pixels));
    const int64_t count = sr_canvas_width(canvas) * sr_canvas_height(canvas);
    for (int64_t i = 0; i < count; i++, pixels += 3) {
        uint8_t before[3];
        memcpy(before, pixels, sizeof before);
        for (int c = 0; c < 3; c++)
            pixels[c] = before[order[c]];
    }
    return SR_OK;
}

static const sr_transform transform = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "channels",
    .help = "red, green and blue in another order",
    .options = {.name = "channels", .options = rows, .count = 1, .struct_size = sizeof(options)},
    .apply = apply};

static const sr_transform *const transforms[] = {&transform, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "channels", .transforms = transforms};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
