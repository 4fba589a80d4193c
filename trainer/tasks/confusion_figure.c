// SPDX-License-Identifier: Apache-2.0
// The confusion matrix as a figure: correct predictions in blue on the diagonal, mistakes in orange
// off it.
//
// Cells are percent of their row (the true class), so that rare classes show as clearly as common
// ones. Mistakes are coloured by the square root of their share, so that a few percent are visible.
#include "trainer/tasks/confusion_figure.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/plot_ticks.h"
#include "trainer/draw/plots.h"

enum {
    NAMED_CLASSES = 40,
    NUMBERED_CLASSES = 24,
    MAX_CLASSES = 4000,
    NAME_SIZE = 12, // of the font
    MAX_NAME = 190, // pixels
    MISTAKES = 24,  // of the list beside a matrix without names
    LIST_WIDTH = 460,
    MISTAKE_NAME = LIST_WIDTH / 2 - 70,
};

typedef struct mistake {
    int truth, predicted;
    int64_t count;
} mistake;

typedef struct matrix {
    sr_figure *figure;
    const sr_confusion *confusion;
    const char *const *classes;
    bool named, numbered;
    int width, height;          // of the figure
    double cell, left, top;     // pixels
    double name;                // a longer one is cut
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

// Between almost white and the hit's or mistake's colour.
static uint32_t cell_color(const matrix *m, int truth, int predicted) {
    return sr_color_mix(SR_EMPTY, truth == predicted ? SR_BLUE : SR_ORANGE,
                        strength(m, truth, predicted));
}

static const char *class_name(const matrix *m, int index, char number[16]) {
    if (m->classes != NULL)
        return m->classes[index];
    snprintf(number, 16, "%d", index);
    return number;
}

static void add_text(const matrix *m, sr_figure_text text) {
    sr_figure_add_text(m->figure, text);
}

// Width of the widest name beside the matrix.
static double widest_name(const matrix *m) {
    char number[16];
    double widest = 0;
    for (int c = 0; m->named && c < m->confusion->classes; ++c)
        widest = fmax(widest, sr_figure_text_width(NAME_SIZE, class_name(m, c, number)));
    return ceil(fmin(widest, MAX_NAME));
}

static void add_number(const matrix *m, int truth, int predicted, double x, double y) {
    const double fraction = share(m, truth, predicted), size = fmin(13, m->cell * 0.30);
    char text[16];
    snprintf(text, sizeof text, fraction < 0.0995 ? "%.1f" : "%.0f", 100 * fraction);
    add_text(m, (sr_figure_text){.text = text,
                                 .x = x + m->cell / 2,
                                 .y = y + m->cell / 2 + size * 0.36,
                                 .size = size,
                                 .bold = truth == predicted,
                                 .color = strength(m, truth, predicted) > 0.55 ? SR_WHITE : SR_INK,
                                 .align = SR_ALIGN_CENTER});
}

static void add_cell(const matrix *m, int truth, int predicted) {
    const double x = m->left + m->cell * predicted, y = m->top + m->cell * truth;
    sr_figure_add_rectangle(m->figure,
                            (sr_figure_rectangle){.x = x,
                                                  .y = y,
                                                  .width = m->cell - 1,
                                                  .height = m->cell - 1,
                                                  .color = cell_color(m, truth, predicted)});
    if (m->numbered && share(m, truth, predicted) >= 0.0005)
        add_number(m, truth, predicted, x, y);
}

static void add_cells(const matrix *m) {
    for (int t = 0; t < m->confusion->classes; ++t)
        for (int p = 0; p < m->confusion->classes; ++p)
            add_cell(m, t, p);
}

// Many classes are one picture with a pixel per cell: a million rectangles would be a huge SVG.
static sr_status add_cells_as_picture(const matrix *m) {
    const int n = m->confusion->classes;
    uint8_t *rgb = sr_alloc_array((size_t)n * (size_t)n, 3, "confusion matrix"), *to = rgb;
    if (!rgb)
        return SR_E_MEMORY;
    for (int t = 0; t < n; ++t) {
        for (int p = 0; p < n; ++p, to += 3) {
            const uint32_t color = cell_color(m, t, p);
            for (int c = 0; c < 3; ++c)
                to[c] = (uint8_t)(color >> (16 - 8 * c));
        }
    }
    sr_figure_add_pixels(m->figure, (sr_figure_pixels){.x = m->left,
                                                       .y = m->top,
                                                       .width = m->cell * n,
                                                       .height = m->cell * n,
                                                       .rgb = rgb,
                                                       .rows = n,
                                                       .columns = n});
    sr_free(rgb);
    return SR_OK;
}

static void add_names(const matrix *m) {
    const int n = m->confusion->classes;
    const double size = fmin(NAME_SIZE, fmax(7, m->cell * 0.8)), bottom = m->top + m->cell * n;
    const double drop =
        size * 0.3 * 0.70710678118654752; // half a letter, at right angles to the name
    char number[16];
    for (int c = 0; c < n; ++c) {
        const double middle = m->cell * (c + 0.5);
        sr_figure_text name = {.text = class_name(m, c, number),
                               .x = m->left - 8,
                               .y = m->top + middle + size * 0.36,
                               .size = size,
                               .max_width = m->name,
                               .color = SR_SOFT,
                               .align = SR_ALIGN_RIGHT};
        add_text(m, name);
        name.x = m->left + middle + size * 0.3 + drop;
        name.y = bottom + 12 + drop;
        name.rotation = 45;
        add_text(m, name);
    }
}

static void add_mistake_line(const matrix *m, double left, double y, const mistake *p) {
    char number[16], count[64];
    sr_figure_text text = {
        .x = left, .y = y, .size = 13, .max_width = MISTAKE_NAME, .color = SR_INK};
    text.text = class_name(m, p->truth, number);
    add_text(m, text);
    text.x = left + MISTAKE_NAME + 30;
    text.color = SR_RUST;
    text.text = class_name(m, p->predicted, number);
    add_text(m, text);
    snprintf(count, sizeof count, "%lld of %lld", (long long)p->count,
             (long long)m->row_sums[p->truth]);
    add_text(m, (sr_figure_text){.text = count,
                                 .x = left + LIST_WIDTH - 36,
                                 .y = y,
                                 .size = 13,
                                 .color = SR_SOFT,
                                 .align = SR_ALIGN_RIGHT});
}

// "tabby cat > tiger cat    12 of 50", the most frequent first.
static void add_mistakes(const matrix *m) {
    const double left = m->left + m->cell * m->confusion->classes + 36, top = m->top + 38;
    sr_figure_text head = {.text = "truth", .x = left, .y = top, .size = 12, .color = SR_SOFT};
    add_text(m, (sr_figure_text){.text = "Most frequent mistakes",
                                 .x = left,
                                 .y = m->top + 14,
                                 .size = 15,
                                 .bold = true,
                                 .color = SR_INK});
    add_text(m, head);
    head.text = "prediction";
    head.x = left + MISTAKE_NAME + 30;
    add_text(m, head);
    head.text = "samples";
    head.x = left + LIST_WIDTH - 36;
    head.align = SR_ALIGN_RIGHT;
    add_text(m, head);
    for (int i = 0; i < m->mistake_count; ++i)
        add_mistake_line(m, left, top + 25 * (i + 1), &m->mistakes[i]);
    if (m->mistake_count == 0)
        add_text(m, (sr_figure_text){
                        .text = "none", .x = left, .y = top + 25, .size = 13, .color = SR_SOFT});
}

static void add_heading(const matrix *m) {
    const int n = m->confusion->classes;
    int64_t hits = 0, all = 0;
    char text[128], count[48];
    for (int t = 0; t < n; ++t) {
        all += m->row_sums[t];
        hits += m->confusion->counts[(int64_t)t * n + t];
    }
    sr_plot_number((double)all, 1, count, sizeof count);
    snprintf(text, sizeof text, "%.2f %% of %s right",
             all == 0 ? 0.0 : 100.0 * (double)hits / (double)all, count);
    add_text(m,
             (sr_figure_text){
                 .text = "Confusion", .x = 30, .y = 44, .size = 20, .bold = true, .color = SR_INK});
    add_text(m, (sr_figure_text){.text = text, .x = 30, .y = 66, .size = 13, .color = SR_SOFT});
    add_text(m, (sr_figure_text){.text = "rows: truth   ·   columns: prediction   ·   % of row",
                                 .x = m->width - 30,
                                 .y = 66,
                                 .size = 13,
                                 .color = SR_SOFT,
                                 .align = SR_ALIGN_RIGHT});
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

// Sizes and positions.
static void lay_out(matrix *m) {
    const int n = m->confusion->classes;
    m->named = n <= NAMED_CLASSES;
    m->numbered = n <= NUMBERED_CLASSES;
    m->cell = n <= 4 ? 100 : n <= 12 ? 54 : m->numbered ? 40 : fmax(1, floor(900.0 / n));
    const double names = widest_name(m), side = m->cell * n;
    m->left = 30 + (m->named ? names + 10 : 0);
    m->top = 90;
    const double wanted = m->left + side + 30;
    m->width = (int)ceil(fmax(wanted, 560));
    m->left += floor(fmax(0, (m->width - wanted) / 2)); // a whole pixel: sharp edges
    m->name = fmin(MAX_NAME, m->left - 12);
    m->height = (int)ceil(m->top + side + 30 + (m->named ? 0.72 * names + 12 : 0));
    if (!m->named) {
        m->width += LIST_WIDTH;
        m->height = m->height < 760 ? 760 : m->height;
    }
}

static sr_status compose(matrix *m) {
    add_heading(m);
    if (m->named) {
        add_cells(m);
        add_names(m);
        return SR_OK;
    }
    find_mistakes(m);
    SR_TRY(add_cells_as_picture(m));
    add_mistakes(m);
    return SR_OK;
}

sr_status sr_confusion_figure(const sr_confusion *confusion, const char *const *classes,
                              sr_figure *out) {
    const int n = confusion->classes;
    if (n < 1 || n > MAX_CLASSES)
        return SR_FAIL(SR_E_LIMIT, "a confusion matrix of %d classes is not drawn; the limit is %d",
                       n, MAX_CLASSES);
    int64_t *sums = sr_alloc_array((size_t)n, sizeof *sums, "row sums");
    if (sums == NULL)
        return SR_E_MEMORY;
    for (int64_t i = 0; i < (int64_t)n * n; ++i)
        sums[i / n] += confusion->counts[i];
    matrix m = {.figure = out, .confusion = confusion, .classes = classes, .row_sums = sums};
    lay_out(&m);
    sr_figure_init(out, m.width, m.height);
    const sr_status status = compose(&m);
    if (status != SR_OK)
        sr_figure_release(out);
    sr_free(sums);
    return status;
}

void sr_confusion_draw(const sr_confusion *confusion, const char *const *classes,
                       const char *folder, sr_drawing *drawing) {
    sr_figure figure;
    if (!drawing || !sr_plots_installed())
        return;
    if (sr_confusion_figure(confusion, classes, &figure) != SR_OK) {
        SR_WARN("confusion.png was not drawn: %s", sr_error_message());
        return;
    }
    sr_drawing_figure(drawing, &figure, "confusion", folder);
    sr_figure_release(&figure);
}
