// SPDX-License-Identifier: Apache-2.0
// The canvas: masks stay aligned with their pictures, however those are stored and whether geometry
// is deferred or already applied; borders of sheets; geometry that maps to nowhere.
#include <math.h>

#include "dataio/image/canvas.h"
#include "dataio/jpeg/decode.h"
#include "dataio/record/zstd_frame.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"

enum { SIDE = 32 };

static const uint8_t *pixel(const sr_pixels *p, int64_t x, int64_t y) {
    return p->data + 3 * ((y - p->y) * p->width + x - p->x);
}

// The source pixel that a mask shows at pixel i: the one that contains the pixel's centre.
static int64_t seen_at(int64_t i, int64_t count, int64_t begin, int64_t size) {
    return begin + (2 * i + 1) * size / (2 * count);
}

// A raw picture and its mask, in which every pixel has a distinct number.
enum { W = 14, H = 12 };

typedef struct numbered {
    uint8_t rgb[3 * W * H], seen[SIDE * SIDE], target[3 * SIDE * SIDE];
    void *frame;
    size_t frame_bytes;
    sr_encoded picture;
    sr_canvas *canvas;
} numbered;

static void numbered_make(numbered *n) {
    sr_zstd zstd = {0};
    size_t capacity = 0;
    uint8_t mask[W * H];
    *n = (numbered){
        .picture = {.bytes = sizeof n->rgb, .raw = true, .height = H, .width = W, .channels = 3}};
    n->picture.data = n->rgb;
    for (size_t i = 0; i < sizeof mask; i++) {
        mask[i] = (uint8_t)i;
        memset(n->rgb + 3 * i, (int)i, 3);
    }
    assert_ok(sr_zstd_compress(&zstd, mask, sizeof mask, &n->frame, &capacity, &n->frame_bytes));
    sr_zstd_release(&zstd);
    assert_ok(sr_canvas_create(1, &n->canvas));
}

static void numbered_free(numbered *n) {
    sr_canvas_free(n->canvas);
    sr_free(n->frame);
}

static const sr_region crop = {2, 1, 7, 9};

// Crop, resize and flip; 'done' is the operation before which the pixels are requested.
static void change(numbered *n, int done) {
    uint8_t *pixels;
    const sr_canvas_identity who = {0};
    assert_ok(sr_canvas_open(n->canvas, &n->picture, &who, SIDE, SIDE, n->target));
    assert_ok(sr_canvas_open_mask(n->canvas, n->frame, n->frame_bytes, n->seen));
    if (done & 1)
        assert_ok(sr_canvas_pixels(n->canvas, &pixels));
    assert_ok(sr_canvas_crop(n->canvas, &crop));
    if (done & 2)
        assert_ok(sr_canvas_pixels(n->canvas, &pixels));
    assert_ok(sr_canvas_resize(n->canvas, SIDE, SIDE, SR_FILTER_BILINEAR, true));
    sr_canvas_flip(n->canvas);
    assert_ok(sr_canvas_finish(n->canvas));
}

// Deferred or applied, however the picture is stored: nearest pixels by their centres.
static void test_mask_geometry(void **state) {
    (void)state;
    numbered n;
    sr_decoder *decoder;
    numbered_make(&n);
    assert_ok(sr_decoder_create(&decoder));
    for (n.picture.orientation = 1; n.picture.orientation <= 8; n.picture.orientation++) {
        int64_t w, h;
        sr_pixels upright;
        assert_ok(sr_decoder_open(decoder, &n.picture, &w, &h));
        assert_ok(sr_decoder_read(decoder, &(sr_region){0, 0, w, h}, 1, &upright));
        for (int done = 0; done <= 3; done++) {
            change(&n, done);
            for (int i = 0; i < SIDE * SIDE; i++) {
                const int64_t x = seen_at(SIDE - 1 - i % SIDE, SIDE, crop.x, crop.width);
                const int64_t y = seen_at(i / SIDE, SIDE, crop.y, crop.height);
                assert_int_equal(*pixel(&upright, x, y), n.seen[i]);
            }
        }
    }
    sr_decoder_free(decoder);
    numbered_free(&n);
}

// Flips, crops and a resize in an order of their own for each number.
static void change_by(sr_canvas *canvas, uint32_t i) {
    uint8_t *pixels;
    if (i & 16)
        sr_canvas_flip(canvas);
    assert_ok(sr_canvas_crop(canvas, &crop));
    if (i & 32)
        assert_ok(sr_canvas_pixels(canvas, &pixels));
    assert_ok(sr_canvas_resize(canvas, 2 * SIDE, 3 * SIDE, SR_FILTER_BILINEAR, true));
    assert_ok(sr_canvas_crop(canvas, &(sr_region){9, 30, SIDE, SIDE}));
    if (i & 64)
        sr_canvas_flip(canvas);
    if (i & 128)
        assert_ok(sr_canvas_pixels(canvas, &pixels));
}

// The counts of a region are those of the mask that is rendered, whatever was deferred.
static void test_mask_counts(void **state) {
    (void)state;
    numbered n;
    numbered_make(&n);
    for (uint32_t i = 0; i < 200; i++) {
        const sr_canvas_identity who = {0};
        int64_t expected[256] = {0}, count[256];
        sr_rng rng;
        sr_rng_init(&rng, 4, i, 0, 0);
        n.picture.orientation = 1 + (int)(i % 8);
        sr_region part = {.width = 1 + sr_rng_below(&rng, SIDE),
                          .height = 1 + sr_rng_below(&rng, SIDE)};
        part.x = sr_rng_below(&rng, (uint32_t)(SIDE - part.width) + 1);
        part.y = sr_rng_below(&rng, (uint32_t)(SIDE - part.height) + 1);
        assert_ok(sr_canvas_open(n.canvas, &n.picture, &who, SIDE, SIDE, n.target));
        assert_status(SR_E_ARGUMENT, sr_canvas_count_mask(n.canvas, &part, count));
        assert_ok(sr_canvas_open_mask(n.canvas, n.frame, n.frame_bytes, n.seen));
        assert_status(SR_E_ARGUMENT,
                      sr_canvas_count_mask(n.canvas, &(sr_region){0, 0, 1, W + 1}, count));
        change_by(n.canvas, i);
        assert_ok(sr_canvas_count_mask(n.canvas, &part, count));
        assert_ok(sr_canvas_finish(n.canvas));
        for (int64_t y = part.y; y < part.y + part.height; y++)
            for (int64_t x = part.x; x < part.x + part.width; x++)
                expected[n.seen[y * SIDE + x]]++;
        assert_memory_equal(expected, count, sizeof count);
    }
    numbered_free(&n);
}

static void test_mask_of_another_size(void **state) {
    (void)state;
    numbered n;
    const sr_canvas_identity who = {0};
    numbered_make(&n);
    n.picture.height--;
    n.picture.bytes -= (size_t)3 * W;
    assert_ok(sr_canvas_open(n.canvas, &n.picture, &who, SIDE, SIDE, n.target));
    assert_status(SR_E_DATA, sr_canvas_open_mask(n.canvas, n.frame, n.frame_bytes, n.seen));
    assert_message("14 x 11");
    numbered_free(&n);
}

// The source of a sheet's pixel i along a side of length n; -1: none.
static int64_t laid(int64_t i, int64_t n, sr_border border) {
    if (border == SR_BORDER_EDGE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    while (border == SR_BORDER_REFLECT && (i < 0 || i >= n) && n > 1)
        i = i < 0 ? -i : 2 * (n - 1) - i;
    if (border == SR_BORDER_REFLECT && n == 1)
        return 0;
    return i < 0 || i >= n ? -1 : i;
}

// Sheets of any size and position, with every border: each pixel comes from where the formula says.
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
        const sr_padding p = {.width = 1 + sr_rng_below(&rng, SHEET),
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
        assert_ok(sr_canvas_pad(canvas, &p));
        assert_ok(sr_canvas_finish(canvas));
        for (int64_t i = 0; i < p.width * p.height; i++) {
            const int64_t x = laid(i % p.width - p.x, w, p.border);
            const int64_t y = laid(i / p.width - p.y, h, p.border);
            assert_int_equal(x < 0 || y < 0 ? 202 : y * w + x + 1, target[3 * i + 1]);
        }
    }
    sr_canvas_free(canvas);
}

// A warp that maps to nowhere is refused, and so is a sheet beyond all limits.
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
    const sr_warp unknown = {.inverse = {(double)NAN, 0, 0, 0, 1, 0}, .width = 10, .height = 10};
    assert_status(SR_E_ARGUMENT, sr_canvas_warp(canvas, &flat));
    assert_status(SR_E_ARGUMENT, sr_canvas_warp(canvas, &far));
    assert_status(SR_E_ARGUMENT, sr_canvas_warp(canvas, &unknown));
    assert_message("cannot warp");
    const sr_padding huge = {.width = 1 << 20, .height = 1 << 20};
    assert_status(SR_E_LIMIT, sr_canvas_pad(canvas, &huge));
    assert_status(SR_E_LIMIT,
                  sr_canvas_resize(canvas, huge.width, huge.height, SR_FILTER_BILINEAR, true));
    assert_message("resize it first");
    assert_status(SR_E_ARGUMENT, sr_canvas_resize(canvas, 0, 5, SR_FILTER_BILINEAR, true));
    sr_canvas_free(canvas);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_geometry),        cmocka_unit_test(test_mask_counts),
        cmocka_unit_test(test_mask_of_another_size), cmocka_unit_test(test_sheets),
        cmocka_unit_test(test_bad_geometry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
