// SPDX-License-Identifier: Apache-2.0
// Pixels compared with Pillow's and torchvision's: tests/golden/transforms.bin, written by
// tests/golden/make_transforms.py, and with torchvision's and mmsegmentation's photometric
// distortions: photometric.bin, by make_photometric.py. Each entry of the files has a line here,
// and vice versa.
#include <stdio.h>
#include <stdlib.h>

#include "dataio/image/adjust.h"
#include "dataio/image/affine.h"
#include "dataio/image/augment_ops.h"
#include "dataio/image/canvas.h"
#include "dataio/image/photometric.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

enum { MOST_ENTRIES = 100, NAME_BYTES = 32 };

typedef struct entry {
    char name[NAME_BYTES + 1];
    uint32_t width, height;
    const uint8_t *pixels;
    bool seen;
} entry;

static const char *const paths[] = {"tests/golden/transforms.bin", "tests/golden/photometric.bin"};
enum { FILES = sizeof paths / sizeof paths[0] };

static unsigned char *files[FILES];
static entry entries[MOST_ENTRIES];
static size_t entry_count;

static int read_file(const char *path, unsigned char **out) {
    FILE *in = fopen(path, "rb");
    if (!in || fseek(in, 0, SEEK_END) != 0)
        return -1;
    const size_t bytes = (size_t)ftell(in);
    unsigned char *file = *out = malloc(bytes);
    rewind(in);
    const bool whole = file && fread(file, 1, bytes, in) == bytes;
    if (fclose(in) != 0 || !whole || memcmp(file, "SRPICT01", 8) != 0)
        return -1;
    for (size_t at = 8; at < bytes && entry_count < MOST_ENTRIES; entry_count++) {
        entry *e = &entries[entry_count];
        memcpy(e->name, file + at, NAME_BYTES);
        memcpy(&e->width, file + at + NAME_BYTES, 4);
        memcpy(&e->height, file + at + NAME_BYTES + 4, 4);
        e->pixels = file + at + NAME_BYTES + 8;
        at += NAME_BYTES + 8 + (size_t)e->width * e->height * 3;
    }
    return 0;
}

static int read_files(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++)
        if (read_file(paths[i], &files[i]) != 0)
            return -1;
    return 0;
}

static int free_files(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++)
        free(files[i]);
    return 0;
}

// -- how each entry is reproduced --------------------------------------------------------------

static sr_status resize(sr_canvas *c, double filter) {
    return sr_canvas_resize(c, sr_canvas_target_width(c), sr_canvas_target_height(c),
                            (sr_resize_filter)(int)filter, true);
}

static sr_status resize_box(sr_canvas *c, double filter) {
    SR_TRY(sr_canvas_crop(c, &(sr_region){3, 2, 25, 18}));
    return resize(c, filter);
}

static sr_status affine(sr_canvas *c, double bilinear) {
    const sr_warp_style look = {.bilinear = bilinear > 0, .color = {7, 80, 200}};
    const sr_affine how = {
        .degrees = 21, .scale = 1.2, .shear_x = 10, .shear_y = 5, .x = 3, .y = -2};
    return sr_affine_apply(c, &how, &look);
}

static sr_status rotate(sr_canvas *c, double bilinear) {
    return sr_augment_rotate.apply(c, 33, &(sr_warp_style){.bilinear = bilinear > 0});
}

static const sr_warp_style plain;

static sr_status shear_x(sr_canvas *c, double slope) {
    return sr_augment_shear_x.apply(c, slope, &plain);
}

static sr_status shear_y(sr_canvas *c, double slope) {
    return sr_augment_shear_y.apply(c, slope, &plain);
}

static sr_status translate(sr_canvas *c, double x) {
    SR_TRY(sr_augment_translate_x.apply(c, x, &plain));
    return sr_augment_translate_y.apply(c, -3.9, &plain);
}

static sr_status brightness(sr_canvas *c, double factor) {
    return sr_augment_brightness.apply(c, factor - 1, &plain);
}

static sr_status contrast(sr_canvas *c, double factor) {
    return sr_augment_contrast.apply(c, factor - 1, &plain);
}

static sr_status color(sr_canvas *c, double factor) {
    return sr_augment_color.apply(c, factor - 1, &plain);
}

static sr_status sharpness(sr_canvas *c, double factor) {
    return sr_augment_sharpness.apply(c, factor - 1, &plain);
}

static sr_status hue(sr_canvas *c, double turn) {
    uint8_t *p;
    SR_TRY(sr_canvas_pixels(c, &p));
    sr_adjust_hue(p, sr_canvas_width(c) * sr_canvas_height(c), (int)(turn * SR_ADJUST_TURN));
    return SR_OK;
}

static sr_status posterize(sr_canvas *c, double bits) {
    return sr_augment_posterize.apply(c, bits, &plain);
}

static sr_status solarize(sr_canvas *c, double threshold) {
    return sr_augment_solarize.apply(c, threshold, &plain);
}

static sr_status autocontrast(sr_canvas *c, double unused) {
    return sr_augment_autocontrast.apply(c, unused, &plain);
}

static sr_status equalize(sr_canvas *c, double unused) {
    return sr_augment_equalize.apply(c, unused, &plain);
}

static sr_status invert(sr_canvas *c, double unused) {
    return sr_augment_invert.apply(c, unused, &plain);
}

static sr_status blur(sr_canvas *c, double sigma) {
    return sr_adjust_blur(c, sigma > 1 ? 5 : 9, sigma);
}

static sr_status pad(sr_canvas *c, double border) {
    return sr_canvas_pad(c, &(sr_padding){.width = sr_canvas_target_width(c),
                                          .height = sr_canvas_target_height(c),
                                          .x = 3,
                                          .y = 1,
                                          .border = (sr_border)(int)border,
                                          .color = {1, 2, 3}});
}

static sr_status flip(sr_canvas *c, double unused) {
    (void)unused;
    sr_canvas_flip(c);
    return SR_OK;
}

static sr_status vertical_flip(sr_canvas *c, double unused) {
    (void)unused;
    const int64_t w = sr_canvas_width(c), h = sr_canvas_height(c);
    return sr_canvas_warp(
        c, &(sr_warp){.width = w, .height = h, .inverse = {1, 0, 0, 0, -1, (double)h}});
}

// Largest allowed difference of a value. Pillow rotates hues in 256 steps, on values that it has
// rounded.
enum { SAME = 0, LEVEL = 1, TWICE = 2, STEPS = 3, HUES = 6, ALL = 7 };

static const struct golden_case {
    const char *name;
    int tolerance;
    sr_status (*make)(sr_canvas *canvas, double argument);
    double argument;
} cases[] = {
    {"bilinear-13x9", LEVEL, resize, SR_FILTER_BILINEAR},
    {"bilinear-50x41", LEVEL, resize, SR_FILTER_BILINEAR},
    {"bilinear-5x7", LEVEL, resize, SR_FILTER_BILINEAR},
    {"bilinear-box", LEVEL, resize_box, SR_FILTER_BILINEAR},
    {"bicubic-13x9", LEVEL, resize, SR_FILTER_BICUBIC},
    {"bicubic-50x41", LEVEL, resize, SR_FILTER_BICUBIC},
    {"bicubic-5x7", LEVEL, resize, SR_FILTER_BICUBIC},
    {"bicubic-box", LEVEL, resize_box, SR_FILTER_BICUBIC},
    {"fast-13x9", LEVEL, resize, SR_FILTER_FAST},
    {"fast-50x41", LEVEL, resize, SR_FILTER_FAST},
    {"affine-nearest", SAME, affine, 0},
    {"affine-bilinear", LEVEL, affine, 1},
    {"rotate-nearest", SAME, rotate, 0},
    {"rotate-bilinear", LEVEL, rotate, 1},
    {"shear_x+0.3", SAME, shear_x, 0.3},
    {"shear_y+0.3", SAME, shear_y, 0.3},
    {"shear_x-0.2", SAME, shear_x, -0.2},
    {"shear_y-0.2", SAME, shear_y, -0.2},
    {"translate", SAME, translate, 5.6},
    {"brightness-0.0", LEVEL, brightness, 0},
    {"brightness-0.6", LEVEL, brightness, 0.6},
    {"brightness-1.7", LEVEL, brightness, 1.7},
    {"contrast-0.0", LEVEL, contrast, 0},
    {"contrast-0.6", LEVEL, contrast, 0.6},
    {"contrast-1.7", LEVEL, contrast, 1.7},
    {"color-0.0", LEVEL, color, 0},
    {"color-0.6", LEVEL, color, 0.6},
    {"color-1.7", LEVEL, color, 1.7},
    {"sharpness-0.0", LEVEL, sharpness, 0},
    {"sharpness-0.6", LEVEL, sharpness, 0.6},
    {"sharpness-1.7", LEVEL, sharpness, 1.7},
    {"hue+0.1", HUES, hue, 0.1},
    {"hue-0.3", HUES, hue, -0.3},
    {"posterize-3", SAME, posterize, 3},
    {"solarize-100", SAME, solarize, 100},
    {"autocontrast", SAME, autocontrast, 0},
    {"equalize", SAME, equalize, 0},
    {"invert", SAME, invert, 0},
    {"grayscale", SAME, color, 0},
    {"blur-5-1.3", LEVEL, blur, 1.3},
    {"blur-9-0.5", LEVEL, blur, 0.5},
    {"pad-edge", SAME, pad, SR_BORDER_EDGE},
    {"pad-reflect", SAME, pad, SR_BORDER_REFLECT},
    {"pad-color", SAME, pad, SR_BORDER_COLOR},
    {"flip", SAME, flip, 0},
    {"vertical_flip", SAME, vertical_flip, 0},
};

static entry *find(const char *name) {
    for (size_t i = 0; i < entry_count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    fail_msg("no golden file has an entry '%s'", name);
    return NULL;
}

static int worst(const entry *e, const uint8_t *got) {
    int most = 0;
    for (size_t i = 0; i < (size_t)e->width * e->height * 3; i++) {
        const int off = abs(e->pixels[i] - got[i]);
        most = off > most ? off : most;
    }
    return most;
}

static void test_against_others(void **state) {
    (void)state;
    const sr_canvas_identity who = {0};
    entry *in = find("input");
    sr_canvas *canvas;
    assert_ok(sr_canvas_create(1, &canvas));
    in->seen = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        entry *e = find(cases[i].name);
        const sr_encoded picture = {.data = in->pixels,
                                    .bytes = (size_t)in->width * in->height * 3,
                                    .raw = true,
                                    .width = in->width,
                                    .height = in->height,
                                    .channels = 3};
        uint8_t *got = sr_alloc((size_t)e->width * e->height * 3, "picture");
        e->seen = true;
        assert_ok(sr_canvas_open(canvas, &picture, &who, e->height, e->width, got));
        assert_ok(cases[i].make(canvas, cases[i].argument));
        assert_ok(sr_canvas_finish(canvas));
        const int off = worst(e, got);
        if (off > cases[i].tolerance)
            fail_msg("%s: off by %d levels, more than %d", e->name, off, cases[i].tolerance);
        sr_free(got);
    }
    sr_canvas_free(canvas);
}

// -- photometric distortion --------------------------------------------------------------------

#define BLEND SR_PHOTOMETRIC_BLEND
#define LINEAR SR_PHOTOMETRIC_LINEAR

// All changes but that of the hue, the contrast first or last.
#define CHANGE(how, when, levels, factor, more)                                                    \
    .rule = how, .brighten = true, .contrast_##when = true, .saturate = true,                      \
    .brightness = levels, .contrast = factor, .saturation = more

// torchvision cuts to a whole level after each change, so each may be off by a level, which the
// next ones scale; near grey, a level is several hues. The fp32 of OpenCV's HSV rounds halves
// either way.
static const struct photometric_case {
    const char *name;
    int tolerance;
    sr_photometric change;
} photometric_cases[] = {
    {"torchvision-brightness+0.875", LEVEL, {.rule = BLEND, .brighten = true, .brightness = 0.875}},
    {"torchvision-brightness+1.12", LEVEL, {.rule = BLEND, .brighten = true, .brightness = 1.12}},
    {"torchvision-contrast-0.53", LEVEL, {.rule = BLEND, .contrast_last = true, .contrast = 0.53}},
    {"torchvision-contrast-1.47", LEVEL, {.rule = BLEND, .contrast_first = true, .contrast = 1.47}},
    {"torchvision-saturation-0.53", LEVEL, {.rule = BLEND, .saturate = true, .saturation = 0.53}},
    {"torchvision-saturation-1.47", LEVEL, {.rule = BLEND, .saturate = true, .saturation = 1.47}},
    {"torchvision-hue-18", LEVEL, {.rule = BLEND, .turn = true, .hue = -0.1}},
    {"torchvision-hue+7", LEVEL, {.rule = BLEND, .turn = true, .hue = 7.0 / 180}},
    {"torchvision-hue+90", LEVEL, {.rule = BLEND, .turn = true, .hue = 0.5}},
    {"torchvision-before", STEPS, {CHANGE(BLEND, first, 0.875, 1.3, 0.8)}},
    {"torchvision-after", STEPS, {CHANGE(BLEND, last, 0.875, 1.3, 0.8)}},
    {"torchvision-all", ALL, {CHANGE(BLEND, last, 1.12, 1.4, 1.2), .turn = true, .hue = 9.0 / 180}},
    {"torchvision-channels",
     STEPS,
     {CHANGE(BLEND, last, 0.9, 1.3, 0.8), .channels = {2, 0, 1}, .reorder = true}},
    {"mmseg-brightness-31.7", SAME, {.rule = LINEAR, .brighten = true, .brightness = -31.7}},
    {"mmseg-brightness+20.2", SAME, {.rule = LINEAR, .brighten = true, .brightness = 20.2}},
    {"mmseg-contrast-0.53", SAME, {.rule = LINEAR, .contrast_last = true, .contrast = 0.53}},
    {"mmseg-contrast-1.47", SAME, {.rule = LINEAR, .contrast_first = true, .contrast = 1.47}},
    {"mmseg-saturation-0.53", SAME, {.rule = LINEAR, .saturate = true, .saturation = 0.53}},
    {"mmseg-saturation-1.47", SAME, {.rule = LINEAR, .saturate = true, .saturation = 1.47}},
    {"mmseg-hue-18", LEVEL, {.rule = LINEAR, .turn = true, .hue = -0.1}},
    {"mmseg-hue+7", LEVEL, {.rule = LINEAR, .turn = true, .hue = 7.0 / 180}},
    {"mmseg-hue+90", SAME, {.rule = LINEAR, .turn = true, .hue = 0.5}},
    {"mmseg-before", LEVEL, {CHANGE(LINEAR, first, -31.7, 1.3, 0.8)}},
    {"mmseg-after", SAME, {CHANGE(LINEAR, last, -31.7, 1.3, 0.8)}},
    {"mmseg-all", TWICE, {CHANGE(LINEAR, last, 20.2, 1.4, 1.2), .turn = true, .hue = 9.0 / 180}},
};

static void test_photometric(void **state) {
    (void)state;
    entry *in = find("photometric-input");
    const size_t bytes = (size_t)in->width * in->height * 3;
    uint8_t *got = sr_alloc(bytes, "picture");
    in->seen = true;
    for (size_t i = 0; i < sizeof photometric_cases / sizeof photometric_cases[0]; i++) {
        const struct photometric_case *c = &photometric_cases[i];
        entry *e = find(c->name);
        e->seen = true;
        memcpy(got, in->pixels, bytes);
        sr_photometric_apply(&c->change, got, (int64_t)in->width * in->height);
        const int off = worst(e, got);
        if (off > c->tolerance)
            fail_msg("%s: off by %d levels, more than %d", e->name, off, c->tolerance);
    }
    sr_free(got);
}

static void test_complete(void **state) {
    (void)state;
    for (size_t i = 0; i < entry_count; i++)
        if (!entries[i].seen)
            fail_msg("no case reproduces '%s'", entries[i].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_others),
                                       cmocka_unit_test(test_photometric),
                                       cmocka_unit_test(test_complete)};
    return cmocka_run_group_tests(tests, read_files, free_files);
}
