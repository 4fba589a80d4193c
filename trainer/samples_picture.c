// SPDX-License-Identifier: Apache-2.0
// Layout of sample grids. Text is a bitmap font, so that every build draws the same picture.
#include "trainer/samples_picture.h"

#include <string.h>

#include "trainer/raster.h"

enum {
    TILE_SIDE = 160,   // small pictures grow up to this
    LARGE_SIDE = 192,  // large ones shrink to this
    GAP = 14,          // between tiles and at the edges
    TITLE_HEIGHT = 40, //
    LINE_HEIGHT = 18,  // of captions
    TEXT_OFFSET = 8,   // from picture to caption
    INK = 0x1f2933,    //
    SOFT = 0x616e7c,   //
    RIGHT = 0x1c9c6c,  //
    WRONG = 0xd64545,  //
};

typedef struct grid {
    int columns, rows;
    int tile_width, tile_height; // of the picture
    int cell_height;             // with captions
    int top;
} grid;

// Well apart from each other and from most pictures.
static uint32_t class_color(int number) {
    static const uint32_t colors[] = {0xe6194b, 0x3cb44b, 0x4363d8, 0xf58231, 0x911eb4, 0x46c7c7,
                                      0xf032e6, 0xa3c614, 0x008080, 0x9a6324, 0xffcc00, 0x800000};
    return colors[(unsigned)number % (sizeof colors / sizeof *colors)];
}

// Shown size of the largest tile: whole factors upwards keep pixels square and sharp.
static void shown_size(int64_t width, int64_t height, int *out_width, int *out_height) {
    int64_t side = width > height ? width : height;
    if (side <= TILE_SIDE / 2) {
        *out_width = (int)(width * (TILE_SIDE / side));
        *out_height = (int)(height * (TILE_SIDE / side));
    } else if (side > LARGE_SIDE) {
        *out_width = (int)(width * LARGE_SIDE / side);
        *out_height = (int)(height * LARGE_SIDE / side);
    } else {
        *out_width = (int)width;
        *out_height = (int)height;
    }
    *out_width += *out_width == 0;
    *out_height += *out_height == 0;
}

static grid plan(const char *title, const sr_tile *tiles, int count, int columns) {
    grid g = {.columns = columns, .top = title == NULL ? GAP : TITLE_HEIGHT};
    int lines = 0;
    for (int i = 0; i < count; ++i) {
        int width, height, own = (tiles[i].caption != NULL) + (tiles[i].note != NULL);
        shown_size(tiles[i].width, tiles[i].height, &width, &height);
        g.tile_width = width > g.tile_width ? width : g.tile_width;
        g.tile_height = height > g.tile_height ? height : g.tile_height;
        lines = own > lines ? own : lines;
    }
    while (columns == 0 && g.columns * g.columns < count)
        ++g.columns;
    g.rows = (count + g.columns - 1) / g.columns;
    g.cell_height = g.tile_height + (lines > 0 ? TEXT_OFFSET + lines * LINE_HEIGHT : 0) + GAP;
    return g;
}

// Large letters where they fit, small ones where not.
static void draw_line(sr_raster *raster, int x, int y, int width, uint32_t color,
                      const char *text) {
    int scale = sr_raster_text_length(text) * SR_GLYPH_WIDTH * 2 <= width + 2 ? 2 : 1;
    sr_raster_text(raster, x, y + (2 - scale) * 4, scale, color, width, text);
}

static void draw_mask(sr_raster *raster, int x, int y, int width, int height, const sr_tile *tile) {
    for (int j = 0; j < height; ++j) {
        for (int i = 0; i < width; ++i) {
            int64_t v = j * tile->height / height, u = i * tile->width / width;
            int number = tile->mask[v * tile->width + u];
            if (number != 0 && number != 255)
                sr_raster_tint(raster, x + i, y + j, class_color(number), 128);
        }
    }
}

static void draw_box(sr_raster *raster, int x, int y, int width, int height, const sr_tile *tile,
                     const sr_tile_box *box) {
    float sx = (float)width / (float)tile->width, sy = (float)height / (float)tile->height;
    int x1 = x + (int)(box->x1 * sx), y1 = y + (int)(box->y1 * sy);
    int x2 = x + (int)(box->x2 * sx + 0.5f), y2 = y + (int)(box->y2 * sy + 0.5f);
    uint32_t color = class_color(box->number);
    sr_raster_frame(raster, x1, y1, x2 - x1, y2 - y1, 2, color);
    if (box->label == NULL)
        return;
    int length = sr_raster_text_length(box->label), room = x + width - x1 - 4;
    int text_width = length * SR_GLYPH_WIDTH < room ? length * SR_GLYPH_WIDTH : room;
    if (text_width < SR_GLYPH_WIDTH)
        return;
    sr_raster_fill(raster, x1, y1, text_width + 4, SR_GLYPH_HEIGHT + 4, color);
    sr_raster_text(raster, x1 + 3, y1 + 2, 1, 0xffffff, text_width, box->label);
}

static void draw_tile(sr_raster *raster, const grid *g, int x, int y, const sr_tile *tile) {
    int width, height, line = y + g->tile_height + TEXT_OFFSET;
    shown_size(tile->width, tile->height, &width, &height);
    x += (g->tile_width - width) / 2;
    sr_raster_picture(raster, x, y, width, height, tile->rgb, tile->width, tile->height);
    if (tile->mask != NULL)
        draw_mask(raster, x, y, width, height, tile);
    for (int b = 0; b < tile->box_count; ++b)
        draw_box(raster, x, y, width, height, tile, &tile->boxes[b]);
    if (tile->verdict != SR_VERDICT_NONE)
        sr_raster_fill(raster, x, y + height + 1, width, 4,
                       tile->verdict == SR_VERDICT_RIGHT ? RIGHT : WRONG);
    if (tile->caption != NULL) {
        draw_line(raster, x, line, g->tile_width, INK, tile->caption);
        line += LINE_HEIGHT;
    }
    if (tile->note != NULL)
        draw_line(raster, x, line, g->tile_width, tile->verdict == SR_VERDICT_WRONG ? WRONG : SOFT,
                  tile->note);
}

sr_status sr_samples_picture(const char *path, const char *title, const sr_tile *tiles, int count,
                             int columns) {
    if (count < 1 || columns < 0)
        return SR_FAIL(SR_E_ARGUMENT, "%s: no samples to draw", path);
    for (int i = 0; i < count; ++i)
        if (tiles[i].width < 1 || tiles[i].height < 1 || tiles[i].width > 65536 ||
            tiles[i].height > 65536)
            return SR_FAIL(SR_E_ARGUMENT, "%s: sample %d has no picture", path, i);
    sr_raster raster;
    grid g = plan(title, tiles, count, columns);
    SR_TRY(sr_raster_create(GAP + g.columns * (g.tile_width + GAP), g.top + g.rows * g.cell_height,
                            &raster));
    if (title != NULL)
        sr_raster_text(&raster, GAP, GAP, 2, INK, raster.width - 2 * GAP, title);
    for (int i = 0; i < count; ++i)
        draw_tile(&raster, &g, GAP + i % g.columns * (g.tile_width + GAP),
                  g.top + i / g.columns * g.cell_height, &tiles[i]);
    sr_status status = sr_raster_write_png(&raster, path);
    sr_raster_release(&raster);
    return status;
}
