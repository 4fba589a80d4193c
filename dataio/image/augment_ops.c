// SPDX-License-Identifier: Apache-2.0
// Operations with a magnitude, as torchvision's autoaugment applies them (augment_ops.h).
//
// Geometric operations warp the canvas, including boxes and masks. Shears keep the first pixel
// fixed, not the centre, as in the code of the paper (AutoAugment).
#include "dataio/image/augment_ops.h"

#include "dataio/image/adjust.h"

typedef sr_augment_op op;

static sr_status warp_by(sr_canvas *canvas, const double inverse[6], const sr_warp_style *style) {
    sr_warp warp = {.width = sr_canvas_width(canvas),
                    .height = sr_canvas_height(canvas),
                    .bilinear = style->bilinear};
    for (int i = 0; i < 6; i++)
        warp.inverse[i] = inverse[i];
    for (int c = 0; c < 3; c++)
        warp.color[c] = style->color[c];
    return sr_canvas_warp(canvas, &warp);
}

static sr_status identity(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)canvas, (void)m, (void)style;
    return SR_OK;
}

static sr_status shear_x(sr_canvas *canvas, double m, const sr_warp_style *style) {
    return warp_by(canvas, (const double[]){1, m, 0, 0, 1, 0}, style);
}

static sr_status shear_y(sr_canvas *canvas, double m, const sr_warp_style *style) {
    return warp_by(canvas, (const double[]){1, 0, 0, m, 1, 0}, style);
}

// By whole pixels, truncated towards zero.
static sr_status translate_x(sr_canvas *canvas, double m, const sr_warp_style *style) {
    return warp_by(canvas, (const double[]){1, 0, -(double)(int64_t)m, 0, 1, 0}, style);
}

static sr_status translate_y(sr_canvas *canvas, double m, const sr_warp_style *style) {
    return warp_by(canvas, (const double[]){1, 0, 0, 0, 1, -(double)(int64_t)m}, style);
}

static sr_status rotate(sr_canvas *canvas, double m, const sr_warp_style *style) {
    return sr_affine_apply(canvas, &(sr_affine){.degrees = -m, .scale = 1}, style);
}

static sr_status pixels_of(sr_canvas *canvas, uint8_t **p, int64_t *pixels) {
    *pixels = sr_canvas_width(canvas) * sr_canvas_height(canvas);
    return sr_canvas_pixels(canvas, p);
}

static sr_status adjust(sr_canvas *canvas, double m, void (*how)(uint8_t *, int64_t, int64_t)) {
    uint8_t *p;
    int64_t pixels;
    SR_TRY(pixels_of(canvas, &p, &pixels));
    how(p, pixels, sr_adjust_factor(1 + m));
    return SR_OK;
}

static sr_status brightness(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)style;
    return adjust(canvas, m, sr_adjust_brightness);
}

static sr_status color(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)style;
    return adjust(canvas, m, sr_adjust_saturation);
}

static sr_status contrast(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)style;
    return adjust(canvas, m, sr_adjust_contrast);
}

static sr_status sharpness(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)style;
    return sr_adjust_sharpness(canvas, sr_adjust_factor(1 + m));
}

static sr_status posterize(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)style;
    uint8_t *p;
    int64_t pixels;
    SR_TRY(pixels_of(canvas, &p, &pixels));
    sr_adjust_posterize(p, pixels, (int)(m + 0.5));
    return SR_OK;
}

static sr_status solarize(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)style;
    uint8_t *p;
    int64_t pixels;
    SR_TRY(pixels_of(canvas, &p, &pixels));
    sr_adjust_solarize(p, pixels, m > (int)m ? (int)m + 1 : (int)m);
    return SR_OK;
}

static sr_status autocontrast(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)m, (void)style;
    uint8_t *p;
    int64_t pixels;
    SR_TRY(pixels_of(canvas, &p, &pixels));
    sr_adjust_autocontrast(p, pixels);
    return SR_OK;
}

static sr_status equalize(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)m, (void)style;
    uint8_t *p;
    int64_t pixels;
    SR_TRY(pixels_of(canvas, &p, &pixels));
    sr_adjust_equalize(p, pixels);
    return SR_OK;
}

static sr_status invert(sr_canvas *canvas, double m, const sr_warp_style *style) {
    (void)m;
    return solarize(canvas, 0, style);
}

const op sr_augment_identity = {"identity", false, identity};
const op sr_augment_shear_x = {"shear_x", true, shear_x};
const op sr_augment_shear_y = {"shear_y", true, shear_y};
const op sr_augment_translate_x = {"translate_x", true, translate_x};
const op sr_augment_translate_y = {"translate_y", true, translate_y};
const op sr_augment_rotate = {"rotate", true, rotate};
const op sr_augment_brightness = {"brightness", true, brightness};
const op sr_augment_color = {"color", true, color};
const op sr_augment_contrast = {"contrast", true, contrast};
const op sr_augment_sharpness = {"sharpness", true, sharpness};
const op sr_augment_posterize = {"posterize", false, posterize};
const op sr_augment_solarize = {"solarize", false, solarize};
const op sr_augment_autocontrast = {"autocontrast", false, autocontrast};
const op sr_augment_equalize = {"equalize", false, equalize};
const op sr_augment_invert = {"invert", false, invert};

static sr_status apply_magnitude(sr_canvas *canvas, const sr_augment_range *range, double m,
                                 bool negative, const sr_warp_style *style) {
    if (range->unit == SR_AUGMENT_OF_WIDTH)
        m *= (double)sr_canvas_width(canvas);
    if (range->unit == SR_AUGMENT_OF_HEIGHT)
        m *= (double)sr_canvas_height(canvas);
    return range->op->apply(canvas, negative && range->op->is_signed ? -m : m, style);
}

sr_status sr_augment_apply(sr_canvas *canvas, const sr_augment_range *range, int level, int levels,
                           bool negative, const sr_warp_style *style) {
    const double m = range->low + (range->high - range->low) * level / (levels - 1);
    return apply_magnitude(canvas, range, m, negative, style);
}

sr_status sr_augment_apply_share(sr_canvas *canvas, const sr_augment_range *range, double share,
                                 bool negative, const sr_warp_style *style) {
    const double m = range->low + (range->high - range->low) * share;
    return apply_magnitude(canvas, range, m, negative, style);
}

// -- ranges ------------------------------------------------------------------------------------

#define ABSOLUTE SR_AUGMENT_ABSOLUTE
#define OF_WIDTH SR_AUGMENT_OF_WIDTH
#define OF_HEIGHT SR_AUGMENT_OF_HEIGHT

// AutoAugment translates by up to 150 pixels of 331.
const sr_augment_range sr_augment_ranges[SR_AUGMENT_OPS] = {
    [SR_AUGMENT_IDENTITY] = {&sr_augment_identity, 0, 0, ABSOLUTE},
    [SR_AUGMENT_SHEAR_X] = {&sr_augment_shear_x, 0, 0.3, ABSOLUTE},
    [SR_AUGMENT_SHEAR_Y] = {&sr_augment_shear_y, 0, 0.3, ABSOLUTE},
    [SR_AUGMENT_TRANSLATE_X] = {&sr_augment_translate_x, 0, 150.0 / 331, OF_WIDTH},
    [SR_AUGMENT_TRANSLATE_Y] = {&sr_augment_translate_y, 0, 150.0 / 331, OF_HEIGHT},
    [SR_AUGMENT_ROTATE] = {&sr_augment_rotate, 0, 30, ABSOLUTE},
    [SR_AUGMENT_BRIGHTNESS] = {&sr_augment_brightness, 0, 0.9, ABSOLUTE},
    [SR_AUGMENT_COLOR] = {&sr_augment_color, 0, 0.9, ABSOLUTE},
    [SR_AUGMENT_CONTRAST] = {&sr_augment_contrast, 0, 0.9, ABSOLUTE},
    [SR_AUGMENT_SHARPNESS] = {&sr_augment_sharpness, 0, 0.9, ABSOLUTE},
    [SR_AUGMENT_POSTERIZE] = {&sr_augment_posterize, 8, 4, ABSOLUTE},
    [SR_AUGMENT_SOLARIZE] = {&sr_augment_solarize, 255, 0, ABSOLUTE},
    [SR_AUGMENT_AUTOCONTRAST] = {&sr_augment_autocontrast, 0, 0, ABSOLUTE},
    [SR_AUGMENT_EQUALIZE] = {&sr_augment_equalize, 0, 0, ABSOLUTE},
    [SR_AUGMENT_INVERT] = {&sr_augment_invert, 0, 0, ABSOLUTE},
};
