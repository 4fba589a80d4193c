// SPDX-License-Identifier: Apache-2.0
// Draws text into rasters with Pango: every script that the machine has fonts for.
#include <math.h>

#include "trainer/draw/plot_internal.h"

// The line as an alpha mask of its size; without data if memory is out.
static cairo_surface_t *render(int size, int max_width, const char *text) {
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cr = cairo_create(surface);
    PangoLayout *layout = sr_plot_layout(cr, size, false, max_width, text);
    PangoRectangle line;
    pango_layout_get_pixel_extents(layout, NULL, &line);
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    surface =
        cairo_image_surface_create(CAIRO_FORMAT_A8, line.width > 0 ? line.width : 1, line.height);
    cr = cairo_create(surface);
    cairo_move_to(cr, -line.x, 0); // a right-to-left line begins at the right edge
    pango_cairo_show_layout(cr, layout);
    g_object_unref(layout);
    cairo_destroy(cr);
    cairo_surface_flush(surface);
    return surface;
}

int sr_plot_raster_text(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                        const char *text) {
    if (max_width < size / 2)
        return 0;
    cairo_surface_t *mask = render(size, max_width, text);
    const unsigned char *alpha = cairo_image_surface_get_data(mask);
    const int width = cairo_image_surface_get_width(mask);
    const int height = cairo_image_surface_get_height(mask);
    const int stride = cairo_image_surface_get_stride(mask);
    for (int j = 0; alpha != NULL && j < height; ++j, alpha += stride)
        for (int i = 0; i < width && i < max_width; ++i)
            if (alpha[i] > 0)
                sr_raster_tint(raster, x + i, y + j, color, alpha[i] + alpha[i] / 128);
    cairo_surface_destroy(mask);
    return width < max_width ? width : max_width;
}

int sr_plot_raster_text_width(int size, const char *text) {
    return (int)ceil(sr_plot_measure(size, false, text));
}
