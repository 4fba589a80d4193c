// SPDX-License-Identifier: Apache-2.0
// What a child that draws is given, shared by both sides (drawing.h).
#ifndef SR_TRAINER_DRAWING_INTERNAL_H
#define SR_TRAINER_DRAWING_INTERNAL_H

#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "trainer/draw/figure.h"
#include "trainer/draw/samples_picture.h"

typedef enum sr_drawing_kind {
    SR_DRAWING_FIGURE = 1,
    SR_DRAWING_SAMPLES,
    SR_DRAWING_SHEET, // returned through the file that described it, appended to its content
} sr_drawing_kind;

// Precedes the pixels of a sheet that is returned.
typedef struct sr_raster_head {
    int width, height;
} sr_raster_head;

typedef struct sr_picture {
    sr_drawing_kind kind;
    const char *path; // of a figure's folder, of the file of samples; NULL for a sheet
    const char *name; // of a figure, without ending
    sr_figure figure; // whose bytes belong to another
    sr_samples sheet;
} sr_picture;

// Converts a picture to bytes, and bytes to a picture, which refers to the bytes and to memory of
// the arena.
void sr_picture_encode(const sr_picture *picture, sr_text *out);
SR_NODISCARD sr_status sr_picture_decode(const void *bytes, size_t count, sr_arena *arena,
                                         sr_picture *out);
// Draws it in this process.
SR_NODISCARD sr_status sr_picture_draw(const sr_picture *picture);

#endif
