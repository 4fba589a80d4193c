// SPDX-License-Identifier: Apache-2.0
// Photometric distortion (photometric.h), in integers but for tables of 256 entries.
//
// Sources: torchvision's RandomPhotometricDistort; mmsegmentation's PhotoMetricDistortion, with the
// 8-bit HSV of OpenCV's documentation of color conversions: V is the largest channel, S and the
// whole hue H (0..179) are rounded through its tables of 12 fractional bits. test_transform_golden
// compares both.
#include "dataio/image/photometric.h"

#include <string.h>

#include "dataio/image/adjust.h"

enum { HSV_BITS = 12, SECTOR = SR_PHOTOMETRIC_HUES / 6 };

static int64_t rounded(double v) {
    return (int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

// numpy's: in fp32, cut to a whole level.
static void linear_table(double factor, double summand, uint8_t table[256]) {
    for (int v = 0; v < 256; v++) {
        const float y = (float)v * (float)factor + (float)summand;
        table[v] = y <= 0 ? 0 : y >= 255 ? 255 : (uint8_t)y;
    }
}

static void linear(uint8_t *p, int64_t pixels, double factor, double summand) {
    uint8_t table[256];
    linear_table(factor, summand, table);
    for (int64_t i = 0; i < 3 * pixels; i++)
        p[i] = table[p[i]];
}

// -- 8-bit HSV ---------------------------------------------------------------------------------

typedef struct hsv {
    int h, s, v;
} hsv;

// 255 / v and 30 / range with 12 fractional bits; no quotient is half way between two numbers.
typedef struct hsv_tables {
    int by_value[256], by_range[256];
} hsv_tables;

static void make_tables(hsv_tables *t) {
    t->by_value[0] = t->by_range[0] = 0;
    for (int i = 1; i < 256; i++) {
        t->by_value[i] = ((255 << HSV_BITS) + i / 2) / i;
        t->by_range[i] = ((SECTOR << HSV_BITS) + i / 2) / i;
    }
}

static hsv to_hsv(const hsv_tables *t, const uint8_t *p) {
    const int r = p[0], g = p[1], b = p[2], half = 1 << (HSV_BITS - 1);
    int high = r > g ? r : g, low = r < g ? r : g;
    high = b > high ? b : high;
    low = b < low ? b : low;
    const int range = high - low;
    const int side = high == r ? g - b : high == g ? b - r + 2 * range : r - g + 4 * range;
    const int h = (side * t->by_range[range] + half) >> HSV_BITS;
    return (hsv){.h = h < 0 ? h + SR_PHOTOMETRIC_HUES : h,
                 .s = (range * t->by_value[high] + half) >> HSV_BITS,
                 .v = high};
}

static void from_hsv(hsv c, uint8_t *p) {
    const int part = c.h % SECTOR, whole = 255 * SECTOR;
    const uint8_t v = (uint8_t)c.v, low = (uint8_t)((c.v * (255 - c.s) + 127) / 255);
    const uint8_t down = (uint8_t)((c.v * (whole - c.s * part) + whole / 2) / whole);
    const uint8_t up = (uint8_t)((c.v * (whole - c.s * (SECTOR - part)) + whole / 2) / whole);
    const uint8_t wheel[6][3] = {{v, up, low},   {down, v, low}, {low, v, up},
                                 {low, down, v}, {up, low, v},   {v, low, down}};
    memcpy(p, wheel[c.h / SECTOR], 3);
}

static void linear_saturation(uint8_t *p, int64_t pixels, double factor) {
    hsv_tables tables;
    uint8_t scaled[256];
    make_tables(&tables);
    linear_table(factor, 0, scaled);
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        hsv c = to_hsv(&tables, p);
        c.s = scaled[c.s];
        from_hsv(c, p);
    }
}

static void linear_hue(uint8_t *p, int64_t pixels, double turn) {
    hsv_tables tables;
    make_tables(&tables);
    const int64_t steps = rounded(turn * SR_PHOTOMETRIC_HUES) % SR_PHOTOMETRIC_HUES;
    const int shift = (int)steps + SR_PHOTOMETRIC_HUES; // positive
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        hsv c = to_hsv(&tables, p);
        c.h = (c.h + shift) % SR_PHOTOMETRIC_HUES;
        from_hsv(c, p);
    }
}

// -- both rules --------------------------------------------------------------------------------

static void brighten(const sr_photometric *c, uint8_t *p, int64_t pixels) {
    if (c->rule == SR_PHOTOMETRIC_BLEND)
        sr_adjust_brightness(p, pixels, sr_adjust_factor(c->brightness));
    else
        linear(p, pixels, 1, c->brightness);
}

static void contrast(const sr_photometric *c, uint8_t *p, int64_t pixels) {
    if (c->rule == SR_PHOTOMETRIC_BLEND)
        sr_adjust_contrast(p, pixels, sr_adjust_factor(c->contrast));
    else
        linear(p, pixels, c->contrast, 0);
}

static void saturate(const sr_photometric *c, uint8_t *p, int64_t pixels) {
    if (c->rule == SR_PHOTOMETRIC_BLEND)
        sr_adjust_saturation(p, pixels, sr_adjust_factor(c->saturation));
    else
        linear_saturation(p, pixels, c->saturation);
}

static void turn(const sr_photometric *c, uint8_t *p, int64_t pixels) {
    if (c->rule == SR_PHOTOMETRIC_BLEND)
        sr_adjust_hue(p, pixels, (int)rounded(c->hue * SR_ADJUST_TURN));
    else
        linear_hue(p, pixels, c->hue);
}

static void reorder(const uint32_t channels[3], uint8_t *p, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++, p += 3) {
        const uint8_t rgb[3] = {p[0], p[1], p[2]};
        for (int c = 0; c < 3; c++)
            p[c] = rgb[channels[c]];
    }
}

void sr_photometric_apply(const sr_photometric *change, uint8_t *rgb, int64_t pixels) {
    if (change->brighten)
        brighten(change, rgb, pixels);
    if (change->contrast_first)
        contrast(change, rgb, pixels);
    if (change->saturate)
        saturate(change, rgb, pixels);
    if (change->turn)
        turn(change, rgb, pixels);
    if (change->contrast_last)
        contrast(change, rgb, pixels);
    if (change->reorder)
        reorder(change->channels, rgb, pixels);
}
