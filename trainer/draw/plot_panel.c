// SPDX-License-Identifier: Apache-2.0
// One panel: title, legend with the last values, axes with round ticks, curves.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/memory.h"
#include "trainer/draw/plot_internal.h"

enum { MAX_TICKS = 24 };

typedef struct plot_area {
    double left, top, width, height; // of the plot area
    double x0, x1, y0, y1;           // data at its edges
} plot_area;

static double to_x(const plot_area *a, double value) {
    return a->left + a->width * (value - a->x0) / (a->x1 - a->x0);
}

static double to_y(const plot_area *a, double value) {
    return a->top + a->height * (1 - (value - a->y0) / (a->y1 - a->y0));
}

static bool point(const sr_panel_series *s, int64_t i, double *x, double *y) {
    *x = s->x[i * s->stride];
    *y = s->y[i * s->stride];
    return isfinite(*x) && isfinite(*y);
}

// -- ranges ----------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Highest value to show: the largest, unless a few points (an initial loss) are far above all
// others.
static double robust_high(double *sorted, int64_t n) {
    double high = sorted[n - 1], typical = sorted[(int64_t)(0.98 * (double)(n - 1))];
    double low = sorted[0];
    bool towers = n >= 20 && typical > low && high - low > 2.5 * (typical - low);
    return towers ? low + 1.15 * (typical - low) : high;
}

// Finds the ranges of the points; false if there are none.
static bool find_range(const sr_panel *panel, plot_area *a) {
    int64_t total = 0, n = 0;
    for (int s = 0; s < panel->series_count; ++s)
        total += panel->series[s].count;
    double *values = sr_alloc_array((size_t)total, sizeof *values, "plot values");
    a->x0 = HUGE_VAL;
    a->x1 = -HUGE_VAL;
    for (int s = 0; values != NULL && s < panel->series_count; ++s) {
        for (int64_t i = 0; i < panel->series[s].count; ++i) {
            double x, y;
            if (!point(&panel->series[s], i, &x, &y))
                continue;
            a->x0 = fmin(a->x0, x);
            a->x1 = fmax(a->x1, x);
            values[n++] = y;
        }
    }
    if (n > 0) {
        qsort(values, (size_t)n, sizeof *values, compare_doubles);
        a->y0 = values[0];
        a->y1 = robust_high(values, n);
    }
    sr_free(values);
    return n > 0;
}

// Extends the ranges by a margin around the curves, and to 0 where that is near.
static void settle_range(const sr_panel *panel, plot_area *a) {
    double margin = 0.06 * (a->y1 - a->y0);
    if (!(margin > 0))
        margin = a->y1 != 0 ? 0.1 * fabs(a->y1) : 1;
    bool zero = panel->from_zero || (a->y0 >= 0 && a->y0 < 0.35 * a->y1);
    a->y1 += margin;
    a->y0 = zero ? 0 : a->y0 - margin;
    if (panel->cap != 0 && a->y1 > panel->cap)
        a->y1 = panel->cap;
    if (a->x0 >= 0 && a->x0 < 0.2 * a->x1)
        a->x0 = 0;
    if (!(a->x1 > a->x0))
        a->x1 = a->x0 + 1;
}

// -- axes ------------------------------------------------------------------------------------

static void horizontal_line(cairo_t *cr, const plot_area *a, double y, uint32_t rgb) {
    double at = floor(y) + 0.5; // on a pixel: one sharp line
    sr_plot_color(cr, rgb, 1);
    cairo_set_line_width(cr, 1);
    cairo_move_to(cr, a->left, at);
    cairo_line_to(cr, a->left + a->width, at);
    cairo_stroke(cr);
}

static void draw_y_axis(cairo_t *cr, const plot_area *a) {
    double step = sr_plot_step(a->y0, a->y1, 5), first = ceil(a->y0 / step - 1e-9);
    for (int n = 0; n < MAX_TICKS && (first + n) * step <= a->y1 * (1 + 1e-12); ++n) {
        char label[32];
        double value = (first + n) * step, y = to_y(a, value);
        horizontal_line(cr, a, y, SR_GRID);
        sr_plot_number(value, step, label, sizeof label);
        sr_plot_text(cr, a->left - 10, y + 4, 12, false, SR_SOFT, SR_ALIGN_RIGHT, label);
    }
}

static void vertical_line(cairo_t *cr, double x, double from, double to, uint32_t rgb) {
    double at = floor(x) + 0.5;
    sr_plot_color(cr, rgb, 1);
    cairo_set_line_width(cr, 1);
    cairo_move_to(cr, at, from);
    cairo_line_to(cr, at, to);
    cairo_stroke(cr);
}

static void draw_x_axis(cairo_t *cr, const plot_area *a, const sr_panel *panel) {
    double step = fmax(sr_plot_step(a->x0, a->x1, 8), panel->x_unit);
    double first = ceil(a->x0 / step - 1e-9), bottom = a->top + a->height;
    horizontal_line(cr, a, bottom, SR_LINE);
    for (int n = 0; n < MAX_TICKS && (first + n) * step <= a->x1 + step * 1e-9; ++n) {
        char label[32];
        double value = (first + n) * step, x = to_x(a, value);
        if (x > a->left + 1)
            vertical_line(cr, x, a->top, bottom, SR_GRID);
        vertical_line(cr, x, bottom, bottom + 5, SR_LINE);
        sr_plot_number(value, step, label, sizeof label);
        sr_plot_text(cr, x, bottom + 20, 12, false, SR_SOFT, SR_ALIGN_CENTER, label);
    }
    if (panel->x_title != NULL)
        sr_plot_text(cr, a->left + a->width / 2, bottom + 40, 12, false, SR_SOFT, SR_ALIGN_CENTER,
                     panel->x_title);
}

// -- curves ----------------------------------------------------------------------------------

// A curve's finite points in new memory, smoothed if requested. A running mean forward and one
// backward are averaged, so that the smooth curve does not lag behind its points.
typedef struct curve {
    double *x, *y;
    int64_t count;
    bool smoothed;
} curve;

static void smooth_points(const double *from, double *to, int64_t n, double window) {
    double keep = 1 - 1 / window, mean = 0, weight = 0;
    for (int64_t i = 0; i < n; ++i) {
        weight = weight * keep + 1; // no cold start
        mean += (from[i] - mean) / weight;
        to[i] = mean / 2;
    }
    mean = weight = 0;
    for (int64_t i = n; i-- > 0;) {
        weight = weight * keep + 1;
        mean += (from[i] - mean) / weight;
        to[i] += mean / 2;
    }
}

static bool is_smoothed(const sr_panel_series *s, int64_t points) {
    return s->smooth && points >= 16;
}

// count is 0 if there are no points (or no memory for them).
static curve make_curve(const sr_panel_series *s) {
    curve c = {0};
    size_t n = (size_t)s->count;
    double *memory = n == 0 ? NULL : sr_alloc_array(3 * n, sizeof *memory, "plot curve");
    if (memory == NULL)
        return c;
    double *raw = memory + 2 * n;
    c.x = memory;
    c.y = memory + n;
    for (int64_t i = 0; i < s->count; ++i)
        c.count += point(s, i, &c.x[c.count], &raw[c.count]);
    c.smoothed = is_smoothed(s, c.count);
    if (c.smoothed)
        smooth_points(raw, c.y, c.count, fmin(40, fmax(3, (double)c.count / 25)));
    else
        for (int64_t i = 0; i < c.count; ++i)
            c.y[i] = raw[i];
    return c;
}

static void release_curve(curve *c) {
    sr_free(c->x);
}

static void stroke_curve(cairo_t *cr, const plot_area *a, const curve *c, uint32_t color) {
    for (int64_t i = 0; i < c->count; ++i)
        cairo_line_to(cr, to_x(a, c->x[i]), to_y(a, c->y[i]));
    sr_plot_color(cr, color, 1);
    cairo_set_line_width(cr, 2.2);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cr, CAIRO_LINE_CAP_ROUND);
    cairo_stroke(cr);
}

static void stroke_raw(cairo_t *cr, const plot_area *a, const sr_panel_series *s) {
    double x, y;
    for (int64_t i = 0; i < s->count; ++i)
        if (point(s, i, &x, &y))
            cairo_line_to(cr, to_x(a, x), to_y(a, y));
    sr_plot_color(cr, s->color, 0.26);
    cairo_set_line_width(cr, 1);
    cairo_stroke(cr);
}

static void draw_marks(cairo_t *cr, const plot_area *a, const sr_panel_series *s) {
    for (int64_t i = 0; i < s->count; ++i) {
        double x, y;
        if (!point(s, i, &x, &y))
            continue;
        cairo_new_sub_path(cr);
        cairo_arc(cr, to_x(a, x), to_y(a, y), 3.2, 0, 2 * 3.14159265358979);
        sr_plot_color(cr, SR_WHITE, 1);
        cairo_fill_preserve(cr);
        sr_plot_color(cr, s->color, 1);
        cairo_set_line_width(cr, 1.8);
        cairo_stroke(cr);
    }
}

static void draw_series(cairo_t *cr, const plot_area *a, const sr_panel_series *s) {
    curve c = make_curve(s);
    cairo_save(cr); // values above the range are clipped
    cairo_rectangle(cr, a->left, a->top - 2, a->width + 2, a->height + 4);
    cairo_clip(cr);
    if (c.smoothed)
        stroke_raw(cr, a, s);
    stroke_curve(cr, a, &c, s->color);
    cairo_restore(cr);
    if ((s->marks && c.count <= 60) || c.count == 1)
        draw_marks(cr, a, s);
    release_curve(&c);
}

// Right-aligned: "train 0.213   val 0.254" with the last values, each after a line in its colour.
static void draw_legend(cairo_t *cr, double right, double y, const sr_panel *panel) {
    for (int s = panel->series_count; s-- > 0;) {
        const sr_panel_series *series = &panel->series[s];
        curve c = make_curve(series);
        if (c.count > 0 && *series->name) {
            char label[96], value[32];
            double last = c.y[c.count - 1];
            sr_plot_number(last, pow(10, floor(log10(fmax(fabs(last), 1e-12))) - 3), value,
                           sizeof value);
            snprintf(label, sizeof label, "%s  %s", series->name, value);
            double width = sr_plot_text(cr, right, y, 12, false, SR_INK, SR_ALIGN_RIGHT, label);
            sr_plot_color(cr, series->color, 1);
            cairo_set_line_width(cr, 3);
            cairo_set_line_cap(cr, CAIRO_LINE_CAP_ROUND);
            cairo_move_to(cr, right - width - 20, y - 4);
            cairo_line_to(cr, right - width - 8, y - 4);
            cairo_stroke(cr);
            right -= width + 38;
        }
        release_curve(&c);
    }
}

void sr_plot_panel_draw(cairo_t *cr, const sr_panel *panel) {
    const double x = panel->x, y = panel->y;
    plot_area a = {
        .left = x + 62, .top = y + 34, .width = panel->width - 70, .height = panel->height - 66};
    sr_plot_text(cr, x, y + 14, 15, true, SR_INK, SR_ALIGN_LEFT, panel->title);
    if (!find_range(panel, &a)) {
        a.x0 = a.y0 = 0;
        a.x1 = a.y1 = 1;
        horizontal_line(cr, &a, a.top + a.height, SR_LINE);
        sr_plot_text(cr, a.left + a.width / 2, a.top + a.height / 2, 14, false, SR_SOFT,
                     SR_ALIGN_CENTER, "no values yet");
        return;
    }
    settle_range(panel, &a);
    draw_y_axis(cr, &a);
    draw_x_axis(cr, &a, panel);
    for (int s = 0; s < panel->series_count; ++s)
        draw_series(cr, &a, &panel->series[s]);
    draw_legend(cr, a.left + a.width, y + 14, panel);
}
