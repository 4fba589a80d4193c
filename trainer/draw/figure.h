// SPDX-License-Identifier: Apache-2.0
// A figure: rectangles, texts, lines, pictures and panels with curves, recorded by any code and
// drawn into a PNG and an SVG file by a process of its own (sr_drawing_figure).
//
// Recording needs no drawing library. Lengths are pixels from the upper left corner, and colours
// are those of palette.h or any other 0xRRGGBB. Operations are drawn in order on white. What they
// point to is copied.
#ifndef SR_TRAINER_FIGURE_H
#define SR_TRAINER_FIGURE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_FIGURE_SIDE = 16384 }; // longest side

// One thread at a time. A failure to record is sticky: one check at the end is enough.
typedef struct sr_figure {
    int width, height;
    int count;          // of operations
    sr_text operations; // as bytes (figure_internal.h)
} sr_figure;

// An empty figure; allocates nothing yet.
void sr_figure_init(sr_figure *figure, int width, int height);
// Frees the memory.
void sr_figure_release(sr_figure *figure);
// SR_OK, or why the figure cannot be drawn: SR_E_LIMIT for its size, SR_E_ARGUMENT for an operation
// with a length that is not finite or a missing text, SR_E_MEMORY.
SR_NODISCARD sr_status sr_figure_check(const sr_figure *figure);

// A filled rectangle.
typedef struct sr_figure_rectangle {
    double x, y, width, height;
    uint32_t color;
} sr_figure_rectangle;
// Records a rectangle.
void sr_figure_add_rectangle(sr_figure *figure, sr_figure_rectangle rectangle);

// Which point of a text is at its position.
typedef enum sr_align { SR_ALIGN_LEFT = 0, SR_ALIGN_CENTER, SR_ALIGN_RIGHT } sr_align;

// One line of UTF-8 text, in any script that the machine has a font for.
typedef struct sr_figure_text {
    const char *text;
    double x, y;      // the left end, middle or right end of its baseline
    double size;      // of the font: more than 0, at most 1000
    double max_width; // longer text is cut and ends in an ellipsis; 0: no limit
    double rotation;  // about (x, y) in degrees: 45 rises to the right
    uint32_t color;
    sr_align align;
    bool bold;
} sr_figure_text;
// Records a text.
void sr_figure_add_text(sr_figure *figure, sr_figure_text text);
// Width of a text that is not bold. An estimate: the font is chosen by the process that draws.
double sr_figure_text_width(double size, const char *text);

// A line through points.
typedef struct sr_figure_line {
    const double *points; // x, y of each
    int count;            // of points
    double width;         // of the pen
    uint32_t color;
} sr_figure_line;
// Records a line.
void sr_figure_add_line(sr_figure *figure, sr_figure_line line);

// A picture in the rectangle. Each of its pixels is a rectangle of one colour, however large.
typedef struct sr_figure_pixels {
    double x, y, width, height;
    const uint8_t *rgb; // [rows][columns][3]
    int rows, columns;  // at most SR_FIGURE_SIDE
} sr_figure_pixels;
// Records a picture.
void sr_figure_add_pixels(sr_figure *figure, sr_figure_pixels pixels);

// A curve of a panel.
typedef struct sr_panel_series {
    const char *name; // in the legend; "": it is not there
    uint32_t color;
    const double *x, *y; // at [i * stride]; points with a NaN or infinity are left out
    int64_t stride, count;
    bool smooth; // many noisy points: a thin line of all and a thick one of their mean
    bool marks;  // few points: a dot on each
} sr_panel_series;

// Curves over axes with round ticks. The ranges are those of the values.
typedef struct sr_panel {
    double x, y, width, height; // with title and tick labels
    const char *title;          // above
    const char *x_title;        // below the x axis; NULL: none
    double x_unit;              // ticks of the x axis are multiples of it; 0: any
    bool from_zero;             // the y axis begins at 0
    double cap;                 // the y axis never goes above; 0: free
    const sr_panel_series *series;
    int series_count;
} sr_panel;
// Records a panel.
void sr_figure_add_panel(sr_figure *figure, sr_panel panel);

#ifdef __cplusplus
}
#endif
#endif
