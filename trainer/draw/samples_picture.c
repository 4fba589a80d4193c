// SPDX-License-Identifier: Apache-2.0
// Layout of sheets of samples: rows of tiles, each a picture with its annotations and up to two
// lines of text, and a legend of the classes that boxes, outlines and masks show.
#include "trainer/draw/samples_picture.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/draw/palette.h"

enum {
    GAP = 14,          // between tiles and at the edges
    TITLE_HEIGHT = 42, //
    ROW_TITLE = 28,    //
    LINE_HEIGHT = 19,  // of captions and the legend
    TEXT_OFFSET = 8,   // from picture to caption
    TITLE_SIZE = 18,   // of the font
    TEXT_SIZE = 13,    //
    LABEL_SIZE = 11,   //
    SWATCH = 11,       //
    LEGEND_ROWS = 6,
    MAX_TITLE = 640,
    MAX_NUMBER = 1 << 16, // of classes that the legend knows
    CLEAR = 255,          // mask number without a class
};

typedef struct sheet {
    const sr_samples *samples;
    int columns, rows, side;
    int tile_width, tile_height; // of the largest picture
    int cell_height;             // with captions and the row's title
    int top, width, height;
    bool *present; // classes of the legend, by number
    int legend_top;
} sheet;

static int columns_of(const sr_samples *samples) {
    int columns = samples->columns > 0 ? samples->columns : 1;
    while (samples->columns == 0 && (int64_t)columns * columns < samples->count)
        ++columns;
    return columns;
}

int sr_samples_rows(const sr_samples *samples) {
    const int64_t columns = columns_of(samples);
    return (int)((samples->count + columns - 1) / columns);
}

// Shown size of a picture: enlarged by a whole factor or shrunk, to at most 'side', with its aspect
// ratio.
static void fit(int64_t width, int64_t height, int side, int *out_width, int *out_height) {
    const int64_t longer = width > height ? width : height;
    if (longer <= side) {
        *out_width = (int)(width * (side / longer));
        *out_height = (int)(height * (side / longer));
    } else {
        *out_width = (int)((width * side + longer / 2) / longer);
        *out_height = (int)((height * side + longer / 2) / longer);
    }
    *out_width += *out_width == 0;
    *out_height += *out_height == 0;
}

void sr_samples_shrink(int64_t width, int64_t height, int side, int *out_width, int *out_height) {
    fit(width, height, side, out_width, out_height);
    if (*out_width > width || *out_height > height) {
        *out_width = (int)width;
        *out_height = (int)height;
    }
}

// -- legend ------------------------------------------------------------------------------------

static void note_class(const sheet *s, int64_t number, bool *any) {
    if (number >= 0 && number < s->samples->class_count && number < MAX_NUMBER)
        *any = s->present[number] = true;
}

static void note_tile(const sheet *s, const sr_tile *tile, bool *any) {
    for (int b = 0; b < tile->box_count; ++b)
        note_class(s, tile->boxes[b].number, any);
    for (int i = 0; i < tile->outline_count; ++i)
        note_class(s, tile->outlines[i].number, any);
    for (int64_t i = 0; tile->mask != NULL && i < tile->width * tile->height; ++i)
        if (tile->mask[i] != CLEAR)
            note_class(s, tile->mask[i], any);
}

// Lays out the legend, and draws it if a raster is given. Returns its height.
static int lay_legend(const sheet *s, sr_raster *raster) {
    const int step = LINE_HEIGHT + 2;
    int x = GAP, row = 0;
    int64_t left_out = 0;
    for (int c = 0; c < s->samples->class_count && c < MAX_NUMBER; ++c) {
        if (!s->present[c])
            continue;
        const int room = s->width - 2 * GAP - SWATCH - 6;
        int width = sr_raster_text_width(TEXT_SIZE, s->samples->classes[c]);
        width = width < room ? width : room;
        if (x > GAP && x + SWATCH + 6 + width > s->width - GAP) {
            x = GAP;
            ++row;
        }
        left_out += row >= LEGEND_ROWS;
        if (raster != NULL && row < LEGEND_ROWS) {
            const int y = s->legend_top + row * step;
            sr_raster_fill(raster, x, y + 3, SWATCH, SWATCH, sr_color_class(c));
            sr_raster_text(raster, x + SWATCH + 6, y, TEXT_SIZE, SR_INK, width,
                           s->samples->classes[c]);
        }
        x += SWATCH + 6 + width + 20;
    }
    if (left_out > 0 && raster != NULL) {
        char more[48];
        (void)snprintf(more, sizeof more, "and %lld more classes", (long long)left_out);
        sr_raster_text(raster, GAP, s->legend_top + LEGEND_ROWS * step, TEXT_SIZE, SR_SOFT,
                       s->width, more);
    }
    const int rows = row < LEGEND_ROWS ? row + 1 : LEGEND_ROWS + (left_out > 0);
    return rows * step + GAP;
}

static sr_status plan_legend(sheet *s) {
    bool any = false;
    if (s->samples->classes == NULL || s->samples->class_count < 1)
        return SR_OK;
    s->present = sr_alloc_array((size_t)s->samples->class_count, sizeof *s->present, "legend");
    if (s->present == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < s->samples->count; ++i)
        note_tile(s, &s->samples->tiles[i], &any);
    s->legend_top = s->height;
    s->height += any ? lay_legend(s, NULL) : 0;
    return SR_OK;
}

// -- plan --------------------------------------------------------------------------------------

static sr_status check(const sr_samples *samples) {
    if (samples->count < 1 || samples->columns < 0 || samples->side < 0)
        return SR_FAIL(SR_E_ARGUMENT, "a sheet of samples needs at least one sample");
    for (int i = 0; i < samples->count; ++i) {
        const sr_tile *tile = &samples->tiles[i];
        if (tile->rgb == NULL)
            continue;
        if (tile->width < 1 || tile->height < 1 || tile->width > 65536 || tile->height > 65536)
            return SR_FAIL(SR_E_ARGUMENT, "sample %d of a sheet has a picture of an invalid size",
                           i);
    }
    return SR_OK;
}

// Widens a sheet of few pictures for its title, up to MAX_TITLE.
static int widen(int width, int wanted) {
    wanted = wanted < MAX_TITLE ? wanted : MAX_TITLE;
    return width > wanted ? width : wanted;
}

static sr_status plan(const sr_samples *samples, sheet *out) {
    SR_TRY(check(samples));
    sheet s = {.samples = samples,
               .side = samples->side > 0 ? samples->side : SR_TILE_SIDE,
               .top = samples->title == NULL ? GAP : TITLE_HEIGHT};
    int lines = 0;
    for (int i = 0; i < samples->count; ++i) {
        const sr_tile *tile = &samples->tiles[i];
        const int own = (tile->caption != NULL) + (tile->note != NULL);
        int width, height;
        if (tile->rgb == NULL)
            continue;
        fit(tile->width, tile->height, s.side, &width, &height);
        s.tile_width = width > s.tile_width ? width : s.tile_width;
        s.tile_height = height > s.tile_height ? height : s.tile_height;
        lines = own > lines ? own : lines;
    }
    s.columns = columns_of(samples);
    s.rows = sr_samples_rows(samples);
    s.cell_height = s.tile_height + (lines > 0 ? TEXT_OFFSET + lines * LINE_HEIGHT : 0) + GAP +
                    (samples->row_titles != NULL ? ROW_TITLE : 0);
    const int64_t width = GAP + (int64_t)s.columns * (s.tile_width + GAP);
    const int64_t height = s.top + (int64_t)s.rows * s.cell_height;
    if (width > 1 << 20 || height > 1 << 20)
        return SR_FAIL(SR_E_LIMIT, "a sheet of %d x %d samples is not drawn", s.columns, s.rows);
    s.width = (int)width;
    s.height = (int)height;
    if (samples->title != NULL)
        s.width = widen(s.width, 2 * GAP + sr_raster_text_width(TITLE_SIZE, samples->title));
    SR_TRY(plan_legend(&s));
    *out = s;
    return SR_OK;
}

// -- tiles -------------------------------------------------------------------------------------

// Where a tile's picture is on the sheet.
typedef struct tile_area {
    int x, y, width, height;
    const sr_tile *tile;
} tile_area;

// A coordinate of the picture as a pixel of the sheet; at its edge if it lies outside or is NaN.
static int shown(float value, int64_t size, int begin, int shown_size) {
    const float at = value / (float)size * (float)shown_size;
    if (!(at > 0))
        return begin;
    return begin + (at < (float)shown_size ? (int)(at + 0.5f) : shown_size);
}

static void draw_mask(sr_raster *raster, const tile_area *p) {
    for (int j = 0; j < p->height; ++j) {
        const uint8_t *row = p->tile->mask + j * p->tile->height / p->height * p->tile->width;
        for (int i = 0; i < p->width; ++i) {
            const int number = row[i * p->tile->width / p->width];
            if (number != CLEAR)
                sr_raster_tint(raster, p->x + i, p->y + j, sr_color_class(number), 128);
        }
    }
}

static void draw_outline(sr_raster *raster, const tile_area *p, const sr_tile_outline *outline) {
    int last_x = 0, last_y = 0;
    for (int i = 0; i <= outline->count && outline->count > 1; ++i) {
        const float *point = outline->points + (size_t)2 * (size_t)(i % outline->count);
        int x = shown(point[0], p->tile->width, p->x, p->width);
        int y = shown(point[1], p->tile->height, p->y, p->height);
        x = x < p->x + p->width ? x : x - 1;
        y = y < p->y + p->height ? y : y - 1;
        if (i > 0)
            sr_raster_line(raster, last_x, last_y, x, y, sr_color_class(outline->number));
        last_x = x;
        last_y = y;
    }
}

static void draw_box(sr_raster *raster, const tile_area *p, const sr_tile_box *box) {
    const int x1 = shown(box->x1, p->tile->width, p->x, p->width);
    const int y1 = shown(box->y1, p->tile->height, p->y, p->height);
    const int x2 = shown(box->x2, p->tile->width, p->x, p->width);
    const int y2 = shown(box->y2, p->tile->height, p->y, p->height);
    if (x2 > x1 && y2 > y1)
        sr_raster_frame(raster, x1, y1, x2 - x1, y2 - y1, 2, sr_color_class(box->number));
}

// Drawn above its box if there is room, so that it does not hide a small object, and after all
// boxes, so that none crosses it.
static void draw_label(sr_raster *raster, const tile_area *p, const sr_tile_box *box) {
    const int x = shown(box->x1, p->tile->width, p->x, p->width);
    const int room = p->x + p->width - x - 4, height = LABEL_SIZE + 5;
    int y = shown(box->y1, p->tile->height, p->y, p->height) - height;
    y = y > p->y ? y : p->y;
    if (box->label == NULL || room < 2 * LABEL_SIZE || height > p->height)
        return;
    int width = sr_raster_text_width(LABEL_SIZE, box->label);
    width = width < room ? width : room;
    const uint32_t color = sr_color_class(box->number);
    sr_raster_fill(raster, x, y, width + 4, height, color);
    sr_raster_text(raster, x + 2, y + 1, LABEL_SIZE, sr_color_ink_on(color), width, box->label);
}

static void draw_annotations(sr_raster *raster, const tile_area *p) {
    const sr_tile *tile = p->tile;
    if (tile->mask != NULL)
        draw_mask(raster, p);
    for (int i = 0; i < tile->outline_count; ++i)
        draw_outline(raster, p, &tile->outlines[i]);
    for (int b = 0; b < tile->box_count; ++b)
        draw_box(raster, p, &tile->boxes[b]);
    for (int b = 0; b < tile->box_count; ++b)
        draw_label(raster, p, &tile->boxes[b]);
}

static void draw_tile(sr_raster *raster, const sheet *s, int x, int y, const sr_tile *tile) {
    tile_area p = {.x = x, .tile = tile};
    int line = y + s->tile_height + TEXT_OFFSET;
    fit(tile->width, tile->height, s->side, &p.width, &p.height);
    p.y = y + s->tile_height - p.height; // directly above its caption
    sr_raster_picture(raster, p.x, p.y, p.width, p.height, tile->rgb, tile->width, tile->height);
    draw_annotations(raster, &p);
    if (tile->verdict != SR_VERDICT_NONE)
        sr_raster_fill(raster, p.x, p.y + p.height + 1, p.width, 4,
                       tile->verdict == SR_VERDICT_RIGHT ? SR_GREEN : SR_WRONG);
    if (tile->caption != NULL) {
        sr_raster_text(raster, x, line, TEXT_SIZE, SR_INK, s->tile_width, tile->caption);
        line += LINE_HEIGHT;
    }
    if (tile->note != NULL)
        sr_raster_text(raster, x, line, TEXT_SIZE,
                       tile->verdict == SR_VERDICT_WRONG ? SR_WRONG : SR_SOFT, s->tile_width,
                       tile->note);
}

static void draw(sr_raster *raster, const sheet *s) {
    const sr_samples *samples = s->samples;
    if (samples->title != NULL)
        sr_raster_text(raster, GAP, GAP - 3, TITLE_SIZE, SR_INK, s->width - 2 * GAP,
                       samples->title);
    for (int i = 0; i < samples->count; ++i) {
        const int row = i / s->columns, column = i % s->columns;
        int y = s->top + row * s->cell_height;
        if (samples->row_titles != NULL) {
            if (column == 0)
                sr_raster_text(raster, GAP, y + 4, TEXT_SIZE + 1, SR_SOFT, s->width - 2 * GAP,
                               samples->row_titles[row]);
            y += ROW_TITLE;
        }
        if (samples->tiles[i].rgb != NULL)
            draw_tile(raster, s, GAP + column * (s->tile_width + GAP), y, &samples->tiles[i]);
    }
    if (s->height > s->legend_top && s->present != NULL)
        (void)lay_legend(s, raster);
}

sr_status sr_samples_draw(const sr_samples *samples, sr_raster *out) {
    sheet s = {.samples = samples, .columns = 1};
    SR_TRY(plan(samples, &s));
    const sr_status status = sr_raster_create(s.width, s.height, out);
    if (status == SR_OK)
        draw(out, &s);
    sr_free(s.present);
    return status;
}

sr_status sr_samples_write(const sr_samples *samples, const char *path) {
    sr_raster raster = {0};
    SR_TRY(sr_raster_check_path(path));
    SR_TRY(sr_samples_draw(samples, &raster));
    const sr_status status = sr_raster_write(&raster, path);
    sr_raster_release(&raster);
    return status;
}
