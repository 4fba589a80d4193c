// SPDX-License-Identifier: Apache-2.0
// Reads the operations of a figure (figure_internal.h), one function for each kind.
#include <math.h>

#include "trainer/draw/figure_internal.h"
#include "trainer/draw/picture_bytes_internal.h"

enum { TEXT_SIZE_MAX = 1000 };

static double get_length(sr_bytes_reader *r) {
    const double length = sr_bytes_get_double(r);
    r->failed = r->failed || !isfinite(length);
    return r->failed ? 0 : length;
}

static uint32_t get_color(sr_bytes_reader *r) {
    return (uint32_t)sr_bytes_get_within(r, 0, 0xffffff);
}

static bool get_flag(sr_bytes_reader *r) {
    return sr_bytes_get_within(r, 0, 1) != 0;
}

static void get_rectangle(sr_bytes_reader *r, sr_figure_operation *out) {
    sr_figure_rectangle *rectangle = &out->as.rectangle;
    rectangle->x = get_length(r);
    rectangle->y = get_length(r);
    rectangle->width = get_length(r);
    rectangle->height = get_length(r);
    rectangle->color = get_color(r);
}

static void get_text(sr_bytes_reader *r, sr_figure_operation *out) {
    sr_figure_text *text = &out->as.text;
    text->text = sr_bytes_get_text(r);
    text->x = get_length(r);
    text->y = get_length(r);
    text->size = get_length(r);
    text->max_width = get_length(r);
    text->rotation = get_length(r);
    text->color = get_color(r);
    text->align = (sr_align)sr_bytes_get_within(r, SR_ALIGN_LEFT, SR_ALIGN_RIGHT);
    text->bold = get_flag(r);
    r->failed = r->failed || text->size <= 0 || text->size > TEXT_SIZE_MAX || text->max_width < 0 ||
                text->max_width > SR_FIGURE_SIDE;
}

static void get_line(sr_bytes_reader *r, sr_figure_operation *out) {
    sr_figure_line *line = &out->as.line;
    line->count = sr_bytes_get_count(r);
    line->points = sr_bytes_get_block(r, 2 * (size_t)line->count * sizeof *line->points);
    line->width = get_length(r);
    line->color = get_color(r);
    r->failed = r->failed || (line->count > 0 && !line->points) || line->width < 0;
    for (int i = 0; !r->failed && i < 2 * line->count; i++)
        r->failed = !isfinite(line->points[i]);
}

static void get_pixels(sr_bytes_reader *r, sr_figure_operation *out) {
    sr_figure_pixels *pixels = &out->as.pixels;
    pixels->x = get_length(r);
    pixels->y = get_length(r);
    pixels->width = get_length(r);
    pixels->height = get_length(r);
    pixels->rows = (int)sr_bytes_get_within(r, 1, SR_FIGURE_SIDE);
    pixels->columns = (int)sr_bytes_get_within(r, 1, SR_FIGURE_SIDE);
    pixels->rgb = sr_bytes_get_block(r, (size_t)pixels->rows * (size_t)pixels->columns * 3);
    r->failed = r->failed || !pixels->rgb || pixels->width <= 0 || pixels->height <= 0;
}

static void get_series(sr_bytes_reader *r, sr_panel_series *out) {
    out->name = sr_bytes_get_text(r);
    out->color = get_color(r);
    out->stride = 1;
    out->count = sr_bytes_get_count(r);
    out->x = sr_bytes_get_block(r, (size_t)out->count * sizeof *out->x);
    out->y = sr_bytes_get_block(r, (size_t)out->count * sizeof *out->y);
    out->smooth = get_flag(r);
    out->marks = get_flag(r);
    r->failed = r->failed || !out->x || !out->y;
}

static void get_panel(sr_bytes_reader *r, sr_figure_operation *out) {
    sr_panel *panel = &out->as.panel;
    panel->x = get_length(r);
    panel->y = get_length(r);
    panel->width = get_length(r);
    panel->height = get_length(r);
    panel->title = sr_bytes_get_text(r);
    panel->x_title = sr_bytes_get_string(r);
    panel->x_unit = get_length(r);
    panel->from_zero = get_flag(r);
    panel->cap = get_length(r);
    panel->series_count = sr_bytes_get_count(r);
    sr_panel_series *series = sr_bytes_new_array(r, panel->series_count, sizeof *series);
    for (int i = 0; !r->failed && i < panel->series_count; i++)
        get_series(r, &series[i]);
    panel->series = series;
}

static const struct {
    const char *name;
    void (*get)(sr_bytes_reader *r, sr_figure_operation *out);
} kinds[SR_FIGURE_KINDS] = {[SR_FIGURE_RECTANGLE] = {"rectangle", get_rectangle},
                            [SR_FIGURE_TEXT] = {"text", get_text},
                            [SR_FIGURE_LINE] = {"line", get_line},
                            [SR_FIGURE_PIXELS] = {"picture", get_pixels},
                            [SR_FIGURE_PANEL] = {"panel", get_panel}};

static sr_status get_operation(sr_bytes_reader *r, int index, sr_figure_operation *out) {
    out->kind = (sr_figure_kind)sr_bytes_get_within(r, 0, SR_FIGURE_KINDS - 1);
    if (!r->failed)
        kinds[out->kind].get(r, out);
    return r->failed ? SR_FAIL(SR_E_ARGUMENT,
                               "operation %d of a figure (%s) cannot be drawn: lengths are finite, "
                               "sizes positive, texts and values not NULL",
                               index, kinds[out->kind].name)
                     : SR_OK;
}

sr_status sr_figure_unpack(const sr_figure *figure, sr_arena *arena, sr_figure_list *out) {
    sr_bytes_reader r = {
        .at = figure->operations.data, .left = figure->operations.length, .arena = arena};
    const int width = figure->width, height = figure->height, count = figure->count;
    if (width < 1 || height < 1 || width > SR_FIGURE_SIDE || height > SR_FIGURE_SIDE)
        return SR_FAIL(SR_E_LIMIT, "a figure of %d x %d pixels is not drawn; the limit is %d",
                       width, height, SR_FIGURE_SIDE);
    if (count < 0 || (size_t)count > r.left / sizeof(int64_t))
        return SR_FAIL(SR_E_ARGUMENT, "a figure of %d operations is incomplete", count);
    sr_figure_operation *operations = sr_bytes_new_array(&r, count, sizeof *operations);
    if (r.failed)
        return SR_E_MEMORY;
    for (int i = 0; i < count; i++)
        SR_TRY(get_operation(&r, i, &operations[i]));
    if (r.left > 0)
        return SR_FAIL(SR_E_ARGUMENT, "a figure has more than its %d operations", count);
    *out = (sr_figure_list){
        .width = width, .height = height, .count = count, .operations = operations};
    return SR_OK;
}
