// SPDX-License-Identifier: Apache-2.0
// RandAugment as timm has it, in the recipes of "ResNet strikes back" and DeiT: each operation is
// applied with a probability, at a magnitude that varies around one level of 0 to 10. Every
// operation becomes stronger with the level, as in timm's "inc1": rand-m7-mstd0.5-inc1 is
// {magnitude: 7}. Source: Wightman, Touvron, Jegou, "ResNet strikes back" (2021), table 2.
#include <math.h>

#include "dataio/image/augment_ops.h"
#include "dataio/transforms/transform_options.h"

#define MOST_LEVEL 10.0
#define ADD_BELOW 128 // values that solarize_add changes

typedef struct options {
    int64_t ops;
    double magnitude, deviation, probability;
    int filter;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "ops",
     .help = "number of operations",
     .type = SR_OPT_INT,
     .offset = offsetof(options, ops),
     .default_text = "2",
     .max = 16},
    {.name = "magnitude",
     .help = "level of all operations, from 0 to 10",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, magnitude),
     .default_text = "9",
     .max = MOST_LEVEL},
    {.name = "deviation",
     .help = "standard deviation of the level, which is drawn for each operation",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, deviation),
     .default_text = "0.5",
     .max = 100},
    SR_ROW_PROBABILITY(options, "0.5", "share of operations that are applied"),
    SR_ROW_WARP_FILTER(options, "bilinear"),
    SR_ROW_FILL(options, "[124, 116, 104]", "red, green and blue outside the picture"),
};

// Keeps the next higher number of bits.
static sr_status posterize(sr_canvas *canvas, double m, const sr_warp_style *style) {
    return sr_augment_posterize.apply(canvas, ceil(m), style);
}

// Adds a whole number to the dark values.
static sr_status solarize_add(sr_canvas *canvas, double m, const sr_warp_style *style) {
    uint8_t *p;
    (void)style;
    SR_TRY(sr_canvas_pixels(canvas, &p));
    for (int64_t i = 0; i < 3 * sr_canvas_width(canvas) * sr_canvas_height(canvas); i++) {
        const int more = p[i] + (int)m;
        if (p[i] < ADD_BELOW)
            p[i] = (uint8_t)(more < 255 ? more : 255);
    }
    return SR_OK;
}

static const sr_augment_op posterize_up = {"posterize", false, posterize};
static const sr_augment_op add = {"solarize_add", false, solarize_add};

static const sr_augment_range increasing[] = {
    {&sr_augment_autocontrast, 0, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_equalize, 0, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_invert, 0, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_rotate, 0, 30, SR_AUGMENT_ABSOLUTE},
    {&posterize_up, 4, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_solarize, 256, 0, SR_AUGMENT_ABSOLUTE},
    {&add, 0, 110, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_color, 0, 0.9, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_contrast, 0, 0.9, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_brightness, 0, 0.9, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_sharpness, 0, 0.9, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_shear_x, 0, 0.3, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_shear_y, 0, 0.3, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_translate_x, 0, 0.45, SR_AUGMENT_OF_WIDTH},
    {&sr_augment_translate_y, 0, 0.45, SR_AUGMENT_OF_HEIGHT},
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("rand_augment_timm", "fill", &o->fill);
}

static double draw_level(const options *o, sr_rng *rng) {
    const double level = o->magnitude + o->deviation * sr_rng_normal(rng);
    return level < 0 ? 0 : level > MOST_LEVEL ? MOST_LEVEL : level;
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    for (int64_t i = 0; i < o->ops; i++) {
        const uint32_t op = sr_rng_below(call->rng, sizeof increasing / sizeof increasing[0]);
        const bool applied = sr_draw_chance(call->rng, o->probability);
        const bool negative = sr_rng_below(call->rng, 2) == 1;
        const double share = draw_level(o, call->rng) / MOST_LEVEL;
        if (applied)
            SR_TRY(sr_augment_apply_share(canvas, &increasing[op], share, negative, &style));
    }
    return SR_OK;
}

const sr_transform sr_transform_rand_augment_timm = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "rand_augment_timm",
    .help = "rand_augment with timm's operations, probability and varying magnitude",
    .options = {.name = "rand_augment_timm",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
