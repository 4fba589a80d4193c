// SPDX-License-Identifier: Apache-2.0
// A grid of pictures with their labels below: for looking at data, as PNG or in a terminal.
#ifndef SR_DATAIO_GRID_H
#define SR_DATAIO_GRID_H

#include <stdint.h>
#include <stdio.h>

#include "dataio/record.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_grid sr_grid;

// A dark canvas of columns x rows cells, each with room for a picture of at most cell x cell pixels
// and a line of text below it.
SR_NODISCARD sr_status sr_grid_create(int columns, int rows, int cell, sr_grid **out);
void sr_grid_free(sr_grid *grid);
// Puts packed RGB pixels (scaled to fit) and a label (UTF-8, may be NULL) into cell 'index'.
SR_NODISCARD sr_status sr_grid_put(sr_grid *grid, int index, const uint8_t *rgb, int64_t width,
                                   int64_t height, const char *label);
// The same from a record's picture, decoded and upright; objects are drawn as boxes (NULL: none),
// a mask as colours.
SR_NODISCARD sr_status sr_grid_put_sample(sr_grid *grid, int index, const sr_sample *picture,
                                          const sr_detection *objects, const char *label);
// Packed RGB of the whole canvas, borrowed.
const uint8_t *sr_grid_pixels(const sr_grid *grid, int64_t *width, int64_t *height);
// Written whole or not at all.
SR_NODISCARD sr_status sr_grid_write_png(const sr_grid *grid, const char *path);
// Half blocks in 24-bit colours, two pixels a character, at most 'columns' characters wide.
SR_NODISCARD sr_status sr_grid_print(const sr_grid *grid, int columns, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
