// SPDX-License-Identifier: Apache-2.0
// Brightness, contrast, saturation and hue by random factors, in random order: Howard, "Some
// Improvements on Deep Convolutional Neural Network Based Image Classification" (2013), with the
// ranges of torchvision's ColorJitter. Integer arithmetic with 16 fractional bits; hue is a shift
// on a wheel of 6 x 256 steps.
#include "dataio/transform.h"

#define ONE 65536

typedef struct options {
    double brightness, contrast, saturation, hue;
} options;

static const sr_option rows[] = {
    {.name = "brightness",
     .help = "factor from 1 - x to 1 + x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, brightness),
     .default_text = "0.4",
     .min = 0,
     .max = 10},
    {.name = "contrast",
     .help = "factor from 1 - x to 1 + x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, contrast),
     .default_text = "0.4",
     .min = 0,
     .max = 10},
    {.name = "saturation",
     .help = "factor from 1 - x to 1 + x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, saturation),
     .default_text = "0.4",
     .min = 0,
     .max = 10},
    {.name = "hue",
     .help = "turn of the colour wheel from -x to x",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, hue),
     .default_text = "0",
     .min = 0,
     .max = 0.5},
};

static uint8_t clip(int64_t v) {
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

// Luma of ITU-R BT.601, as Pillow's "L".
static int luma(const uint8_t *p) {
    return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16;
}

static uint8_t blend(int from, int to, int64_t factor) {
    // An arithmetic shift rounds the same way on both sides of zero.
    return clip(from + (((int64_t)(to - from) * factor + ONE / 2) >> 16));
}

static void brightness(uint8_t *p, int64_t pixels, int64_t factor) {
    for (int64_t i = 0; i < 3 * pixels; i++)
        p[i] = blend(0, p[i], factor);
}

static void contrast(uint8_t *p, int64_t pixels, int64_t factor) {
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; i++)
        sum += luma(p + 3 * i);
    int mean = (int)((sum + pixels / 2) / pixels);
    for (int64_t i = 0; i < 3 * pixels; i++)
        p[i] = blend(mean, p[i], factor);
}

static void saturation(uint8_t *p, int64_t pixels, int64_t factor) {
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        int grey = luma(p);
        for (int c = 0; c < 3; c++)
            p[c] = blend(grey, p[c], factor);
    }
}

// Place on the wheel (red 0, green 512, blue 1024) of a colour with the given extremes.
static int hue_of(const uint8_t *p, int high, int range) {
    int r = p[0], g = p[1], b = p[2];
    if (high == r)
        return ((g - b) * 256 / range + 1536) % 1536;
    if (high == g)
        return (b - r) * 256 / range + 512;
    return (r - g) * 256 / range + 1024;
}

static void hue(uint8_t *p, int64_t pixels, int shift) {
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        int high = p[0] > p[1] ? p[0] : p[1], low = p[0] < p[1] ? p[0] : p[1];
        high = p[2] > high ? p[2] : high;
        low = p[2] < low ? p[2] : low;
        int range = high - low;
        if (range == 0)
            continue;
        int at = (hue_of(p, high, range) + shift + 1536) % 1536, part = at % 256;
        uint8_t up = (uint8_t)(low + (range * part + 128) / 256);
        uint8_t down = (uint8_t)(high - (range * part + 128) / 256);
        uint8_t h = (uint8_t)high, l = (uint8_t)low;
        const uint8_t wheel[6][3] = {{h, up, l},   {down, h, l}, {l, h, up},
                                     {l, down, h}, {up, l, h},   {h, l, down}};
        for (int c = 0; c < 3; c++)
            p[c] = wheel[at / 256][c];
    }
}

static int64_t factor_of(sr_rng *rng, double x) {
    double low = x < 1 ? 1 - x : 0;
    return (int64_t)(sr_rng_uniform(rng, low, 1 + x) * ONE + 0.5);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    uint32_t order[4] = {0, 1, 2, 3};
    uint8_t *p;
    SR_TRY(sr_canvas_pixels(canvas, &p));
    int64_t pixels = sr_canvas_width(canvas) * sr_canvas_height(canvas);
    // Everything is drawn whatever is switched on, so that a recipe's other draws stay the same.
    sr_rng_shuffle(call->rng, order, 4);
    int64_t b = factor_of(call->rng, o->brightness), c = factor_of(call->rng, o->contrast);
    int64_t s = factor_of(call->rng, o->saturation);
    double turn = sr_rng_uniform(call->rng, -o->hue, o->hue) * 1536;
    int shift = (int)(turn < 0 ? turn - 0.5 : turn + 0.5);
    for (int i = 0; i < 4; i++) {
        if (order[i] == 0 && b != ONE)
            brightness(p, pixels, b);
        if (order[i] == 1 && c != ONE)
            contrast(p, pixels, c);
        if (order[i] == 2 && s != ONE)
            saturation(p, pixels, s);
        if (order[i] == 3 && shift != 0)
            hue(p, pixels, shift);
    }
    return SR_OK;
}

const sr_transform sr_transform_color_jitter = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "color_jitter",
    .help = "random brightness, contrast, saturation and hue",
    .options = {.name = "color_jitter",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
