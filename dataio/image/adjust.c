// SPDX-License-Identifier: Apache-2.0
// Colour operations in integer arithmetic (adjust.h).
//
// Sources: Pillow's documentation of ImageEnhance and ImageOps (test_transform_table compares the
// results); ITU-R BT.601 for luma; the hexagonal colour wheel of Smith, "Color Gamut Transform
// Pairs" (1978), with 256 steps per side. Geometric operations are elsewhere (canvas.h).
#include "dataio/image/adjust.h"

#include <string.h>

#include "dataio/image/canvas_internal.h"
#include "kernels/base/math.h"

#define ONE SR_ADJUST_ONE
#define SIDE (SR_ADJUST_TURN / 6) // of the colour wheel
#define BLUR_BITS 14              // fractional bits of a weight; rows between the passes have 6

static uint8_t clip(int64_t v) {
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static int luma(const uint8_t *p) {
    return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16;
}

static uint8_t blend(int from, int to, int64_t factor) {
    // An arithmetic shift rounds the same way on both sides of zero.
    return clip(from + (((int64_t)(to - from) * factor + ONE / 2) >> 16));
}

int64_t sr_adjust_factor(double factor) {
    return (int64_t)(factor * ONE + 0.5);
}

void sr_adjust_brightness(uint8_t *p, int64_t pixels, int64_t factor) {
    for (int64_t i = 0; i < 3 * pixels; i++)
        p[i] = blend(0, p[i], factor);
}

void sr_adjust_contrast(uint8_t *p, int64_t pixels, int64_t factor) {
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; i++)
        sum += luma(p + 3 * i);
    int mean = (int)((sum + pixels / 2) / pixels);
    for (int64_t i = 0; i < 3 * pixels; i++)
        p[i] = blend(mean, p[i], factor);
}

void sr_adjust_saturation(uint8_t *p, int64_t pixels, int64_t factor) {
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        int grey = luma(p);
        for (int c = 0; c < 3; c++)
            p[c] = blend(grey, p[c], factor);
    }
}

// Position on the colour wheel (red 0, green 512, blue 1024) of a colour with the given maximum and
// range.
static int hue_of(const uint8_t *p, int high, int range) {
    int r = p[0], g = p[1], b = p[2];
    if (high == r)
        return ((g - b) * SIDE / range + SR_ADJUST_TURN) % SR_ADJUST_TURN;
    if (high == g)
        return (b - r) * SIDE / range + 2 * SIDE;
    return (r - g) * SIDE / range + 4 * SIDE;
}

void sr_adjust_hue(uint8_t *p, int64_t pixels, int shift) {
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        int high = p[0] > p[1] ? p[0] : p[1], low = p[0] < p[1] ? p[0] : p[1];
        high = p[2] > high ? p[2] : high;
        low = p[2] < low ? p[2] : low;
        int range = high - low;
        if (range == 0)
            continue;
        int at = (hue_of(p, high, range) + shift + SR_ADJUST_TURN) % SR_ADJUST_TURN;
        int part = (range * (at % SIDE) + SIDE / 2) / SIDE;
        uint8_t up = (uint8_t)(low + part), down = (uint8_t)(high - part);
        uint8_t h = (uint8_t)high, l = (uint8_t)low;
        const uint8_t wheel[6][3] = {{h, up, l},   {down, h, l}, {l, h, up},
                                     {l, down, h}, {up, l, h},   {h, l, down}};
        memcpy(p, wheel[at / SIDE], 3);
    }
}

// -- tables ------------------------------------------------------------------------------------

typedef uint8_t channel_tables[3][256];
typedef int64_t histograms[3][256];

static void look_up(uint8_t *p, int64_t pixels, channel_tables table) {
    for (int64_t i = 0; i < pixels; i++, p += 3)
        for (int c = 0; c < 3; c++)
            p[c] = table[c][p[c]];
}

static void look_up_values(uint8_t *p, int64_t pixels, const uint8_t table[256]) {
    for (int64_t i = 0; i < 3 * pixels; i++)
        p[i] = table[p[i]];
}

static void count_values(const uint8_t *p, int64_t pixels, histograms count) {
    memset(count, 0, sizeof(histograms));
    for (int64_t i = 0; i < pixels; i++, p += 3)
        for (int c = 0; c < 3; c++)
            count[c][p[c]]++;
}

void sr_adjust_shift(uint8_t *p, int64_t pixels, const int shift[3]) {
    channel_tables table;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table[c][v] = clip(v + shift[c]);
    look_up(p, pixels, table);
}

void sr_adjust_posterize(uint8_t *p, int64_t pixels, int bits) {
    const uint8_t mask = (uint8_t)(0xff00u >> bits);
    for (int64_t i = 0; i < 3 * pixels; i++)
        p[i] &= mask;
}

void sr_adjust_solarize(uint8_t *p, int64_t pixels, int threshold) {
    uint8_t table[256];
    for (int v = 0; v < 256; v++)
        table[v] = (uint8_t)(v < threshold ? v : 255 - v);
    look_up_values(p, pixels, table);
}

static void stretch(const int64_t count[256], uint8_t table[256]) {
    int low = 0, high = 255;
    while (low < 255 && count[low] == 0)
        low++;
    while (high > 0 && count[high] == 0)
        high--;
    const double scale = high > low ? 255.0 / (high - low) : 1;
    for (int v = 0; v < 256; v++)
        table[v] = high > low ? clip((int64_t)(v * scale - low * scale)) : (uint8_t)v;
}

void sr_adjust_autocontrast(uint8_t *p, int64_t pixels) {
    histograms count;
    channel_tables table;
    count_values(p, pixels, count);
    for (int c = 0; c < 3; c++)
        stretch(count[c], table[c]);
    look_up(p, pixels, table);
}

// The largest value that occurs is not counted in the step, so that it maps to 255.
static void flatten(const int64_t count[256], int64_t pixels, uint8_t table[256]) {
    int last = 255;
    while (last > 0 && count[last] == 0)
        last--;
    const int64_t step = (pixels - count[last]) / 255;
    int64_t below = step / 2;
    for (int v = 0; v < 256; v++) {
        table[v] = step == 0 ? (uint8_t)v : clip(below / step);
        below += count[v];
    }
}

void sr_adjust_equalize(uint8_t *p, int64_t pixels) {
    histograms count;
    channel_tables table;
    count_values(p, pixels, count);
    for (int c = 0; c < 3; c++)
        flatten(count[c], pixels, table[c]);
    look_up(p, pixels, table);
}

// -- neighbours --------------------------------------------------------------------------------

static void sharpen_row(const uint8_t *row, int64_t width, int64_t factor, uint8_t *to) {
    const int64_t line = 3 * width;
    memcpy(to, row, 3);
    for (int64_t i = 3; i < line - 3; i++) {
        int sum = 4 * row[i];
        for (int64_t j = i - 3; j <= i + 3; j += 3)
            sum += row[j - line] + row[j] + row[j + line];
        to[i] = blend((sum + 6) / 13, row[i], factor);
    }
    memcpy(to + line - 3, row + line - 3, 3);
}

sr_status sr_adjust_sharpness(sr_canvas *canvas, int64_t factor) {
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    const uint8_t *from;
    uint8_t *to;
    SR_TRY(sr_canvas_rewrite(canvas, &from, &to));
    for (int64_t y = 0; y < h; y++, from += 3 * w, to += 3 * w) {
        if (y == 0 || y == h - 1 || w < 3)
            memcpy(to, from, (size_t)(3 * w));
        else
            sharpen_row(from, w, factor, to);
    }
    return SR_OK;
}

// Weights that sum to one; the middle weight absorbs the rounding error.
static void gaussian(int size, double sigma, int32_t *weights) {
    double exact[SR_ADJUST_BLUR_MAX], sum = 0;
    int32_t total = 0;
    for (int i = 0; i < size; i++) {
        const double x = (double)(i - size / 2) / sigma;
        exact[i] = sr_exp(-0.5 * x * x);
        sum += exact[i];
    }
    for (int i = 0; i < size; i++) {
        weights[i] = (int32_t)(exact[i] / sum * (1 << BLUR_BITS) + 0.5);
        total += weights[i];
    }
    weights[size / 2] += (1 << BLUR_BITS) - total;
}

// Vertical pass for one row, with 6 fractional bits.
static void blur_columns(const uint8_t *from, int64_t line, int64_t y, int64_t h,
                         const int32_t *weights, int size, int32_t *out) {
    for (int64_t i = 0; i < line; i++)
        out[i] = 1 << (BLUR_BITS - 7);
    for (int t = 0; t < size; t++) {
        const uint8_t *row = from + line * sr_move_place(y + t - size / 2, 0, h, SR_MOVE_REFLECT);
        for (int64_t i = 0; i < line; i++)
            out[i] += weights[t] * row[i];
    }
    for (int64_t i = 0; i < line; i++)
        out[i] >>= BLUR_BITS - 6;
}

// Pads a row, whose first pixel is at p, with 'side' reflected pixels on each side.
static void pad_row(int32_t *p, int64_t w, int side) {
    for (int64_t i = 1; i <= side; i++) {
        memcpy(p - 3 * i, p + 3 * sr_move_place(-i, 0, w, SR_MOVE_REFLECT), 3 * sizeof *p);
        memcpy(p + 3 * (w - 1 + i), p + 3 * sr_move_place(w - 1 + i, 0, w, SR_MOVE_REFLECT),
               3 * sizeof *p);
    }
}

static void blur_row(const int32_t *in, int64_t w, const int32_t *weights, int size, uint8_t *to) {
    for (int64_t i = 0; i < 3 * w; i++) {
        int64_t sum = 1 << (BLUR_BITS + 5);
        for (int64_t t = 0; t < size; t++)
            sum += (int64_t)weights[t] * in[i + 3 * t];
        to[i] = clip(sum >> (BLUR_BITS + 6));
    }
}

sr_status sr_adjust_blur(sr_canvas *canvas, int size, double sigma) {
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    const int side = size / 2;
    int32_t weights[SR_ADJUST_BLUR_MAX];
    const uint8_t *from;
    uint8_t *to;
    void *scratch;
    SR_TRY(sr_canvas_scratch(canvas, (size_t)(3 * (w + 2 * side)) * sizeof(int32_t), &scratch));
    SR_TRY(sr_canvas_rewrite(canvas, &from, &to));
    gaussian(size, sigma, weights);
    int32_t *line = (int32_t *)scratch + 3 * (ptrdiff_t)side;
    for (int64_t y = 0; y < h; y++, to += 3 * w) {
        blur_columns(from, 3 * w, y, h, weights, size, line);
        pad_row(line, w, side);
        blur_row(scratch, w, weights, size, to);
    }
    return SR_OK;
}
