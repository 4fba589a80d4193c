// SPDX-License-Identifier: Apache-2.0
// AugMix: a mixture of the picture with several chains of random operations on it. Hendrycks et
// al., "AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty" (2020), with
// flat Dirichlet weights and torchvision's operations. Boxes and mask do not change, because most
// of the mixture's content remains in position.
#include <string.h>

#include "dataio/image/augment_ops.h"
#include "dataio/transforms/transform_options.h"
#include "kernels/base/math.h"

enum { LEVELS = 10, MOST_CHAINS = 8, DEEPEST = 3, BITS = 16 };

typedef struct options {
    int64_t severity, chains, depth;
    bool no_colors;
    int filter;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    {.name = "severity",
     .help = "levels of operations are drawn below this one",
     .type = SR_OPT_INT,
     .offset = offsetof(options, severity),
     .default_text = "3",
     .min = 1,
     .max = LEVELS},
    {.name = "chains",
     .help = "number of chains",
     .type = SR_OPT_INT,
     .offset = offsetof(options, chains),
     .default_text = "3",
     .min = 1,
     .max = MOST_CHAINS},
    {.name = "depth",
     .help = "operations per chain; 0: one to three at random",
     .type = SR_OPT_INT,
     .offset = offsetof(options, depth),
     .default_text = "0",
     .min = 0,
     .max = 16},
    {.name = "no_colors",
     .help = "leave out brightness, color, contrast and sharpness, as the paper does",
     .type = SR_OPT_BOOL,
     .offset = offsetof(options, no_colors),
     .default_text = "false"},
    SR_ROW_WARP_FILTER(options, "bilinear"),
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue outside the picture"),
};

// Colour operations are last, so that they can be excluded.
static const sr_augment_range ranges[] = {
    {&sr_augment_shear_x, 0, 0.3, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_shear_y, 0, 0.3, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_translate_x, 0, 1.0 / 3, SR_AUGMENT_OF_WIDTH},
    {&sr_augment_translate_y, 0, 1.0 / 3, SR_AUGMENT_OF_HEIGHT},
    {&sr_augment_rotate, 0, 30, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_posterize, 4, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_solarize, 255, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_autocontrast, 0, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_equalize, 0, 0, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_brightness, 0, 0.9, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_color, 0, 0.9, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_contrast, 0, 0.9, SR_AUGMENT_ABSOLUTE},
    {&sr_augment_sharpness, 0, 0.9, SR_AUGMENT_ABSOLUTE},
};
enum { ALL = sizeof ranges / sizeof ranges[0], COLORS = 4 };

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("augmix", "fill", &o->fill);
}

// Weights of the picture itself and of the chains, which sum to one. The Dirichlet distribution
// with all parameters 1 is that of normalised exponential variates.
static void draw_weights(sr_rng *rng, int64_t chains, int32_t *weights) {
    double waiting[MOST_CHAINS], sum = 0;
    const double own = sr_rng_uniform(rng, 0, 1);
    int32_t left = 1 << BITS;
    for (int64_t i = 0; i < chains; i++) {
        waiting[i] = -sr_log_f64(1 - sr_rng_uniform(rng, 0, 1));
        sum += waiting[i];
    }
    for (int64_t i = 0; i < chains; i++) {
        const double share = sum > 0 ? waiting[i] / sum : 0;
        weights[1 + i] = (int32_t)((1 - own) * share * (1 << BITS));
        left -= weights[1 + i];
    }
    weights[0] = left;
}

static void add(int32_t *sums, const uint8_t *p, int64_t values, int32_t weight) {
    for (int64_t i = 0; i < values; i++)
        sums[i] += weight * p[i];
}

static sr_status run_chain(sr_canvas *copy, const options *o, sr_rng *rng) {
    const sr_warp_style style = sr_warp_style_of(o->filter, &o->fill);
    const uint32_t drawn = 1 + sr_rng_below(rng, DEEPEST);
    const int64_t depth = o->depth > 0 ? o->depth : drawn;
    for (int64_t i = 0; i < depth; i++) {
        const uint32_t op = sr_rng_below(rng, o->no_colors ? ALL - COLORS : ALL);
        const uint32_t level = sr_rng_below(rng, (uint32_t)o->severity);
        const bool negative = sr_rng_below(rng, 2) == 1;
        SR_TRY(sr_augment_apply(copy, &ranges[op], (int)level, LEVELS, negative, &style));
    }
    return SR_OK;
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const int64_t values = 3 * sr_canvas_width(canvas) * sr_canvas_height(canvas);
    int32_t weights[1 + MOST_CHAINS];
    uint8_t *own, *pixels;
    void *scratch;
    draw_weights(call->rng, o->chains, weights);
    SR_TRY(sr_canvas_pixels(canvas, &own));
    SR_TRY(sr_canvas_scratch(canvas, (size_t)values * sizeof(int32_t), &scratch));
    int32_t *sums = scratch;
    memset(sums, 0, (size_t)values * sizeof *sums);
    add(sums, own, values, weights[0]);
    for (int64_t i = 0; i < o->chains; i++) {
        sr_canvas *copy;
        SR_TRY(sr_canvas_copy(canvas, &copy));
        SR_TRY(run_chain(copy, o, call->rng));
        SR_TRY(sr_canvas_pixels(copy, &pixels));
        add(sums, pixels, values, weights[1 + i]);
    }
    for (int64_t i = 0; i < values; i++)
        own[i] = (uint8_t)((sums[i] + (1 << (BITS - 1))) >> BITS);
    return SR_OK;
}

const sr_transform sr_transform_augmix = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "augmix",
    .help = "a mixture of chains of random operations",
    .options = {.name = "augmix",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
