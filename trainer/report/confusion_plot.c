// SPDX-License-Identifier: Apache-2.0
// confusion.png and confusion.svg: correct predictions in blue on the diagonal, mistakes in orange
// off it.
//
// Cells are percent of their row (the true class), so that rare classes show as clearly as common
// ones. Mistakes are coloured by the square root of their share, so that a few percent are visible.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/draw/plot_internal.h"

enum {
    NAMED_CLASSES = 40,
    NUMBERED_CLASSES = 24,
    MAX_NAME = 190, // pixels
    MISTAKES = 24,  // of the list beside a matrix without names
    LIST_WIDTH = 460,
};

typedef struct mistake {
    int truth, predicted;
    int64_t count;
} mistake;

typedef struct matrix {
    const sr_confusion *confusion;
    const char *const *classes;
    bool named, numbered;
    double cell, left, top;     // pixels
    const int64_t *row_sums;    // samples of each class
    mistake mistakes[MISTAKES]; // the most frequent mistakes
    int mistake_count;
} matrix;

static double share(const matrix *m, int truth, int predicted) {
    int64_t count = m->confusion->counts[(int64_t)truth * m->confusion->classes + predicted];
    return m->row_sums[truth] == 0 ? 0 : (double)count / (double)m->row_sums[truth];
}

// 0: no such sample, 1: all of the row. Mistakes by the square root of their share.
static double strength(const matrix *m, int truth, int predicted) {
    double fraction = share(m, truth, predicted);
    return truth == predicted ? fraction : fmin(1, 1.25 * sqrt(fraction));
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

static const char *class_name(const matrix *m, int index, char number[16]) {
    if (m->classes != NULL)
        return m->classes[index];
    snprintf(number, 16, "%d", index);
    return number;
}

// Width of the widest name beside the matrix.
static double widest_name(const matrix *m) {
    char number[16];
    double widest = 0;
    for (int c = 0; m->named && c < m->confusion->classes; ++c)
        widest = fmax(widest, sr_plot_measure(12, false, class_name(m, c, number)));
    return fmin(widest, MAX_NAME);
}

static void draw_cell(cairo_t *cr, const matrix *m, int truth, int predicted) {
    double fraction = share(m, truth, predicted);
    double x = m->left + m->cell * predicted, y = m->top + m->cell * truth;
    cairo_rectangle(cr, x, y, m->cell - 1, m->cell - 1);
    sr_plot_color(cr, cell_color(m, truth, predicted), 1);
    cairo_fill(cr);
    if (!m->numbered || fraction < 0.0005)
        return;
    char text[16];
    double size = fmin(13, m->cell * 0.30);
    uint32_t ink = strength(m, truth, predicted) > 0.55 ? 0xffffffu : (uint32_t)SR_INK;
    snprintf(text, sizeof text, fraction < 0.0995 ? "%.1f" : "%.0f", 100 * fraction);
    sr_plot_text(cr, x + m->cell / 2, y + m->cell / 2 + size * 0.36, size, truth == predicted, ink,
                 SR_ALIGN_CENTER, text);
}

// Draws many classes as one image with a pixel per cell: a million rectangles would be a huge SVG.
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
    char number[16];
    int n = m->confusion->classes;
    double size = fmin(12, fmax(7, m->cell * 0.8)), bottom = m->top + m->cell * n;
    for (int c = 0; c < n; ++c) {
        double middle = m->cell * (c + 0.5);
        const char *name = class_name(m, c, number);
        sr_plot_text_fit(cr, m->left - 8, m->top + middle + size * 0.36, size, false, SR_SOFT,
                         SR_ALIGN_RIGHT, MAX_NAME, name);
        cairo_save(cr);
        cairo_translate(cr, m->left + middle + size * 0.3, bottom + 12);
        cairo_rotate(cr, -3.14159265358979 / 4);
        sr_plot_text_fit(cr, 0, size * 0.3, size, false, SR_SOFT, SR_ALIGN_RIGHT, MAX_NAME, name);
        cairo_restore(cr);
    }
}

// "tabby cat > tiger cat    12 of 50", the most frequent first.
static void draw_mistakes(cairo_t *cr, const matrix *m) {
    const double left = m->left + m->cell * m->confusion->classes + 36, name = LIST_WIDTH / 2 - 70;
    double y = m->top + 14;
    sr_plot_text(cr, left, y, 15, true, SR_INK, SR_ALIGN_LEFT, "Most frequent mistakes");
    y += 24;
    sr_plot_text(cr, left, y, 12, false, SR_SOFT, SR_ALIGN_LEFT, "truth");
    sr_plot_text(cr, left + name + 30, y, 12, false, SR_SOFT, SR_ALIGN_LEFT, "prediction");
    sr_plot_text(cr, left + LIST_WIDTH - 36, y, 12, false, SR_SOFT, SR_ALIGN_RIGHT, "samples");
    for (int i = 0; i < m->mistake_count; ++i) {
        const mistake *p = &m->mistakes[i];
        char number[16], count[64];
        y += 25;
        sr_plot_text_fit(cr, left, y, 13, false, SR_INK, SR_ALIGN_LEFT, name,
                         class_name(m, p->truth, number));
        sr_plot_text_fit(cr, left + name + 30, y, 13, false, 0xb85c0e, SR_ALIGN_LEFT, name,
                         class_name(m, p->predicted, number));
        snprintf(count, sizeof count, "%lld of %lld", (long long)p->count,
                 (long long)m->row_sums[p->truth]);
        sr_plot_text(cr, left + LIST_WIDTH - 36, y, 13, false, SR_SOFT, SR_ALIGN_RIGHT, count);
    }
    if (m->mistake_count == 0)
        sr_plot_text(cr, left, y + 25, 13, false, SR_SOFT, SR_ALIGN_LEFT, "none");
}

static void draw_heading(cairo_t *cr, const matrix *m, double width) {
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
    sr_plot_text(cr, width - 30, 66, 13, false, SR_SOFT, SR_ALIGN_RIGHT,
                 "rows: truth   ·   columns: prediction   ·   % of row");
}

static void draw(cairo_t *cr, double width, double height, const void *user) {
    const matrix *m = user;
    (void)height;
    draw_heading(cr, m, width);
    if (!m->named) {
        draw_cells_as_picture(cr, m);
        draw_mistakes(cr, m);
        return;
    }
    for (int t = 0; t < m->confusion->classes; ++t)
        for (int p = 0; p < m->confusion->classes; ++p)
            draw_cell(cr, m, t, p);
    draw_names(cr, m);
}

// Keeps the list sorted; equal counts stay in the order of the matrix.
static void add_mistake(matrix *m, mistake p) {
    int at = m->mistake_count < MISTAKES ? m->mistake_count++ : MISTAKES;
    for (; at > 0 && m->mistakes[at - 1].count < p.count; --at)
        if (at < MISTAKES)
            m->mistakes[at] = m->mistakes[at - 1];
    if (at < MISTAKES)
        m->mistakes[at] = p;
}

static void find_mistakes(matrix *m) {
    const int n = m->confusion->classes;
    const int64_t *count = m->confusion->counts;
    for (int t = 0; t < n; ++t)
        for (int p = 0; p < n; ++p, ++count)
            if (t != p && *count > 0)
                add_mistake(m, (mistake){.truth = t, .predicted = p, .count = *count});
}

sr_status sr_plot_confusion(const sr_confusion *confusion, const char *const *classes,
                            const char *folder) {
    int n = confusion->classes;
    if (n < 1 || n > 4000)
        return SR_FAIL(SR_E_LIMIT,
                       "%s: a confusion matrix of %d classes is not drawn; the limit is 4000",
                       folder, n);
    int64_t *sums = sr_alloc_array((size_t)n, sizeof *sums, "row sums");
    if (sums == NULL)
        return SR_E_MEMORY;
    for (int64_t i = 0; i < (int64_t)n * n; ++i)
        sums[i / n] += confusion->counts[i];
    matrix m = {.confusion = confusion, .classes = classes, .row_sums = sums};
    m.named = n <= NAMED_CLASSES;
    m.numbered = n <= NUMBERED_CLASSES;
    m.cell = n <= 4 ? 100 : n <= 12 ? 54 : n <= NUMBERED_CLASSES ? 40 : fmax(1, floor(900.0 / n));
    if (!m.named)
        find_mistakes(&m);
    double names = widest_name(&m);
    m.left = 30 + (m.named ? names + 10 : 0);
    m.top = 90;
    double side = m.cell * n, wanted = m.left + side + 30;
    int width = (int)ceil(fmax(wanted, 560));
    m.left += fmax(0, (width - wanted) / 2);
    int height = (int)ceil(m.top + side + 30 + (m.named ? 0.72 * names + 12 : 0));
    if (!m.named) {
        width += LIST_WIDTH;
        height = height < 760 ? 760 : height;
    }
    sr_status status = sr_plot_write(folder, "confusion", width, height, draw, &m);
    sr_free(sums);
    return status;
}
