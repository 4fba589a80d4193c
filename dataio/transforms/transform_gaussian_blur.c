// SPDX-License-Identifier: Apache-2.0
// Gaussian blur of a random width, with a probability (torchvision's GaussianBlur).
#include "dataio/image/adjust.h"
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double probability;
    int64_t size;
    sr_float_list sigma;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "1", "share of pictures that are blurred"),
    {.name = "size",
     .help = "pixels of the window, odd",
     .type = SR_OPT_INT,
     .offset = offsetof(options, size),
     .default_text = "5",
     .min = 1,
     .max = 99},
    {.name = "sigma",
     .help = "smallest and largest standard deviation in pixels",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, sigma),
     .default_text = "[0.1, 2]",
     .min = 0.01,
     .max = 100},
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    if (o->size % 2 == 0)
        return SR_FAIL(SR_E_USAGE, "gaussian_blur: size %lld is even; it must be odd",
                       (long long)o->size);
    return sr_check_range("gaussian_blur", "sigma", &o->sigma);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const bool applied = sr_draw_chance(call->rng, o->probability);
    const double sigma = sr_draw_range(call->rng, &o->sigma);
    return applied ? sr_adjust_blur(canvas, (int)o->size, sigma) : SR_OK;
}

const sr_transform sr_transform_gaussian_blur = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "gaussian_blur",
    .help = "blur by a random width",
    .options = {.name = "gaussian_blur",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
