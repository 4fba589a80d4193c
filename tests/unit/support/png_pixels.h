// SPDX-License-Identifier: Apache-2.0
// PNG files of tests, decoded.
#ifndef SR_TESTS_UNIT_PNG_PIXELS_H
#define SR_TESTS_UNIT_PNG_PIXELS_H

#include <stdint.h>

typedef struct png_pixels {
    uint32_t width, height;
    uint8_t *rgb; // [height][width][3]
} png_pixels;

// Replaces what 'pixels' held before.
void png_pixels_read(png_pixels *pixels, const char *path);
void png_pixels_release(png_pixels *pixels);
// 0xRRGGBB.
uint32_t png_pixels_at(const png_pixels *pixels, uint32_t x, uint32_t y);
// Pixels of a colour in a region, which may exceed the picture; each channel differs by at most
// 'tolerance'.
int png_pixels_count(const png_pixels *pixels, uint32_t color, int tolerance, uint32_t x,
                     uint32_t y, uint32_t width, uint32_t height);

#endif
