// SPDX-License-Identifier: Apache-2.0
// A small RGB picture in memory: rectangles, lines, scaled pictures, text; written to a file or a
// terminal.
#ifndef SR_TRAINER_RASTER_H
#define SR_TRAINER_RASTER_H

#include <stdint.h>
#include <stdio.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// A picture in memory.
typedef struct sr_raster {
    int width, height;
    uint8_t *rgb; // [height][width][3]
} sr_raster;

// White. SR_E_LIMIT beyond 64 Mi pixels.
SR_NODISCARD sr_status sr_raster_create(int width, int height, sr_raster *out);
// Frees the memory.
void sr_raster_release(sr_raster *raster);
// All drawing is clipped at the picture's edges. Colours are 0xRRGGBB.
void sr_raster_fill(sr_raster *raster, int x, int y, int width, int height, uint32_t color);
// The frame of a rectangle, 'thickness' pixels inwards.
void sr_raster_frame(sr_raster *raster, int x, int y, int width, int height, int thickness,
                     uint32_t color);
// A line one pixel wide, both ends included.
void sr_raster_line(sr_raster *raster, int x0, int y0, int x1, int y1, uint32_t color);
// Mixes 'weight' (0..256) of the colour into a pixel.
void sr_raster_tint(sr_raster *raster, int x, int y, uint32_t color, int weight);
// A picture [from_height][from_width][3] at another size: nearest pixel when it grows, mean of the
// covered pixels when it shrinks.
void sr_raster_picture(sr_raster *raster, int x, int y, int width, int height, const uint8_t *rgb,
                       int64_t from_width, int64_t from_height);

// A line of UTF-8 text in a font of 'size' pixels, its upper left corner at (x, y), at most
// 'max_width' pixels wide: longer text is cut and ends in an ellipsis. Returns the width. Scripts
// need a font on the machine. Without cairo there is a bitmap font of ASCII (raster_font.c), which
// draws other characters as '?'.
int sr_raster_text(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                   const char *text);
// Width of the whole text in pixels.
int sr_raster_text_width(int size, const char *text);

// Written atomically, in the format of the suffix: .png (also without a suffix), .jpg or .jpeg.
// SR_E_USAGE for another suffix.
SR_NODISCARD sr_status sr_raster_write(const sr_raster *raster, const char *path);
// SR_E_USAGE unless the path has a suffix that sr_raster_write knows.
SR_NODISCARD sr_status sr_raster_check_path(const char *path);
// To a terminal, at most 'columns' characters wide: half blocks in 24-bit colours, two pixels a
// character.
SR_NODISCARD sr_status sr_raster_print(const sr_raster *raster, int columns, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
