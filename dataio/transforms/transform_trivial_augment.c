// SPDX-License-Identifier: Apache-2.0
// TrivialAugment: one operation drawn at random, at a random magnitude. Mueller and Hutter,
// "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation" (2021), the wide ranges.
#include "dataio/image/augment_ops.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    int64_t levels;
    int filter;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "levels",
     .help = "number of magnitudes",
     .type = SR_OPT_INT,
     .offset = offsetof(options, levels),
     .default_text = "31",
     .min = 2,
     .max = 1001},
    SR_ROW_WARP_FILTER(options, "nearest"),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static const sr_augment_range wide[] = {
    {&sr_augment_identity, 0, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_shear_x, 0, 0.99, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_shear_y, 0, 0.99, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_translate_x, 0, 32, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_translate_y, 0, 32, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_rotate, 0, 135, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_brightness, 0, 0.99, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_color, 0, 0.99, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_contrast, 0, 0.99, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_sharpness, 0, 0.99, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_posterize, 8, 2, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_solarize, 255, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_autocontrast, 0, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_equalize, 0, 0, SR_AUGMENT_ABSOLUTE},
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("trivial_augment", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    const uint32_t op = sr_rng_below(call->rng, sizeof wide / sizeof wide[0]);
    const uint32_t level = sr_rng_below(call->rng, (uint32_t)o->levels);
    const bool negative = sr_rng_below(call->rng, 2) == 1;
    return sr_augment_apply(canvas, &wide[op], (int)level, (int)o->levels, negative, &style);
}

const sr_transform sr_transform_trivial_augment = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "trivial_augment",
    .help = "one operation drawn at random, at a random magnitude",
    .options = {.name = "trivial_augment",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
