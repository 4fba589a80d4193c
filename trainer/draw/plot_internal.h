// SPDX-License-Identifier: Apache-2.0
// Internals of the module that draws (plots_module.h): output files, text, and panels with axes and
// curves.
#ifndef SR_TRAINER_PLOT_INTERNAL_H
#define SR_TRAINER_PLOT_INTERNAL_H

#include <cairo.h>
#include <pango/pangocairo.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "trainer/draw/plot_ticks.h"
#include "trainer/draw/raster.h"
#include "trainer/tasks/metrics.h"

// Colours as 0xRRGGBB.
enum {
    SR_INK = 0x1f2933,  // titles
    SR_SOFT = 0x616e7c, // tick labels, legends
    SR_LINE = 0xcbd2d9, // axes
    SR_GRID = 0xeceff3, // grid
    SR_BLUE = 0x2f6fde, //
    SR_ORANGE = 0xee7b1a,
    SR_GREEN = 0x1c9c6c,
    SR_PURPLE = 0x8250c4,
};

typedef void (*sr_plot_draw)(cairo_t *cr, double width, double height, const void *user);

// Draws into FOLDER/NAME.png and FOLDER/NAME.svg, each replaced atomically.
sr_status sr_plot_write(const char *folder, const char *name, int width, int height,
                        sr_plot_draw draw, const void *user);

void sr_plot_color(cairo_t *cr, uint32_t rgb, double alpha);

typedef enum sr_plot_align { SR_ALIGN_LEFT = 0, SR_ALIGN_CENTER, SR_ALIGN_RIGHT } sr_plot_align;

// Text with its baseline at y; returns its width.
double sr_plot_text(cairo_t *cr, double x, double y, double size, bool bold, uint32_t rgb,
                    sr_plot_align align, const char *text);
// The same in at most 'max_width' pixels: longer text is cut and ends in an ellipsis.
double sr_plot_text_fit(cairo_t *cr, double x, double y, double size, bool bold, uint32_t rgb,
                        sr_plot_align align, double max_width, const char *text);
// Width of a line of text, measured without a picture.
double sr_plot_measure(double size, bool bold, const char *text);
// One line of UTF-8 text, shaped by Pango with the fonts that the machine has for its scripts;
// control characters and invalid bytes are shown as sr_text_add_visible does. max_width 0: no
// limit. Freed with g_object_unref.
PangoLayout *sr_plot_layout(cairo_t *cr, double size, bool bold, double max_width,
                            const char *text);

typedef struct sr_plot_series {
    const char *name;
    uint32_t color;
    const double *x, *y; // at [i * stride]; points with a NaN are left out
    int64_t stride, count;
    bool smooth; // many noisy points: a thin line of all and a thick one of their mean
    bool marks;  // few points: a dot on each
} sr_plot_series;

enum { SR_PANEL_SERIES = 6 };

typedef struct sr_plot_panel {
    const char *title;
    const char *x_title; // below the x axis; NULL: none
    double x_unit;       // ticks of the x axis are multiples of it; 0: any
    bool from_zero;      // the y axis begins at 0
    double cap;          // the y axis never goes above; NaN: free
    int series_count;
    sr_plot_series series[SR_PANEL_SERIES];
} sr_plot_panel;

void sr_plot_panel_draw(cairo_t *cr, double x, double y, double width, double height,
                        const sr_plot_panel *panel);

// The functions of the module.
sr_status sr_plot_results(const char *folder);
sr_status sr_plot_confusion(const sr_confusion *confusion, const char *const *classes,
                            const char *folder);
int sr_plot_raster_text(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                        const char *text);
int sr_plot_raster_text_width(int size, const char *text);

#endif
