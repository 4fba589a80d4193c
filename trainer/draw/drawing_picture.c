// SPDX-License-Identifier: Apache-2.0
// A picture as bytes (drawing_internal.h), in the order of the functions below.
#include "trainer/draw/drawing_internal.h"
#include "trainer/draw/picture_bytes_internal.h"
#include "trainer/draw/plots.h"

enum { TILE_SIDE_MAX = 1 << 20 }; // what a sheet refuses by itself is smaller

// -- writing ---------------------------------------------------------------------------------

static void put_objects(sr_text *out, const sr_tile *tile) {
    sr_bytes_put(out, tile->box_count);
    for (int i = 0; i < tile->box_count; i++) {
        const sr_tile_box *box = &tile->boxes[i];
        const float corners[4] = {box->x1, box->y1, box->x2, box->y2};
        sr_bytes_put_block(out, corners, sizeof corners);
        sr_bytes_put(out, box->number);
        sr_bytes_put_string(out, box->label);
    }
    sr_bytes_put(out, tile->outline_count);
    for (int i = 0; i < tile->outline_count; i++) {
        const sr_tile_outline *outline = &tile->outlines[i];
        sr_bytes_put(out, outline->number);
        sr_bytes_put(out, outline->count);
        sr_bytes_put_block(out, outline->points,
                           (size_t)outline->count * 2 * sizeof *outline->points);
    }
}

static void put_sheet(sr_text *out, const sr_samples *sheet) {
    sr_bytes_put_string(out, sheet->title);
    sr_bytes_put(out, sheet->columns);
    sr_bytes_put(out, sheet->side);
    sr_bytes_put(out, sheet->count);
    sr_bytes_put_strings(out, sheet->row_titles, sr_samples_rows(sheet));
    for (int i = 0; i < sheet->count; i++) {
        const sr_tile *tile = &sheet->tiles[i];
        sr_bytes_put(out, tile->width);
        sr_bytes_put(out, tile->height);
        sr_bytes_put(out, tile->verdict);
        sr_bytes_put_string(out, tile->caption);
        sr_bytes_put_string(out, tile->note);
        sr_bytes_put_block(out, tile->rgb, (size_t)(tile->width * tile->height * 3));
        sr_bytes_put_block(out, tile->mask, (size_t)(tile->width * tile->height));
        put_objects(out, tile);
    }
    sr_bytes_put_strings(out, sheet->classes, sheet->class_count);
}

static void put_figure(sr_text *out, const sr_figure *figure) {
    sr_bytes_put(out, figure->width);
    sr_bytes_put(out, figure->height);
    sr_bytes_put(out, figure->count);
    sr_bytes_put(out, (int64_t)figure->operations.length);
    sr_bytes_put_block(out, figure->operations.data, figure->operations.length);
}

void sr_picture_encode(const sr_picture *p, sr_text *out) {
    sr_bytes_put(out, p->kind);
    sr_bytes_put_string(out, p->path);
    sr_bytes_put_string(out, p->name);
    if (p->kind == SR_DRAWING_FIGURE)
        put_figure(out, &p->figure);
    else
        put_sheet(out, &p->sheet);
}

// -- reading ---------------------------------------------------------------------------------

static void get_box(sr_bytes_reader *r, sr_tile_box *box) {
    const float *corners = sr_bytes_get_block(r, 4 * sizeof *corners);
    r->failed = r->failed || !corners;
    if (r->failed)
        return;
    *box = (sr_tile_box){.x1 = corners[0], .y1 = corners[1], .x2 = corners[2], .y2 = corners[3]};
    box->number = (int)sr_bytes_get(r);
    box->label = sr_bytes_get_string(r);
}

static void get_outline(sr_bytes_reader *r, sr_tile_outline *outline) {
    outline->number = (int)sr_bytes_get(r);
    outline->count = sr_bytes_get_count(r);
    outline->points = sr_bytes_get_block(r, (size_t)outline->count * 2 * sizeof *outline->points);
    r->failed = r->failed || (outline->count > 0 && !outline->points);
}

static void get_objects(sr_bytes_reader *r, sr_tile *tile) {
    tile->box_count = sr_bytes_get_count(r);
    sr_tile_box *boxes = sr_bytes_new_array(r, tile->box_count, sizeof *boxes);
    for (int i = 0; i < tile->box_count && !r->failed; i++)
        get_box(r, &boxes[i]);
    tile->boxes = boxes;
    tile->outline_count = sr_bytes_get_count(r);
    sr_tile_outline *outlines = sr_bytes_new_array(r, tile->outline_count, sizeof *outlines);
    for (int i = 0; i < tile->outline_count && !r->failed; i++)
        get_outline(r, &outlines[i]);
    tile->outlines = outlines;
}

static void get_tile(sr_bytes_reader *r, sr_tile *tile) {
    tile->width = sr_bytes_get_within(r, 0, TILE_SIDE_MAX);
    tile->height = sr_bytes_get_within(r, 0, TILE_SIDE_MAX);
    tile->verdict = (sr_verdict)sr_bytes_get_within(r, SR_VERDICT_NONE, SR_VERDICT_WRONG);
    tile->caption = sr_bytes_get_string(r);
    tile->note = sr_bytes_get_string(r);
    tile->rgb = sr_bytes_get_block(r, (size_t)(tile->width * tile->height * 3));
    tile->mask = sr_bytes_get_block(r, (size_t)(tile->width * tile->height));
    get_objects(r, tile);
}

static void get_sheet(sr_bytes_reader *r, sr_samples *sheet) {
    int titles;
    sheet->title = sr_bytes_get_string(r);
    sheet->columns = (int)sr_bytes_get_within(r, 0, INT32_MAX);
    sheet->side = (int)sr_bytes_get_within(r, 0, INT32_MAX);
    sheet->count = sr_bytes_get_count(r);
    sheet->row_titles = sr_bytes_get_strings(r, &titles);
    r->failed = r->failed || (sheet->row_titles && titles != sr_samples_rows(sheet));
    sr_tile *tiles = sr_bytes_new_array(r, sheet->count, sizeof *tiles);
    for (int i = 0; !r->failed && i < sheet->count; i++)
        get_tile(r, &tiles[i]);
    sheet->tiles = tiles;
    sheet->classes = sr_bytes_get_strings(r, &sheet->class_count);
}

// The operations themselves are read where they are drawn.
static void get_figure(sr_bytes_reader *r, sr_figure *figure) {
    union {
        const void *in;
        char *data;
    } operations;
    figure->width = (int)sr_bytes_get_within(r, 0, INT32_MAX);
    figure->height = (int)sr_bytes_get_within(r, 0, INT32_MAX);
    figure->count = (int)sr_bytes_get_within(r, 0, INT32_MAX);
    figure->operations.length = (size_t)sr_bytes_get_within(r, 0, INT64_MAX);
    operations.in = sr_bytes_get_block(r, figure->operations.length);
    figure->operations.data = operations.data; // only read
    r->failed = r->failed || !operations.in;
}

sr_status sr_picture_decode(const void *bytes, size_t count, sr_arena *arena, sr_picture *out) {
    sr_bytes_reader r = {.at = bytes, .left = count, .arena = arena};
    *out = (sr_picture){
        .kind = (sr_drawing_kind)sr_bytes_get_within(&r, SR_DRAWING_FIGURE, SR_DRAWING_SHEET)};
    out->path = sr_bytes_get_string(&r);
    out->name = sr_bytes_get_string(&r);
    if (out->kind == SR_DRAWING_FIGURE)
        get_figure(&r, &out->figure);
    else
        get_sheet(&r, &out->sheet);
    const bool named = (out->path || out->kind == SR_DRAWING_SHEET) &&
                       (out->name || out->kind != SR_DRAWING_FIGURE);
    return r.failed || !named ? SR_FAIL(SR_E_INTERNAL, "what is to be drawn cannot be read")
                              : SR_OK;
}

sr_status sr_picture_draw(const sr_picture *p) {
    return p->kind == SR_DRAWING_FIGURE ? sr_figure_write(&p->figure, p->path, p->name)
                                        : sr_samples_write(&p->sheet, p->path);
}
