// SPDX-License-Identifier: Apache-2.0
// Crops a random part of the picture and resizes it to the image size: Szegedy et al., "Going
// Deeper with Convolutions" (2014), with the rules of torchvision's RandomResizedCrop.
#include <math.h>

#include "dataio/transforms/transform_options.h"
#include "kernels/base/math.h"

#define TRIES 10

typedef struct options {
    sr_float_list scale, ratio;
    bool exact;
    int filter;
} options;

static const sr_option rows[] = {
    {.name = "scale",
     .help = "smallest and largest share of the picture's area",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, scale),
     .default_text = "[0.08, 1]",
     .min = 1e-9,
     .max = 1},
    {.name = "ratio",
     .help = "smallest and largest width / height",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, ratio),
     .default_text = "[0.75, 1.3333333333333333]",
     .min = 1e-9,
     .max = 100},
    SR_ROW_EXACT(options),
    SR_ROW_RESIZE_FILTER(options),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("random_resized_crop", "scale", &o->scale));
    return sr_check_range("random_resized_crop", "ratio", &o->ratio);
}

static sr_region centre(int64_t width, int64_t height, const sr_float_list *ratio) {
    double have = (double)width / (double)height;
    sr_region r = {.width = width, .height = height};
    if (have < ratio->items[0])
        r.height = (int64_t)((double)width / ratio->items[0] + 0.5);
    else if (have > ratio->items[1])
        r.width = (int64_t)((double)height * ratio->items[1] + 0.5);
    r.width = r.width < 1 ? 1 : r.width > width ? width : r.width;
    r.height = r.height < 1 ? 1 : r.height > height ? height : r.height;
    r.x = (width - r.width) / 2;
    r.y = (height - r.height) / 2;
    return r;
}

static sr_region draw(int64_t width, int64_t height, const options *o, sr_rng *rng) {
    double area = (double)width * (double)height;
    double low = sr_log_f64(o->ratio.items[0]), high = sr_log_f64(o->ratio.items[1]);
    for (int i = 0; i < TRIES; i++) {
        double target = area * sr_rng_uniform(rng, o->scale.items[0], o->scale.items[1]);
        double aspect = sr_exp(sr_rng_uniform(rng, low, high));
        int64_t w = (int64_t)(sqrt(target * aspect) + 0.5);
        int64_t h = (int64_t)(sqrt(target / aspect) + 0.5);
        if (w < 1 || h < 1 || w > width || h > height)
            continue;
        sr_region r = {.width = w, .height = h};
        r.y = sr_rng_below(rng, (uint32_t)(height - h + 1));
        r.x = sr_rng_below(rng, (uint32_t)(width - w + 1));
        return r;
    }
    return centre(width, height, &o->ratio);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    sr_region r = draw(sr_canvas_width(canvas), sr_canvas_height(canvas), o, call->rng);
    SR_TRY(sr_canvas_crop(canvas, &r));
    return sr_canvas_resize(canvas, sr_canvas_target_width(canvas), sr_canvas_target_height(canvas),
                            (sr_resize_filter)o->filter, o->exact);
}

const sr_transform sr_transform_random_resized_crop = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "random_resized_crop",
    .help = "crop a random part of the picture and resize it to the image size",
    .options = {.name = "random_resized_crop",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
