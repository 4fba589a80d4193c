// SPDX-License-Identifier: Apache-2.0
// The canvas: masks show what the picture shows, however it is stored and whether geometry is noted
// or done; borders of sheets; geometry that leads nowhere.
#include <math.h>

#include "dataio/canvas.h"
#include "dataio/decode.h"
#include "dataio/zstd_frame.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/test_support.h"

enum { SIDE = 32 };

static const uint8_t *pixel(const sr_pixels *p, int64_t x, int64_t y) {
    return p->data + 3 * ((y - p->y) * p->width + x - p->x);
}

// The class that a mask shows at a pixel: the one in which the pixel's centre lies.
static int64_t seen_at(int64_t i, int64_t count, int64_t begin, int64_t size) {
    return begin + (2 * i + 1) * size / (2 * count);
}

// Every pixel of the mask has a number of its own: crop, resize and flip, noted or done, however
// the picture is stored, show those in which the centres lie.
static void test_mask_geometry(void **state) {
    (void)state;
    enum { W = 14, H = 12 };
    const sr_region crop = {2, 1, 7, 9};
    uint8_t stored[W * H], rgb[3 * W * H], target[SIDE * SIDE * 3], seen[SIDE * SIDE], *pixels;
    const sr_canvas_identity who = {0};
    sr_zstd zstd = {0};
    void *frame = NULL;
    size_t capacity = 0, bytes;
    sr_decoder *decoder;
    sr_canvas *canvas;
    for (int i = 0; i < W * H; i++)
        stored[i] = rgb[3 * (size_t)i] = rgb[3 * (size_t)i + 1] = rgb[3 * (size_t)i + 2] =
            (uint8_t)i;
    assert_ok(sr_decoder_create(&decoder));
    assert_ok(sr_canvas_create(1, &canvas));
    assert_ok(sr_zstd_compress(&zstd, stored, sizeof stored, &frame, &capacity, &bytes));
    for (int code = 1; code <= 8; code++) {
        const sr_encoded e = {.data = rgb,
                              .bytes = sizeof rgb,
                              .raw = true,
                              .height = H,
                              .width = W,
                              .channels = 3,
                              .orientation = code};
        int64_t w, h;
        sr_pixels upright;
        assert_ok(sr_decoder_open(decoder, &e, &w, &h));
        assert_ok(sr_decoder_read(decoder, &(sr_region){0, 0, w, h}, 1, &upright));
        for (int done = 0; done <= 3; done++) {
            assert_ok(sr_canvas_open(canvas, &e, &who, SIDE, SIDE, target));
            assert_ok(sr_canvas_open_mask(canvas, frame, bytes, seen));
            if (done & 1)
                assert_ok(sr_canvas_pixels(canvas, &pixels));
            assert_ok(sr_canvas_crop(canvas, &crop));
            if (done & 2)
                assert_ok(sr_canvas_pixels(canvas, &pixels));
            assert_ok(sr_canvas_resize(canvas, SIDE, SIDE, SR_FILTER_BILINEAR, true));
            sr_canvas_flip(canvas);
            assert_ok(sr_canvas_finish(canvas));
            for (int i = 0; i < SIDE * SIDE; i++)
                assert_int_equal(*pixel(&upright,
                                        seen_at(SIDE - 1 - i % SIDE, SIDE, crop.x, crop.width),
                                        seen_at(i / SIDE, SIDE, crop.y, crop.height)),
                                 seen[i]);
        }
    }
    const sr_encoded other = {.data = rgb,
                              .bytes = sizeof rgb - 3 * W,
                              .raw = true,
                              .height = H - 1,
                              .width = W,
                              .channels = 3};
    assert_ok(sr_canvas_open(canvas, &other, &who, SIDE, SIDE, target));
    assert_status(SR_E_DATA, sr_canvas_open_mask(canvas, frame, bytes, seen));
    assert_message("14 x 11");
    sr_free(frame);
    sr_zstd_release(&zstd);
    sr_decoder_free(decoder);
    sr_canvas_free(canvas);
}

// Where pixel i of a sheet comes from on a side of n; -1: nowhere.
static int64_t laid(int64_t i, int64_t n, sr_border border) {
    if (border == SR_BORDER_EDGE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    while (border == SR_BORDER_REFLECT && (i < 0 || i >= n) && n > 1)
        i = i < 0 ? -i : 2 * (n - 1) - i;
    if (border == SR_BORDER_REFLECT && n == 1)
        return 0;
    return i < 0 || i >= n ? -1 : i;
}

// Sheets of any size and place, with every border: each pixel where the formula says.
static void test_sheets(void **state) {
    (void)state;
    enum { MOST = 9, SHEET = 24 };
    uint8_t rgb[3 * MOST * MOST], target[3 * SHEET * SHEET];
    sr_canvas *canvas;
    assert_ok(sr_canvas_create(1, &canvas));
    for (int i = 0; i < MOST * MOST; i++)
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] = (uint8_t)(i + 1);
    for (uint32_t k = 0; k < 1500; k++) {
        sr_rng rng;
        sr_rng_init(&rng, 21, k, 0, 0);
        const int64_t w = 1 + sr_rng_below(&rng, MOST), h = 1 + sr_rng_below(&rng, MOST);
        const sr_placing p = {.width = 1 + sr_rng_below(&rng, SHEET),
                              .height = 1 + sr_rng_below(&rng, SHEET),
                              .x = (int64_t)sr_rng_below(&rng, 60) - 30,
                              .y = (int64_t)sr_rng_below(&rng, 60) - 30,
                              .border = (sr_border)sr_rng_below(&rng, 3),
                              .color = {201, 202, 203}};
        const sr_encoded e = {.data = rgb,
                              .bytes = (size_t)(3 * w * h),
                              .raw = true,
                              .height = h,
                              .width = w,
                              .channels = 3};
        assert_ok(sr_canvas_open(canvas, &e, &(sr_canvas_identity){0}, p.height, p.width, target));
        assert_ok(sr_canvas_place(canvas, &p));
        assert_ok(sr_canvas_finish(canvas));
        for (int64_t i = 0; i < p.width * p.height; i++) {
            const int64_t x = laid(i % p.width - p.x, w, p.border);
            const int64_t y = laid(i / p.width - p.y, h, p.border);
            assert_int_equal(x < 0 || y < 0 ? 202 : y * w + x + 1, target[3 * i + 1]);
        }
    }
    sr_canvas_free(canvas);
}

// A warp that leads nowhere is refused, and so is a sheet beyond all limits.
static void test_bad_geometry(void **state) {
    (void)state;
    static uint8_t rgb[3 * 10 * 8], target[SIDE * SIDE * 3];
    const sr_encoded e = {
        .data = rgb, .bytes = sizeof rgb, .raw = true, .height = 8, .width = 10, .channels = 3};
    sr_canvas *canvas;
    assert_ok(sr_canvas_create(1, &canvas));
    assert_ok(sr_canvas_open(canvas, &e, &(sr_canvas_identity){0}, SIDE, SIDE, target));
    const sr_warp flat = {.inverse = {1, 1, 0, 1, 1, 0}, .width = 10, .height = 10};
    const sr_warp far = {.inverse = {1e9, 0, 0, 0, 1, 0}, .width = 10, .height = 10};
    const sr_warp unknown = {.inverse = {NAN, 0, 0, 0, 1, 0}, .width = 10, .height = 10};
    assert_status(SR_E_ARGUMENT, sr_canvas_warp(canvas, &flat));
    assert_status(SR_E_ARGUMENT, sr_canvas_warp(canvas, &far));
    assert_status(SR_E_ARGUMENT, sr_canvas_warp(canvas, &unknown));
    assert_message("cannot warp");
    const sr_placing huge = {.width = 1 << 20, .height = 1 << 20};
    assert_status(SR_E_ARGUMENT, sr_canvas_place(canvas, &huge));
    sr_canvas_free(canvas);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_geometry),
        cmocka_unit_test(test_sheets),
        cmocka_unit_test(test_bad_geometry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
