// SPDX-License-Identifier: Apache-2.0
// The timeline of a plan's memory as a picture (bench_memory_internal.h).
#include <stdio.h>

#include "kernels/base/text.h"
#include "launcher/bench/bench_memory_internal.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/raster.h"

enum {
    WIDTH = 1600,
    HEIGHT = 900,
    LEFT = 140, // of the plot
    TOP = 60,
    PLOT_WIDTH = 1140,
    PLOT_HEIGHT = 760,
    LEGEND = LEFT + PLOT_WIDTH + 30,
    LINE_HEIGHT = 22,
    SWATCH = 14,
    TICKS = 8,
    COLORS = 15,
    TEXT_SIZE = 16,
};

// Neighbours in the list differ in hue; kinds beyond its end share the last colour, grey.
static const uint32_t colors[COLORS] = {0x4e79a7, 0xf28e2b, 0x59a14f, 0xb07aa1, 0xedc948,
                                        0x76b7b2, 0xff9da7, 0x9c755f, 0x2f4b7c, 0x8cd17d,
                                        0xd37295, 0xa0522d, 0x6a3d9a, 0xb2df8a, 0xbab0ac};

static uint32_t color_of(int kind) {
    return colors[kind < COLORS ? kind : COLORS - 1];
}

typedef struct plot {
    const sr_memory_timeline *t;
    sr_raster *raster;
} plot;

static int x_of(const plot *p, int step) {
    const int count = p->t->step_count > 0 ? p->t->step_count : 1;
    return LEFT + (int)((int64_t)step * PLOT_WIDTH / count);
}

// Offset 0 is at the bottom.
static int y_of(const plot *p, size_t offset) {
    const double range = p->t->range_bytes > 0 ? (double)p->t->range_bytes : 1;
    return TOP + PLOT_HEIGHT - (int)((double)offset / range * PLOT_HEIGHT);
}

static void draw_text(const plot *p, int x, int y, uint32_t color, const char *text) {
    (void)sr_raster_text(p->raster, x, y, TEXT_SIZE, color, WIDTH - x, text);
}

static void draw_axes(const plot *p) {
    char text[32];
    for (int i = 0; i <= TICKS; i++) {
        const size_t offset = p->t->range_bytes / TICKS * (size_t)i;
        const int y = y_of(p, offset), step = p->t->step_count * i / TICKS;
        const int x = x_of(p, step);
        sr_raster_fill(p->raster, LEFT, y, PLOT_WIDTH, 1, SR_GRID);
        draw_text(p, 10, y - TEXT_SIZE / 2, SR_SOFT, sr_text_bytes(offset, text));
        (void)snprintf(text, sizeof text, "%d", step);
        sr_raster_fill(p->raster, x, TOP + PLOT_HEIGHT, 1, 5, SR_SOFT);
        draw_text(p, x - TEXT_SIZE / 2, TOP + PLOT_HEIGHT + 10, SR_SOFT, text);
    }
    draw_text(p, LEFT, HEIGHT - 40, SR_SOFT, "x: step of the plan; y: offset in the memory range");
}

static void draw_spans(const plot *p) {
    for (int i = 0; i < p->t->span_count; i++) {
        const sr_memory_span *s = &p->t->spans[i];
        if (s->first > s->last)
            continue;
        const int x = x_of(p, s->first), y = y_of(p, s->offset + s->bytes);
        const int width = x_of(p, s->last + 1) - x, height = y_of(p, s->offset) - y;
        sr_raster_fill(p->raster, x, y, width > 0 ? width : 1, height, color_of(s->kind));
        if (width > 3 && height > 3) // an edge, if the rectangle is large enough
            sr_raster_frame(p->raster, x, y, width, height, 1, SR_WHITE);
    }
}

// The live bytes of each step, as if they had no gaps, and the step of the peak.
static void draw_live(const plot *p) {
    int before = TOP + PLOT_HEIGHT;
    for (int i = 0; i < p->t->step_count; i++) {
        const int x = x_of(p, i), width = x_of(p, i + 1) - x, y = y_of(p, p->t->live[i]);
        const int top = y < before ? y : before, bottom = y < before ? before : y;
        sr_raster_fill(p->raster, x, y - 1, width > 0 ? width : 1, 3, SR_INK);
        sr_raster_fill(p->raster, x, top, 1, bottom - top, SR_INK);
        before = y;
    }
    sr_raster_fill(p->raster, x_of(p, p->t->peak), TOP - 10, 1, PLOT_HEIGHT + 10, SR_WRONG);
}

static void draw_legend(const plot *p) {
    char text[96], bytes[16];
    int y = TOP;
    draw_text(p, LEGEND, y, SR_INK, "live at the peak");
    for (int i = 0; i < p->t->kind_count && i < COLORS; i++) {
        const sr_memory_kind *k = &p->t->kinds[i];
        y += LINE_HEIGHT;
        sr_raster_fill(p->raster, LEGEND, y, SWATCH, SWATCH, color_of(i));
        const bool rest = i == COLORS - 1 && p->t->kind_count > COLORS;
        (void)snprintf(text, sizeof text, "%s %s", rest ? "others" : k->name,
                       rest ? "" : sr_text_bytes(k->bytes_at_peak, bytes));
        draw_text(p, LEGEND + SWATCH + 8, y, SR_INK, text);
    }
    y += 2 * LINE_HEIGHT;
    sr_raster_fill(p->raster, LEGEND, y + SWATCH / 2, SWATCH, 3, SR_INK);
    draw_text(p, LEGEND + SWATCH + 8, y, SR_INK, "total live");
    y += LINE_HEIGHT;
    sr_raster_fill(p->raster, LEGEND + SWATCH / 2, y, 1, SWATCH, SR_WRONG);
    draw_text(p, LEGEND + SWATCH + 8, y, SR_INK, "the peak");
}

sr_status sr_memory_picture(const sr_memory_timeline *t, const char *title, const char *path) {
    sr_raster raster;
    SR_TRY(sr_raster_create(WIDTH, HEIGHT, &raster));
    const plot p = {.t = t, .raster = &raster};
    draw_text(&p, LEFT, 16, SR_INK, title);
    draw_axes(&p);
    draw_spans(&p);
    draw_live(&p);
    draw_legend(&p);
    const sr_status status = sr_raster_write(&raster, path);
    sr_raster_release(&raster);
    return status;
}
