// SPDX-License-Identifier: Apache-2.0
// Labels under small pictures: capitals, digits and some signs in a grid of 5 x 7 points.
//
// For pictures of data sets, where a class name is all there is to write; no font file is needed.
// Plots with real text are drawn elsewhere.
#ifndef SR_DATAIO_LABEL_FONT_H
#define SR_DATAIO_LABEL_FONT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR_LABEL_WIDTH 6 // of a letter with its gap, at scale 1
#define SR_LABEL_HEIGHT 7

// Draws text (UTF-8; letters without a shape become '?') with its upper left corner at (x, y) in
// packed RGB of width x height, cut at max_width pixels. Small letters are drawn as capitals.
void sr_label_draw(uint8_t *rgb, int64_t width, int64_t height, int64_t x, int64_t y, int scale,
                   int64_t max_width, const char *text, size_t bytes, const uint8_t color[3]);

#ifdef __cplusplus
}
#endif
#endif
