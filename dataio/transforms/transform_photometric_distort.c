// SPDX-License-Identifier: Apache-2.0
// Random brightness, contrast, saturation and hue, each with a probability of its own, by the rule
// of a library (dataio/image/photometric.h): torchvision's RandomPhotometricDistort, which also
// reorders the channels, or mmsegmentation's PhotoMetricDistortion, which does not. color_jitter
// changes all of them, in random order.
#include "dataio/image/photometric.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    int rule;
    double probability;
    sr_float_list brightness, contrast, saturation, hue;
} options;

// In the order of sr_photometric_rule.
static const char *const rules[] = {"torchvision", "mmseg", NULL};

static const sr_option rows[] = {
    {.name = "rule",
     .help = "torchvision: blends, and the channels are reordered; mmseg: values are scaled and "
             "shifted, in RGB and in 8-bit HSV",
     .type = SR_OPT_ENUM,
     .offset = offsetof(options, rule),
     .default_text = "torchvision",
     .choices = rules},
    SR_ROW_PROBABILITY(options, "0.5", "share of pictures for each change, drawn independently"),
    {.name = "brightness",
     .help = "torchvision: smallest and largest factor; mmseg: smallest and largest summand, of "
             "255 levels; empty: [0.875, 1.125], or [-32, 32]",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, brightness),
     .default_text = "[]",
     .min = -255,
     .max = 255},
    {.name = "contrast",
     .help = "smallest and largest factor",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, contrast),
     .default_text = "[0.5, 1.5]",
     .min = 0,
     .max = 10},
    {.name = "saturation",
     .help = "smallest and largest factor",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, saturation),
     .default_text = "[0.5, 1.5]",
     .min = 0,
     .max = 10},
    {.name = "hue",
     .help = "smallest and largest rotation of the colour wheel, in turns; empty: [-0.05, 0.05], "
             "with mmseg [-0.1, 0.1]",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, hue),
     .default_text = "[]",
     .min = -0.5,
     .max = 0.5},
};

typedef struct range {
    double low, high;
} range;

// Of the options that are empty by default.
static const struct defaults {
    range brightness, hue;
} defaults[] = {
    [SR_PHOTOMETRIC_BLEND] = {{0.875, 1.125}, {-0.05, 0.05}},
    [SR_PHOTOMETRIC_LINEAR] = {{-32, 32}, {-0.1, 0.1}},
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    const sr_float_list *b = &o->brightness;
    if (b->count > 0)
        SR_TRY(sr_check_range("photometric_distort", "brightness", b));
    if (o->hue.count > 0)
        SR_TRY(sr_check_range("photometric_distort", "hue", &o->hue));
    if (o->rule == SR_PHOTOMETRIC_BLEND && b->count > 0 && (b->items[0] < 0 || b->items[1] > 10))
        return SR_FAIL(SR_E_USAGE, "photometric_distort: brightness is a pair of factors from 0 to "
                                   "10; rule: mmseg adds levels");
    SR_TRY(sr_check_range("photometric_distort", "contrast", &o->contrast));
    return sr_check_range("photometric_distort", "saturation", &o->saturation);
}

static double draw(sr_rng *rng, const sr_float_list *list, range otherwise) {
    return list->count > 0 ? sr_draw_range(rng, list)
                           : sr_rng_uniform(rng, otherwise.low, otherwise.high);
}

// All numbers are always drawn, so that an option changes the others' draws in no way.
static sr_photometric draw_change(const options *o, sr_rng *rng) {
    sr_photometric c = {.rule = (sr_photometric_rule)o->rule, .channels = {0, 1, 2}};
    c.brighten = sr_draw_chance(rng, o->probability);
    const bool contrast = sr_draw_chance(rng, o->probability);
    c.saturate = sr_draw_chance(rng, o->probability);
    c.turn = sr_draw_chance(rng, o->probability);
    c.reorder = sr_draw_chance(rng, o->probability) && c.rule == SR_PHOTOMETRIC_BLEND;
    const bool first = sr_rng_below(rng, 2) == 1;
    c.contrast_first = contrast && first;
    c.contrast_last = contrast && !first;
    c.brightness = draw(rng, &o->brightness, defaults[o->rule].brightness);
    c.contrast = sr_draw_range(rng, &o->contrast);
    c.saturation = sr_draw_range(rng, &o->saturation);
    c.hue = draw(rng, &o->hue, defaults[o->rule].hue);
    sr_rng_shuffle(rng, c.channels, 3);
    return c;
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const sr_photometric change = draw_change(call->options, call->rng);
    uint8_t *pixels;
    SR_TRY(sr_canvas_pixels(canvas, &pixels));
    sr_photometric_apply(&change, pixels, sr_canvas_width(canvas) * sr_canvas_height(canvas));
    return SR_OK;
}

const sr_transform sr_transform_photometric_distort = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "photometric_distort",
    .help = "random brightness, contrast, saturation, hue and channel order, as SSD does",
    .options = {.name = "photometric_distort",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
