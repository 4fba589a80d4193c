// SPDX-License-Identifier: Apache-2.0
// Draws figures into PNG and SVG files, via memory, so that files are replaced atomically; and
// text.
#include <cairo-svg.h>
#include <math.h>
#include <stdio.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "trainer/draw/plot_internal.h"

enum { NAME_BYTES = 256 };

static cairo_status_t collect(void *user, const unsigned char *data, unsigned bytes) {
    sr_text *text = user;
    sr_text_add_bytes(text, data, bytes);
    return text->failed ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static cairo_status_t draw_on(cairo_surface_t *surface, const sr_figure_list *figure) {
    cairo_t *cr = cairo_create(surface);
    sr_plot_draw(cr, figure);
    const cairo_status_t result = cairo_status(cr);
    cairo_destroy(cr);
    return result;
}

static sr_status save(const char *folder, const char *name, const char *ending, const sr_text *data,
                      cairo_status_t result) {
    char file[NAME_BYTES];
    if (result == CAIRO_STATUS_NO_MEMORY)
        return SR_FAIL(SR_E_MEMORY, "%s: no memory to draw %s%s", folder, name, ending);
    if (result != CAIRO_STATUS_SUCCESS)
        return SR_FAIL(SR_E_SYSTEM, "%s: %s%s cannot be drawn: %s", folder, name, ending,
                       cairo_status_to_string(result));
    SR_TRY(sr_text_check(data));
    snprintf(file, sizeof file, "%s%s", name, ending);
    char *path = sr_path_join(folder, file);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_write_atomic(path, data->data, data->length);
    sr_free(path);
    return status;
}

static sr_status write_png(const sr_figure_list *figure, const char *folder, const char *name) {
    sr_text data;
    sr_text_init(&data);
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, figure->width, figure->height);
    cairo_status_t result = draw_on(surface, figure);
    if (result == CAIRO_STATUS_SUCCESS)
        result = cairo_surface_write_to_png_stream(surface, collect, &data);
    cairo_surface_destroy(surface);
    sr_status status = save(folder, name, ".png", &data, result);
    sr_text_release(&data);
    return status;
}

static sr_status write_svg(const sr_figure_list *figure, const char *folder, const char *name) {
    sr_text data;
    sr_text_init(&data);
    cairo_surface_t *surface =
        cairo_svg_surface_create_for_stream(collect, &data, figure->width, figure->height);
    cairo_status_t result = draw_on(surface, figure);
    cairo_surface_finish(surface);
    if (result == CAIRO_STATUS_SUCCESS)
        result = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    sr_status status = save(folder, name, ".svg", &data, result);
    sr_text_release(&data);
    return status;
}

sr_status sr_plot_figure(const sr_figure_list *figure, const char *folder, const char *name) {
    SR_TRY(write_png(figure, folder, name));
    return write_svg(figure, folder, name);
}

void sr_plot_color(cairo_t *cr, uint32_t rgb, double alpha) {
    cairo_set_source_rgba(cr, (double)(rgb >> 16 & 255) / 255, (double)(rgb >> 8 & 255) / 255,
                          (double)(rgb & 255) / 255, alpha);
}

PangoLayout *sr_plot_layout(cairo_t *cr, double size, bool bold, double max_width,
                            const char *text) {
    PangoLayout *layout = pango_cairo_create_layout(cr);
    PangoFontDescription *font = pango_font_description_new();
    sr_text visible;
    sr_text_init(&visible);
    sr_text_add_visible(&visible, text);
    pango_font_description_set_family_static(font, "sans-serif");
    pango_font_description_set_absolute_size(font, size * PANGO_SCALE);
    pango_font_description_set_weight(font, bold ? PANGO_WEIGHT_BOLD : PANGO_WEIGHT_NORMAL);
    pango_layout_set_font_description(layout, font);
    pango_layout_set_single_paragraph_mode(layout, TRUE);
    pango_layout_set_text(layout, visible.data, (int)visible.length);
    if (max_width > 0) {
        pango_layout_set_width(layout, (int)(max_width * PANGO_SCALE));
        pango_layout_set_ellipsize(layout, PANGO_ELLIPSIZE_END);
    }
    pango_font_description_free(font);
    sr_text_release(&visible);
    return layout;
}

double sr_plot_measure(double size, bool bold, const char *text) {
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cr = cairo_create(surface);
    PangoLayout *layout = sr_plot_layout(cr, size, bold, 0, text);
    PangoRectangle line;
    pango_layout_get_extents(layout, NULL, &line);
    g_object_unref(layout);
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    return (double)line.width / PANGO_SCALE;
}

double sr_plot_text_fit(cairo_t *cr, double x, double y, double size, bool bold, uint32_t rgb,
                        sr_align align, double max_width, const char *text) {
    PangoLayout *layout = sr_plot_layout(cr, size, bold, max_width, text);
    PangoRectangle line;
    pango_layout_get_extents(layout, NULL, &line);
    const double width = (double)line.width / PANGO_SCALE;
    const double left = (double)line.x / PANGO_SCALE; // a right-to-left line ends at max_width
    const double baseline = (double)pango_layout_get_baseline(layout) / PANGO_SCALE;
    sr_plot_color(cr, rgb, 1);
    cairo_move_to(cr, x - left - width * (double)align / 2, y - baseline);
    pango_cairo_show_layout(cr, layout);
    g_object_unref(layout);
    return width;
}

double sr_plot_text(cairo_t *cr, double x, double y, double size, bool bold, uint32_t rgb,
                    sr_align align, const char *text) {
    return sr_plot_text_fit(cr, x, y, size, bold, rgb, align, 0, text);
}
