// SPDX-License-Identifier: Apache-2.0
// AutoAugment: one of 25 learned pairs of operations, each operation with its own probability.
// Cubuk et al., "AutoAugment: Learning Augmentation Strategies from Data" (2019), tables 7 to 9.
#include "dataio/image/augment_ops.h"
#include "dataio/transforms/transform_options.h"

#define PAIRS 25
#define LEVELS 10

typedef struct options {
    int policy, filter;
    sr_int_list fill;
} options;

// An operation, its probability in tenths, and its level.
typedef struct step {
    uint8_t op, tenths, level;
} step;
typedef step pair[2];

// Short names of the operations.
enum {
    SHEAR_X = SR_AUGMENT_SHEAR_X,
    SHEAR_Y = SR_AUGMENT_SHEAR_Y,
    TRANSLATE_X = SR_AUGMENT_TRANSLATE_X,
    TRANSLATE_Y = SR_AUGMENT_TRANSLATE_Y,
    ROTATE = SR_AUGMENT_ROTATE,
    BRIGHTNESS = SR_AUGMENT_BRIGHTNESS,
    COLOR = SR_AUGMENT_COLOR,
    CONTRAST = SR_AUGMENT_CONTRAST,
    SHARPNESS = SR_AUGMENT_SHARPNESS,
    POSTERIZE = SR_AUGMENT_POSTERIZE,
    SOLARIZE = SR_AUGMENT_SOLARIZE,
    AUTOCONTRAST = SR_AUGMENT_AUTOCONTRAST,
    EQUALIZE = SR_AUGMENT_EQUALIZE,
    INVERT = SR_AUGMENT_INVERT,
};

static const pair imagenet[PAIRS] = {
    {{POSTERIZE, 4, 8}, {ROTATE, 6, 9}},  {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
    {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}},
    {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{EQUALIZE, 4, 0}, {ROTATE, 8, 8}},
    {{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}},
    {{ROTATE, 2, 3}, {SOLARIZE, 6, 8}},   {{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}},
    {{ROTATE, 8, 8}, {COLOR, 4, 0}},      {{ROTATE, 4, 9}, {EQUALIZE, 6, 0}},
    {{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}}, {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
    {{COLOR, 6, 4}, {CONTRAST, 10, 8}},   {{ROTATE, 8, 8}, {COLOR, 10, 2}},
    {{COLOR, 8, 8}, {SOLARIZE, 8, 7}},    {{SHARPNESS, 4, 7}, {INVERT, 6, 0}},
    {{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}}, {{COLOR, 4, 0}, {EQUALIZE, 6, 0}},
    {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
    {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},  {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
    {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
};

static const pair cifar10[PAIRS] = {
    {{INVERT, 1, 0}, {CONTRAST, 2, 6}},          {{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}},
    {{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}},      {{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}},
    {{AUTOCONTRAST, 5, 0}, {EQUALIZE, 9, 0}},    {{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}},
    {{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}},         {{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}},
    {{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}},        {{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}},
    {{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}},        {{EQUALIZE, 3, 0}, {AUTOCONTRAST, 4, 0}},
    {{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}},    {{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}},
    {{SOLARIZE, 5, 2}, {INVERT, 0, 0}},          {{EQUALIZE, 2, 0}, {AUTOCONTRAST, 6, 0}},
    {{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}},        {{COLOR, 9, 9}, {EQUALIZE, 6, 0}},
    {{AUTOCONTRAST, 8, 0}, {SOLARIZE, 2, 8}},    {{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}},
    {{SOLARIZE, 4, 5}, {AUTOCONTRAST, 9, 0}},    {{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}},
    {{AUTOCONTRAST, 9, 0}, {SOLARIZE, 8, 3}},    {{EQUALIZE, 8, 0}, {INVERT, 1, 0}},
    {{TRANSLATE_Y, 7, 9}, {AUTOCONTRAST, 9, 0}},
};

static const pair svhn[PAIRS] = {
    {{SHEAR_X, 9, 4}, {INVERT, 2, 0}},       {{SHEAR_Y, 9, 8}, {INVERT, 7, 0}},
    {{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}},    {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
    {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},      {{SHEAR_X, 9, 4}, {AUTOCONTRAST, 8, 0}},
    {{SHEAR_Y, 9, 8}, {INVERT, 4, 0}},       {{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}},
    {{INVERT, 9, 0}, {AUTOCONTRAST, 8, 0}},  {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
    {{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}},     {{SHEAR_Y, 8, 8}, {INVERT, 7, 0}},
    {{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}}, {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
    {{CONTRAST, 3, 3}, {ROTATE, 8, 4}},      {{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}},
    {{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}},     {{INVERT, 6, 0}, {ROTATE, 8, 4}},
    {{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}},  {{SHEAR_X, 1, 6}, {INVERT, 6, 0}},
    {{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}}, {{SHEAR_Y, 8, 4}, {INVERT, 8, 0}},
    {{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}},  {{SHEAR_Y, 8, 5}, {AUTOCONTRAST, 7, 0}},
    {{SHEAR_X, 7, 2}, {INVERT, 1, 0}},
};

// In the order of the names.
static const pair *const policies[] = {imagenet, cifar10, svhn};
static const char *const policy_names[] = {"imagenet", "cifar10", "svhn", NULL};

static const sr_option rows[] = {
    {.name = "policy",
     .help = "the data set that the pairs were learned on",
     .type = SR_OPT_ENUM,
     .offset = offsetof(options, policy),
     .default_text = "imagenet",
     .choices = policy_names},
    SR_ROW_WARP_FILTER(options, "nearest"),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("auto_augment", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    const step *drawn = policies[o->policy][sr_rng_below(call->rng, PAIRS)];
    for (int i = 0; i < 2; i++) {
        const bool applied = sr_rng_below(call->rng, 10) < drawn[i].tenths;
        const bool negative = sr_rng_below(call->rng, 2) == 0;
        if (applied)
            SR_TRY(sr_augment_apply(canvas, &sr_augment_ranges[drawn[i].op], drawn[i].level, LEVELS,
                                    negative, &style));
    }
    return SR_OK;
}

const sr_transform sr_transform_auto_augment = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "auto_augment",
    .help = "a learned pair of operations",
    .options = {.name = "auto_augment",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
