// SPDX-License-Identifier: Apache-2.0
// Decodes PNG files with libspng (png_pixels.h).
#include "tests/unit/support/png_pixels.h"

#include <spng.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

void png_pixels_release(png_pixels *pixels) {
    sr_free(pixels->rgb);
    *pixels = (png_pixels){0};
}

void png_pixels_read(png_pixels *pixels, const char *path) {
    void *png;
    size_t bytes, size;
    struct spng_ihdr header;
    png_pixels_release(pixels);
    assert_ok(sr_file_read(path, 1 << 24, &png, &bytes));
    spng_ctx *context = spng_ctx_new(0);
    assert_int_equal(spng_set_png_buffer(context, png, bytes), 0);
    assert_int_equal(spng_get_ihdr(context, &header), 0);
    assert_int_equal(spng_decoded_image_size(context, SPNG_FMT_RGB8, &size), 0);
    *pixels = (png_pixels){.width = header.width, .height = header.height};
    pixels->rgb = sr_alloc(size, "test");
    assert_int_equal(spng_decode_image(context, pixels->rgb, size, SPNG_FMT_RGB8, 0), 0);
    spng_ctx_free(context);
    sr_free(png);
}

uint32_t png_pixels_at(const png_pixels *pixels, uint32_t x, uint32_t y) {
    const uint8_t *p = pixels->rgb + 3 * ((size_t)y * pixels->width + x);
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static int is_near(uint32_t a, uint32_t b, int tolerance) {
    for (unsigned shift = 0; shift <= 16; shift += 8)
        if (abs((int)(a >> shift & 255) - (int)(b >> shift & 255)) > tolerance)
            return 0;
    return 1;
}

int png_pixels_count(const png_pixels *pixels, uint32_t color, int tolerance, uint32_t x,
                     uint32_t y, uint32_t width, uint32_t height) {
    int n = 0;
    for (uint32_t j = y; j < y + height && j < pixels->height; ++j)
        for (uint32_t i = x; i < x + width && i < pixels->width; ++i)
            n += is_near(png_pixels_at(pixels, i, j), color, tolerance);
    return n;
}
