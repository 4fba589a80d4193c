// SPDX-License-Identifier: Apache-2.0
// Draws the operations of figures with cairo, one function for each kind.
#include "trainer/draw/plot_internal.h"

#define RADIANS (3.14159265358979 / 180) // of a degree

static void draw_rectangle(cairo_t *cr, const sr_figure_operation *operation) {
    const sr_figure_rectangle *r = &operation->as.rectangle;
    cairo_rectangle(cr, r->x, r->y, r->width, r->height);
    sr_plot_color(cr, r->color, 1);
    cairo_fill(cr);
}

static void draw_text(cairo_t *cr, const sr_figure_operation *operation) {
    const sr_figure_text *t = &operation->as.text;
    cairo_translate(cr, t->x, t->y);
    cairo_rotate(cr, -t->rotation * RADIANS);
    sr_plot_text_fit(cr, 0, 0, t->size, t->bold, t->color, t->align, t->max_width, t->text);
}

static void draw_line(cairo_t *cr, const sr_figure_operation *operation) {
    const sr_figure_line *l = &operation->as.line;
    cairo_new_path(cr); // text leaves a point
    for (int i = 0; i < l->count; i++)
        cairo_line_to(cr, l->points[2 * i], l->points[2 * i + 1]);
    sr_plot_color(cr, l->color, 1);
    cairo_set_line_width(cr, l->width);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cr, CAIRO_LINE_CAP_ROUND);
    cairo_stroke(cr);
}

static cairo_surface_t *make_surface(const sr_figure_pixels *p) {
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, p->columns, p->rows);
    unsigned char *row = cairo_image_surface_get_data(surface);
    const int stride = cairo_image_surface_get_stride(surface);
    const uint8_t *rgb = p->rgb;
    for (int j = 0; row && j < p->rows; j++, row += stride) {
        uint32_t *to = (uint32_t *)(void *)row;
        for (int i = 0; i < p->columns; i++, rgb += 3)
            to[i] = (uint32_t)rgb[0] << 16 | (uint32_t)rgb[1] << 8 | rgb[2];
    }
    cairo_surface_mark_dirty(surface);
    return surface;
}

static void draw_pixels(cairo_t *cr, const sr_figure_operation *operation) {
    const sr_figure_pixels *p = &operation->as.pixels;
    cairo_surface_t *surface = make_surface(p);
    cairo_translate(cr, p->x, p->y);
    cairo_scale(cr, p->width / p->columns, p->height / p->rows);
    cairo_set_source_surface(cr, surface, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_paint(cr);
    cairo_surface_destroy(surface);
}

static void draw_panel(cairo_t *cr, const sr_figure_operation *operation) {
    sr_plot_panel_draw(cr, &operation->as.panel);
}

static void (*const kinds[SR_FIGURE_KINDS])(cairo_t *, const sr_figure_operation *) = {
    [SR_FIGURE_RECTANGLE] = draw_rectangle,
    [SR_FIGURE_TEXT] = draw_text,
    [SR_FIGURE_LINE] = draw_line,
    [SR_FIGURE_PIXELS] = draw_pixels,
    [SR_FIGURE_PANEL] = draw_panel};

void sr_plot_draw(cairo_t *cr, const sr_figure_list *figure) {
    sr_plot_color(cr, SR_WHITE, 1);
    cairo_paint(cr);
    for (int i = 0; i < figure->count; i++) {
        cairo_save(cr);
        kinds[figure->operations[i].kind](cr, &figure->operations[i]);
        cairo_restore(cr);
    }
}
