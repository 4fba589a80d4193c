// SPDX-License-Identifier: Apache-2.0
// Internals of the module that draws (plots_module.h): figures, text, and panels with axes and
// curves.
#ifndef SR_TRAINER_PLOT_INTERNAL_H
#define SR_TRAINER_PLOT_INTERNAL_H

#include <cairo.h>
#include <pango/pangocairo.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "trainer/draw/figure_internal.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/plot_ticks.h"
#include "trainer/draw/raster.h"

// The operations of a figure, on white.
void sr_plot_draw(cairo_t *cr, const sr_figure_list *figure);

void sr_plot_color(cairo_t *cr, uint32_t rgb, double alpha);

// Text with its baseline at y; returns its width.
double sr_plot_text(cairo_t *cr, double x, double y, double size, bool bold, uint32_t rgb,
                    sr_align align, const char *text);
// The same in at most 'max_width' pixels: longer text is cut and ends in an ellipsis.
double sr_plot_text_fit(cairo_t *cr, double x, double y, double size, bool bold, uint32_t rgb,
                        sr_align align, double max_width, const char *text);
// Width of a line of text, measured without a picture.
double sr_plot_measure(double size, bool bold, const char *text);
// One line of UTF-8 text, shaped by Pango with the fonts that the machine has for its scripts;
// control characters and invalid bytes are shown as sr_text_add_visible does. max_width 0: no
// limit. Freed with g_object_unref.
PangoLayout *sr_plot_layout(cairo_t *cr, double size, bool bold, double max_width,
                            const char *text);

void sr_plot_panel_draw(cairo_t *cr, const sr_panel *panel);

// The functions of the module.
sr_status sr_plot_figure(const sr_figure_list *figure, const char *folder, const char *name);
int sr_plot_raster_text(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                        const char *text);
int sr_plot_raster_text_width(int size, const char *text);

#endif
