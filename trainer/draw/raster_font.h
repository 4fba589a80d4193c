// SPDX-License-Identifier: Apache-2.0
// Draws text into rasters in a bitmap font of ASCII, like sr_raster_text and sr_raster_text_width.
#ifndef SR_TRAINER_RASTER_FONT_H
#define SR_TRAINER_RASTER_FONT_H

#include "trainer/draw/raster.h"

int sr_font_text(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                 const char *text);
int sr_font_text_width(int size, const char *text);

#endif
