// SPDX-License-Identifier: Apache-2.0
// A small RGB picture in memory: rectangles, scaled pictures, bitmap text, PNG. Needs no cairo.
#ifndef SR_TRAINER_RASTER_H
#define SR_TRAINER_RASTER_H

#include <stdint.h>

#include "kernels/base/status.h"

typedef struct sr_raster {
    int width, height;
    uint8_t *rgb; // [height][width][3]
} sr_raster;

// White. SR_E_LIMIT beyond 64 Mi pixels.
sr_status sr_raster_create(int width, int height, sr_raster *out);
void sr_raster_release(sr_raster *raster);
// All drawing is cut at the picture's edges. Colours are 0xRRGGBB.
void sr_raster_fill(sr_raster *raster, int x, int y, int width, int height, uint32_t color);
// The frame of a rectangle, 'thickness' pixels inwards.
void sr_raster_frame(sr_raster *raster, int x, int y, int width, int height, int thickness,
                     uint32_t color);
// Mixes 'part' (0..256) of the colour into a pixel.
void sr_raster_tint(sr_raster *raster, int x, int y, uint32_t color, int part);
// A picture [from_height][from_width][3] at another size: nearest pixel when it grows, mean of the
// covered pixels when it shrinks.
void sr_raster_picture(sr_raster *raster, int x, int y, int width, int height, const uint8_t *rgb,
                       int64_t from_width, int64_t from_height);

enum { SR_GLYPH_WIDTH = 6, SR_GLYPH_HEIGHT = 9 }; // at scale 1, with gap and descent

// ASCII text with its upper left corner at (x, y); other characters become '?'. At most
// 'max_width' pixels: what does not fit is cut and ends in "..". Returns the width.
int sr_raster_text(sr_raster *raster, int x, int y, int scale, uint32_t color, int max_width,
                   const char *text);
// Number of characters (not bytes) that would be drawn.
int sr_raster_text_length(const char *text);

sr_status sr_raster_write_png(const sr_raster *raster, const char *path);

// The pixel of a glyph (raster_font.c); x 0..4, y 0..8. Unknown characters look like '?'.
int sr_raster_glyph(char c, int x, int y);

#endif
