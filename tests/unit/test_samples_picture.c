// SPDX-License-Identifier: Apache-2.0
// Sample grids: pixels where they belong, verdicts, boxes, masks and captions, decoded again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <spng.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "trainer/samples_picture.h"

static char path[] = "/tmp/serried-samples-XXXXXX";
static uint8_t *decoded;
static uint32_t width, height;

static int set_up(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int tear_down(void **state) {
    (void)state;
    sr_free(decoded);
    return unlink(path);
}

static void decode(void) {
    void *png;
    size_t bytes, pixels;
    struct spng_ihdr header;
    assert_int_equal(sr_file_read(path, 1 << 24, &png, &bytes), SR_OK);
    spng_ctx *context = spng_ctx_new(0);
    assert_int_equal(spng_set_png_buffer(context, png, bytes), 0);
    assert_int_equal(spng_get_ihdr(context, &header), 0);
    assert_int_equal(spng_decoded_image_size(context, SPNG_FMT_RGB8, &pixels), 0);
    sr_free(decoded);
    decoded = sr_alloc(pixels, "test");
    assert_int_equal(spng_decode_image(context, decoded, pixels, SPNG_FMT_RGB8, 0), 0);
    width = header.width;
    height = header.height;
    spng_ctx_free(context);
    sr_free(png);
}

static uint32_t at(uint32_t x, uint32_t y) {
    const uint8_t *p = decoded + 3 * ((size_t)y * width + x);
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

// Number of pixels of a colour in a region.
static int count(uint32_t color, uint32_t x, uint32_t y, uint32_t w, uint32_t h) {
    int n = 0;
    for (uint32_t j = y; j < y + h && j < height; ++j)
        for (uint32_t i = x; i < x + w && i < width; ++i)
            n += at(i, j) == color;
    return n;
}

static void small_pictures_grow_by_whole_factors(void **state) {
    (void)state;
    const uint8_t rgb[2][12] = {{255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9}, {0}};
    const sr_tile tiles[] = {
        {.rgb = rgb[0], .width = 2, .height = 2, .verdict = SR_VERDICT_WRONG},
        {.rgb = rgb[1], .width = 2, .height = 2, .caption = "cat", .verdict = SR_VERDICT_RIGHT},
    };
    assert_int_equal(sr_samples_picture(path, NULL, tiles, 2, 2), SR_OK);
    decode();
    assert_int_equal(width, 14 + 2 * (160 + 14));
    assert_int_equal(count(0xff0000, 14, 14, 160, 160), 80 * 80);
    assert_int_equal(at(14, 14), 0xff0000);
    assert_int_equal(at(14 + 159, 14), 0x00ff00);
    assert_int_equal(at(14, 14 + 159), 0x0000ff);
    assert_int_equal(at(14 + 80, 14 + 80), 0x090909);
    assert_true(count(0xd64545, 14, 174, 160, 8) >= 160 * 4); // the bar below the first
    assert_true(count(0x1c9c6c, 188, 174, 160, 8) >= 160 * 4);
    // "cat" at scale 2: c has 11 pixels, a 13, t 11; each is 2 x 2.
    assert_int_equal(count(0x1f2933, 188, 180, 160, 40), (11 + 14 + 12) * 4);
}

static void boxes_and_masks(void **state) {
    (void)state;
    static uint8_t rgb[160 * 160 * 3], mask[160 * 160];
    const sr_tile_box box = {.x1 = 20, .y1 = 30, .x2 = 100, .y2 = 90, .number = 0};
    const sr_tile_box labelled = {
        .x1 = 110, .y1 = 110, .x2 = 500, .y2 = 150, .number = 1, .label = "person 0.93"};
    const sr_tile_box boxes[] = {box, labelled};
    mask[0] = 2;
    mask[1] = 255; // void stays clear
    const sr_tile tile = {
        .rgb = rgb, .width = 160, .height = 160, .boxes = boxes, .box_count = 2, .mask = mask};
    assert_int_equal(sr_samples_picture(path, "title", &tile, 1, 0), SR_OK);
    decode();
    const uint32_t top = 40;
    assert_int_equal(count(0xe6194b, 0, 0, width, height), 2 * 80 * 2 + 2 * 56 * 2);
    assert_int_equal(at(14 + 20, top + 30), 0xe6194b);
    assert_int_equal(at(14 + 22, top + 32), 0x000000);
    assert_true(at(14, top) != 0 && at(15, top) == 0);
    assert_true(count(0x3cb44b, 14, top, 160, 160) > 100); // a box over the edge is cut
}

static void refuses_nothing_to_draw(void **state) {
    (void)state;
    const uint8_t rgb[3] = {0};
    const sr_tile tile = {.rgb = rgb, .width = 0, .height = 1};
    assert_int_equal(sr_samples_picture(path, NULL, &tile, 0, 0), SR_E_ARGUMENT);
    assert_int_equal(sr_samples_picture(path, NULL, &tile, 1, 0), SR_E_ARGUMENT);
}

// Captions longer than any tile, empty, of other scripts: nothing is drawn outside.
static void any_caption(void **state) {
    (void)state;
    char longest[3000];
    const uint8_t rgb[3] = {0};
    memset(longest, 'W', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const captions[] = {longest, "", "\xc3\xa4\xe4\xb8\xad\xff\x80", "\t\n\x7f"};
    sr_tile tiles[4];
    for (int i = 0; i < 4; ++i)
        tiles[i] = (sr_tile){
            .rgb = rgb, .width = 1, .height = 1, .caption = captions[i], .note = captions[i]};
    assert_int_equal(sr_samples_picture(path, longest, tiles, 4, 0), SR_OK);
    decode();
    assert_int_equal(count(0x1f2933, 174, 50, 14, height - 50), 0); // the gap between two tiles
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pictures_grow_by_whole_factors),
        cmocka_unit_test(boxes_and_masks),
        cmocka_unit_test(refuses_nothing_to_draw),
        cmocka_unit_test(any_caption),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
