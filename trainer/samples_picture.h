// SPDX-License-Identifier: Apache-2.0
// Grids of samples as one PNG: the first augmented batches with their labels, boxes and masks, and
// predictions on the same validation samples every epoch.
#ifndef SR_TRAINER_SAMPLES_PICTURE_H
#define SR_TRAINER_SAMPLES_PICTURE_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_verdict {
    SR_VERDICT_NONE = 0,
    SR_VERDICT_RIGHT, // green bar
    SR_VERDICT_WRONG, // red bar
} sr_verdict;

typedef struct sr_tile_box {
    float x1, y1, x2, y2; // pixels of the tile's picture
    int number;           // of the class: picks the colour
    const char *label;    // or NULL
} sr_tile_box;

// One sample. All pointers are borrowed during the call.
typedef struct sr_tile {
    const uint8_t *rgb; // [height][width][3]
    int64_t width, height;
    const char *caption; // first line below: the class; or NULL
    const char *note;    // second line: "dog 97 %"; or NULL
    sr_verdict verdict;
    const sr_tile_box *boxes;
    int box_count;
    const uint8_t *mask; // [height][width] class numbers, 0 and 255 clear; or NULL
} sr_tile;

// Pictures of up to 80 pixels are enlarged by a whole factor, large ones shrunk to 192 pixels.
// columns 0: as square as it gets. title may be NULL.
SR_NODISCARD sr_status sr_samples_picture(const char *path, const char *title, const sr_tile *tiles,
                                          int count, int columns);

#ifdef __cplusplus
}
#endif
#endif
