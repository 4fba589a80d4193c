// SPDX-License-Identifier: Apache-2.0
// Overwrites a rectangle of random size, shape and position, with a probability: Zhong et al.,
// "Random Erasing Data Augmentation" (2017), with torchvision's numbers. Boxes and mask do not
// change.
#include <math.h>

#include "dataio/transforms/transform_options.h"
#include "kernels/base/math.h"

typedef struct options {
    double probability;
    sr_float_list scale, ratio;
    int mode;
    sr_int_list fill;
} options;

#define TRIES 10

enum { MODE_COLOR, MODE_NOISE };

static const char *const modes[] = {"color", "noise", NULL};

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "0.5", "share of pictures that are erased"),
    {.name = "scale",
     .help = "smallest and largest share of the area",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, scale),
     .default_text = "[0.02, 0.33]",
     .min = 0.0001,
     .max = 1},
    {.name = "ratio",
     .help = "smallest and largest height / width",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, ratio),
     .default_text = "[0.3, 3.3]",
     .min = 0.01,
     .max = 100},
    {.name = "mode",
     .help = "content of the rectangle: one colour, or noise",
     .type = SR_OPT_ENUM,
     .offset = offsetof(options, mode),
     .default_text = "color",
     .choices = modes},
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue of the rectangle"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("random_erasing", "scale", &o->scale));
    SR_TRY(sr_check_range("random_erasing", "ratio", &o->ratio));
    return sr_check_color("random_erasing", "fill", &o->fill);
}

// Draws a rectangle with area and shape in the ranges; false where none fits in ten tries.
static bool draw(int64_t w, int64_t h, const options *o, sr_rng *rng, sr_region *out) {
    const double low = sr_log_f64(o->ratio.items[0]), high = sr_log_f64(o->ratio.items[1]);
    for (int i = 0; i < TRIES; i++) {
        const double area = (double)w * (double)h * sr_draw_range(rng, &o->scale);
        const double ratio = sr_exp(sr_rng_uniform(rng, low, high));
        out->height = (int64_t)(sqrt(area * ratio) + 0.5);
        out->width = (int64_t)(sqrt(area / ratio) + 0.5);
        if (out->width < 1 || out->height < 1 || out->width >= w || out->height >= h)
            continue;
        out->y = sr_rng_below(rng, (uint32_t)(h - out->height) + 1);
        out->x = sr_rng_below(rng, (uint32_t)(w - out->width) + 1);
        return true;
    }
    return false;
}

static void erase_row(const options *o, sr_rng *rng, uint8_t *p, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        const uint32_t noise = o->mode == MODE_NOISE ? sr_rng_u32(rng) : 0;
        for (int c = 0; c < 3; c++)
            p[c] = (uint8_t)(o->mode == MODE_NOISE ? noise >> 8 * c : (uint32_t)o->fill.items[c]);
    }
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    sr_region r;
    uint8_t *p;
    if (!sr_draw_chance(call->rng, o->probability) || !draw(w, h, o, call->rng, &r))
        return SR_OK;
    SR_TRY(sr_canvas_pixels(canvas, &p));
    for (int64_t y = r.y; y < r.y + r.height; y++)
        erase_row(o, call->rng, p + 3 * (y * w + r.x), r.width);
    return SR_OK;
}

const sr_transform sr_transform_random_erasing = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "random_erasing",
    .help = "overwrite a random rectangle with one colour or noise",
    .options = {.name = "random_erasing",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
