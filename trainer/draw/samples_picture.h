// SPDX-License-Identifier: Apache-2.0
// Sheets of samples: a data set, the first batch, predictions, with labels, boxes, outlines, masks
// and a legend.
#ifndef SR_TRAINER_SAMPLES_PICTURE_H
#define SR_TRAINER_SAMPLES_PICTURE_H

#include "trainer/draw/raster.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether a prediction is right, shown as a bar below the picture.
typedef enum sr_verdict {
    SR_VERDICT_NONE = 0,
    SR_VERDICT_RIGHT, // green bar
    SR_VERDICT_WRONG, // red bar
} sr_verdict;

// Coordinates are pixels of the tile's picture; what lies outside is drawn at its edge.
typedef struct sr_tile_box {
    float x1, y1, x2, y2;
    int number;        // of the class: picks the colour
    const char *label; // or NULL
} sr_tile_box;

// A polygon; coordinates as of a box.
typedef struct sr_tile_outline {
    const float *points; // x, y of each; the last is joined to the first
    int count;           // of points
    int number;          // of the class
} sr_tile_outline;

// One sample. All pointers are borrowed during the call.
typedef struct sr_tile {
    const uint8_t *rgb; // [height][width][3]; NULL: an empty cell
    int64_t width, height;
    const char *caption; // first line below, UTF-8: the class; or NULL
    const char *note;    // second line: "97 % dog"; or NULL
    sr_verdict verdict;
    const sr_tile_box *boxes;
    int box_count;
    const sr_tile_outline *outlines;
    int outline_count;
    const uint8_t *mask; // [height][width] class numbers, 255 clear; or NULL
} sr_tile;

enum { SR_TILE_SIDE = 192 };

// A sheet. Pointers are borrowed during the call.
typedef struct sr_samples {
    const char *title; // or NULL
    const sr_tile *tiles;
    int count;
    int columns;                   // 0: as square as it gets
    int side;                      // longer side of a picture, at most; 0: SR_TILE_SIDE
    const char *const *row_titles; // a line above each row; or NULL
    const char *const *classes;    // names for a legend of boxes, outlines and masks; or NULL
    int class_count;
} sr_samples;

// Rows of the sheet.
int sr_samples_rows(const sr_samples *samples);
// Size of the pixels that a tile needs: a large picture is shrunk to at most 'side', with its
// aspect ratio; a small one keeps its size and is enlarged when it is drawn.
void sr_samples_shrink(int64_t width, int64_t height, int side, int *out_width, int *out_height);
// Draws the sheet. SR_E_ARGUMENT without samples or for a picture of an invalid size; SR_E_LIMIT if
// the sheet is too large.
SR_NODISCARD sr_status sr_samples_draw(const sr_samples *samples, sr_raster *out);
// Draws the sheet and writes it with sr_raster_write.
SR_NODISCARD sr_status sr_samples_write(const sr_samples *samples, const char *path);

#ifdef __cplusplus
}
#endif
#endif
