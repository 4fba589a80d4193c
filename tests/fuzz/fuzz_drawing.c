// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a process that draws is given: figures and sheets as bytes. Nothing outside the bytes
// is read; the operations of a figure that is accepted are read in full, and a small sheet is
// drawn, in the bitmap font.
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/draw/drawing_internal.h"
#include "trainer/draw/figure_internal.h"
#include "trainer/draw/plots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_TILES = 16, LONGEST_SIDE = 64 }; // larger sheets only cost time

static void require(bool fine) {
    if (!fine)
        abort();
}

// Reads all of the bytes.
static void check_bytes(const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += at[i];
    require(sum <= 255 * count);
}

static void check_text(const char *text) {
    require(text != NULL && sr_figure_text_width(1, text) >= 0);
}

static void check_panel(const sr_panel *panel) {
    check_text(panel->title);
    for (int s = 0; s < panel->series_count; s++) {
        const sr_panel_series *series = &panel->series[s];
        check_text(series->name);
        check_bytes(series->x, (size_t)series->count * sizeof *series->x);
        check_bytes(series->y, (size_t)series->count * sizeof *series->y);
    }
}

static void check_pixels(const sr_figure_pixels *pixels) {
    check_bytes(pixels->rgb, 3 * (size_t)pixels->rows * (size_t)pixels->columns);
}

static void check_figure(const sr_figure *figure, sr_arena *arena) {
    sr_figure_list list;
    if (sr_figure_unpack(figure, arena, &list) != SR_OK)
        return;
    require(list.count == figure->count && list.width > 0 && list.height > 0);
    for (int i = 0; i < list.count; i++) {
        const sr_figure_operation *o = &list.operations[i];
        if (o->kind == SR_FIGURE_TEXT)
            check_text(o->as.text.text);
        else if (o->kind == SR_FIGURE_PIXELS)
            check_pixels(&o->as.pixels);
        else if (o->kind == SR_FIGURE_PANEL)
            check_panel(&o->as.panel);
    }
}

static void check_sheet(const sr_samples *sheet) {
    sr_raster raster;
    if (sheet->count > MOST_TILES || sheet->side > LONGEST_SIDE || sheet->columns > MOST_TILES)
        return;
    if (sr_samples_draw(sheet, &raster) == SR_OK)
        sr_raster_release(&raster);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sr_picture picture;
    sr_arena arena;
    void *bytes = sr_alloc(size, "fuzz"); // aligned as a mapped file
    require(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    sr_plots_refuse();
    sr_arena_init(&arena);
    if (sr_picture_decode(bytes, size, &arena, &picture) == SR_OK) {
        if (picture.kind == SR_DRAWING_FIGURE)
            check_figure(&picture.figure, &arena);
        else
            check_sheet(&picture.sheet);
    }
    sr_arena_release(&arena);
    sr_free(bytes);
    return 0;
}
