// SPDX-License-Identifier: Apache-2.0
// confusion.png and confusion.svg: hits in blue on the diagonal, mistakes in orange beside it.
//
// Cells are percent of their row (the true class), so that rare classes show as clearly as common
// ones. Mistakes are coloured by the square root of their share: a few percent must be seen.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/plot_internal.h"
#include "trainer/results_plot.h"

enum { NAMED_CLASSES = 40, NUMBERED_CLASSES = 24, MAX_NAME = 28 };

typedef struct matrix {
    const sr_confusion *confusion;
    const char *const *classes;
    bool named, numbered;
    double cell, left, top;  // pixels
    const int64_t *row_sums; // samples of each class
} matrix;

static double share(const matrix *m, int truth, int predicted) {
    int64_t count = m->confusion->counts[(int64_t)truth * m->confusion->classes + predicted];
    return m->row_sums[truth] == 0 ? 0 : (double)count / (double)m->row_sums[truth];
}

// 0: no such sample, 1: all of the row. Mistakes by the square root of their share.
static double strength(const matrix *m, int truth, int predicted) {
    double part = share(m, truth, predicted);
    return truth == predicted ? part : fmin(1, 1.25 * sqrt(part));
}

// An opaque colour between almost white and the hit's or mistake's colour.
static uint32_t cell_color(const matrix *m, int truth, int predicted) {
    uint32_t full = truth == predicted ? SR_BLUE : SR_ORANGE, base = 0xf6f7f9, mixed = 0;
    double t = strength(m, truth, predicted);
    for (unsigned shift = 0; shift <= 16; shift += 8) {
        double from = (double)(base >> shift & 255), to = (double)(full >> shift & 255);
        mixed |= (uint32_t)(from + t * (to - from) + 0.5) << shift;
    }
    return mixed;
}

// A class's name, shortened to what fits beside the matrix; cut between UTF-8 characters.
static void class_name(const matrix *m, int index, char *out, size_t bytes) {
    if (m->classes == NULL) {
        snprintf(out, bytes, "%d", index);
        return;
    }
    size_t length = strlen(m->classes[index]), kept = length;
    if (length > MAX_NAME) {
        kept = MAX_NAME - 1;
        while (kept > 0 && ((unsigned char)m->classes[index][kept] & 0xc0) == 0x80)
            --kept;
    }
    snprintf(out, bytes, "%.*s%s", (int)kept, m->classes[index], kept < length ? "…" : "");
}

static double widest_name(cairo_t *cr, const matrix *m) {
    char name[64];
    double widest = 0;
    for (int c = 0; m->named && c < m->confusion->classes; ++c) {
        class_name(m, c, name, sizeof name);
        widest = fmax(widest, sr_plot_text_width(cr, 12, false, name));
    }
    return widest;
}

static void draw_cell(cairo_t *cr, const matrix *m, int truth, int predicted) {
    double part = share(m, truth, predicted);
    double x = m->left + m->cell * predicted, y = m->top + m->cell * truth;
    cairo_rectangle(cr, x, y, m->cell - 1, m->cell - 1);
    sr_plot_color(cr, cell_color(m, truth, predicted), 1);
    cairo_fill(cr);
    if (!m->numbered || part < 0.0005)
        return;
    char text[16];
    double size = fmin(13, m->cell * 0.30);
    uint32_t ink = strength(m, truth, predicted) > 0.55 ? 0xffffffu : (uint32_t)SR_INK;
    snprintf(text, sizeof text, part < 0.0995 ? "%.1f" : "%.0f", 100 * part);
    sr_plot_text(cr, x + m->cell / 2, y + m->cell / 2 + size * 0.36, size, truth == predicted, ink,
                 SR_ALIGN_CENTER, text);
}

// Many classes as one picture of a pixel a cell: a million rectangles would make a huge SVG.
static void draw_cells_as_picture(cairo_t *cr, const matrix *m) {
    int n = m->confusion->classes;
    cairo_surface_t *cells = cairo_image_surface_create(CAIRO_FORMAT_RGB24, n, n);
    unsigned char *row = cairo_image_surface_get_data(cells);
    int stride = cairo_image_surface_get_stride(cells);
    for (int t = 0; row != NULL && t < n; ++t, row += stride)
        for (int p = 0; p < n; ++p) {
            uint32_t color = cell_color(m, t, p);
            memcpy(row + (ptrdiff_t)4 * p, &color, 4);
        }
    cairo_surface_mark_dirty(cells);
    cairo_save(cr);
    cairo_translate(cr, m->left, m->top);
    cairo_scale(cr, m->cell, m->cell);
    cairo_set_source_surface(cr, cells, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_paint(cr);
    cairo_restore(cr);
    cairo_surface_destroy(cells);
}

static void draw_names(cairo_t *cr, const matrix *m) {
    char name[64];
    int n = m->confusion->classes;
    double size = fmin(12, fmax(7, m->cell * 0.8)), bottom = m->top + m->cell * n;
    for (int c = 0; c < n; ++c) {
        double middle = m->cell * (c + 0.5);
        class_name(m, c, name, sizeof name);
        sr_plot_text(cr, m->left - 8, m->top + middle + size * 0.36, size, false, SR_SOFT,
                     SR_ALIGN_RIGHT, name);
        cairo_save(cr);
        cairo_translate(cr, m->left + middle + size * 0.3, bottom + 12);
        cairo_rotate(cr, -3.14159265358979 / 4);
        sr_plot_text(cr, 0, size * 0.3, size, false, SR_SOFT, SR_ALIGN_RIGHT, name);
        cairo_restore(cr);
    }
}

static void draw_heading(cairo_t *cr, const matrix *m) {
    int n = m->confusion->classes;
    int64_t hits = 0, all = 0;
    char text[128], count[48];
    for (int t = 0; t < n; ++t) {
        all += m->row_sums[t];
        hits += m->confusion->counts[(int64_t)t * n + t];
    }
    sr_plot_number((double)all, 1, count, sizeof count);
    snprintf(text, sizeof text, "%.2f %% of %s right",
             all == 0 ? 0.0 : 100.0 * (double)hits / (double)all, count);
    sr_plot_text(cr, 30, 44, 20, true, SR_INK, SR_ALIGN_LEFT, "Confusion");
    sr_plot_text(cr, 30, 66, 13, false, SR_SOFT, SR_ALIGN_LEFT, text);
    sr_plot_text(cr, m->left + m->cell * n, 66, 13, false, SR_SOFT, SR_ALIGN_RIGHT,
                 "rows: truth   ·   columns: prediction   ·   % of row");
}

static void draw(cairo_t *cr, double width, double height, const void *user) {
    const matrix *m = user;
    (void)width;
    (void)height;
    draw_heading(cr, m);
    if (!m->named) {
        draw_cells_as_picture(cr, m);
        return;
    }
    for (int t = 0; t < m->confusion->classes; ++t)
        for (int p = 0; p < m->confusion->classes; ++p)
            draw_cell(cr, m, t, p);
    draw_names(cr, m);
}

// Width of the longest name, measured on a surface that nobody sees.
static double measure_names(const matrix *m) {
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1);
    cairo_t *cr = cairo_create(surface);
    double width = widest_name(cr, m);
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    return width;
}

sr_status sr_confusion_plot(const sr_confusion *confusion, const char *const *classes,
                            const char *folder) {
    int n = confusion->classes;
    if (n < 1 || n > 4000)
        return SR_FAIL(SR_E_LIMIT, "%s: a confusion matrix of %d classes is not drawn", folder, n);
    int64_t *sums = sr_alloc_array((size_t)n, sizeof *sums, "row sums");
    if (sums == NULL)
        return SR_E_MEMORY;
    for (int64_t i = 0; i < (int64_t)n * n; ++i)
        sums[i / n] += confusion->counts[i];
    matrix m = {.confusion = confusion, .classes = classes, .row_sums = sums};
    m.named = n <= NAMED_CLASSES;
    m.numbered = n <= NUMBERED_CLASSES;
    m.cell = n <= 12 ? 54 : n <= NUMBERED_CLASSES ? 40 : fmax(1, floor(900.0 / n));
    double names = measure_names(&m);
    m.left = 30 + (m.named ? names + 10 : 0);
    m.top = 90;
    double side = m.cell * n, wanted = m.left + side + 30;
    int width = (int)ceil(fmax(wanted, 560));
    m.left += fmax(0, (width - wanted) / 2);
    int height = (int)ceil(m.top + side + 30 + (m.named ? 0.72 * names + 12 : 0));
    sr_status status = sr_plot_write(folder, "confusion", width, height, draw, &m);
    sr_free(sums);
    return status;
}
