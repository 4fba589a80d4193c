// SPDX-License-Identifier: Apache-2.0
// Recording figures (figure.h): each operation is its kind and its fields, in the order in which
// figure_unpack.c reads them.
#include "trainer/draw/figure.h"

#include <string.h>

#include "trainer/draw/figure_internal.h"
#include "trainer/draw/picture_bytes_internal.h"

void sr_figure_init(sr_figure *figure, int width, int height) {
    *figure = (sr_figure){.width = width, .height = height};
    sr_text_init(&figure->operations);
}

void sr_figure_release(sr_figure *figure) {
    sr_text_release(&figure->operations);
    figure->count = 0;
}

sr_status sr_figure_check(const sr_figure *figure) {
    sr_arena arena;
    sr_figure_list list;
    SR_TRY(sr_text_check(&figure->operations));
    sr_arena_init(&arena);
    const sr_status status = sr_figure_unpack(figure, &arena, &list);
    sr_arena_release(&arena);
    return status;
}

static sr_text *begin(sr_figure *figure, sr_figure_kind kind) {
    figure->count++;
    sr_bytes_put(&figure->operations, kind);
    return &figure->operations;
}

static void put_area(sr_text *out, double x, double y, double width, double height) {
    sr_bytes_put_double(out, x);
    sr_bytes_put_double(out, y);
    sr_bytes_put_double(out, width);
    sr_bytes_put_double(out, height);
}

void sr_figure_add_rectangle(sr_figure *figure, sr_figure_rectangle r) {
    sr_text *out = begin(figure, SR_FIGURE_RECTANGLE);
    put_area(out, r.x, r.y, r.width, r.height);
    sr_bytes_put(out, r.color);
}

void sr_figure_add_text(sr_figure *figure, sr_figure_text t) {
    sr_text *out = begin(figure, SR_FIGURE_TEXT);
    sr_bytes_put_string(out, t.text);
    sr_bytes_put_double(out, t.x);
    sr_bytes_put_double(out, t.y);
    sr_bytes_put_double(out, t.size);
    sr_bytes_put_double(out, t.max_width);
    sr_bytes_put_double(out, t.rotation);
    sr_bytes_put(out, t.color);
    sr_bytes_put(out, t.align);
    sr_bytes_put(out, t.bold);
}

void sr_figure_add_line(sr_figure *figure, sr_figure_line l) {
    sr_text *out = begin(figure, SR_FIGURE_LINE);
    const size_t count = l.count > 0 ? (size_t)l.count : 0;
    sr_bytes_put(out, (int64_t)count);
    sr_bytes_put_block(out, l.points, 2 * count * sizeof *l.points);
    sr_bytes_put_double(out, l.width);
    sr_bytes_put(out, l.color);
}

void sr_figure_add_pixels(sr_figure *figure, sr_figure_pixels p) {
    sr_text *out = begin(figure, SR_FIGURE_PIXELS);
    const bool valid = p.rows > 0 && p.columns > 0;
    put_area(out, p.x, p.y, p.width, p.height);
    sr_bytes_put(out, p.rows);
    sr_bytes_put(out, p.columns);
    sr_bytes_put_block(out, valid ? p.rgb : NULL, (size_t)p.rows * (size_t)p.columns * 3);
}

static void put_values(sr_text *out, const double *values, int64_t stride, int64_t count) {
    sr_bytes_put(out, count * (int64_t)sizeof *values); // as a block
    for (int64_t i = 0; i < count; i++)
        sr_bytes_put_double(out, values[i * stride]);
}

static void put_series(sr_text *out, const sr_panel_series *s) {
    const int64_t count = s->count > 0 ? s->count : 0;
    sr_bytes_put_string(out, s->name);
    sr_bytes_put(out, s->color);
    sr_bytes_put(out, count);
    put_values(out, s->x, s->stride, count);
    put_values(out, s->y, s->stride, count);
    sr_bytes_put(out, s->smooth);
    sr_bytes_put(out, s->marks);
}

void sr_figure_add_panel(sr_figure *figure, sr_panel p) {
    sr_text *out = begin(figure, SR_FIGURE_PANEL);
    put_area(out, p.x, p.y, p.width, p.height);
    sr_bytes_put_string(out, p.title);
    sr_bytes_put_string(out, p.x_title);
    sr_bytes_put_double(out, p.x_unit);
    sr_bytes_put(out, p.from_zero);
    sr_bytes_put_double(out, p.cap);
    sr_bytes_put(out, p.series_count);
    for (int i = 0; i < p.series_count; i++)
        put_series(out, &p.series[i]);
}

// -- width of text -----------------------------------------------------------------------------

// In parts of the font's size, of common sans-serif fonts.
static double width_of(const char *character, size_t bytes) {
    static const struct {
        const char *letters;
        double width;
    } widths[] = {{"ijlI|.,:;'! ", 0.31}, {"ftr()[]/-\"", 0.4}, {"mwMW@%", 0.92}};
    if (bytes > 1)
        return bytes > 2 ? 1 : 0.63; // from U+0800 on, most are as wide as high
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (strchr(widths[i].letters, *character))
            return widths[i].width;
    return *character >= 'A' && *character <= 'Z' ? 0.7 : 0.61;
}

double sr_figure_text_width(double size, const char *text) {
    double width = 0;
    while (*text) {
        const size_t found = sr_text_utf8_length(text), bytes = found > 0 ? found : 1;
        width += width_of(text, bytes);
        text += bytes;
    }
    return size * width;
}
