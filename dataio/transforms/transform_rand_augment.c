// SPDX-License-Identifier: Apache-2.0
// RandAugment: a few operations drawn at random, all at one magnitude. Cubuk et al., "RandAugment:
// Practical Automated Data Augmentation with a Reduced Search Space" (2019), with the operations
// and ranges of torchvision.
#include "dataio/image/augment_ops.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    int64_t ops, magnitude, levels;
    int filter;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "ops",
     .help = "number of operations",
     .type = SR_OPT_INT,
     .offset = offsetof(options, ops),
     .default_text = "2",
     .min = 0,
     .max = 16},
    {.name = "magnitude",
     .help = "level of all operations, from 0",
     .type = SR_OPT_INT,
     .offset = offsetof(options, magnitude),
     .default_text = "9",
     .min = 0,
     .max = 1000},
    {.name = "levels",
     .help = "number of levels",
     .type = SR_OPT_INT,
     .offset = offsetof(options, levels),
     .default_text = "31",
     .min = 2,
     .max = 1001},
    SR_ROW_WARP_FILTER(options, "nearest"),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    if (o->magnitude >= o->levels)
        return SR_FAIL(SR_E_USAGE, "rand_augment: magnitude %lld is not below the %lld levels",
                       (long long)o->magnitude, (long long)o->levels);
    return sr_check_color("rand_augment", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    for (int64_t i = 0; i < o->ops; i++) {
        const uint32_t op = sr_rng_below(call->rng, SR_AUGMENT_INVERT);
        const bool negative = sr_rng_below(call->rng, 2) == 1;
        SR_TRY(sr_augment_apply(canvas, &sr_augment_ranges[op], (int)o->magnitude, (int)o->levels,
                                negative, &style));
    }
    return SR_OK;
}

const sr_transform sr_transform_rand_augment = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "rand_augment",
    .help = "a few operations drawn at random, at one magnitude",
    .options = {.name = "rand_augment",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
