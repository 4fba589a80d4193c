// SPDX-License-Identifier: Apache-2.0
// A picture as bytes (drawing_internal.h): numbers of eight bytes, texts and pixels with their
// length before them, in the order of the functions below. Both sides are of the same build.
#include <string.h>

#include "trainer/draw/drawing_internal.h"
#include "trainer/draw/plots.h"

#define ABSENT UINT64_MAX // length of what is NULL

// -- writing ---------------------------------------------------------------------------------

static void put(sr_text *out, int64_t number) {
    sr_text_add_bytes(out, &number, sizeof number);
}

static void put_bytes(sr_text *out, const void *bytes, size_t count) {
    static const char zeros[8];
    put(out, bytes ? (int64_t)count : (int64_t)ABSENT);
    if (bytes)
        sr_text_add_bytes(out, bytes, count);
    if (bytes && count % 8 != 0) // numbers stay aligned
        sr_text_add_bytes(out, zeros, 8 - count % 8);
}

static void put_string(sr_text *out, const char *text) {
    put_bytes(out, text, text ? strlen(text) + 1 : 0);
}

static void put_strings(sr_text *out, const char *const *texts, int count) {
    put(out, texts ? count : 0);
    for (int i = 0; texts && i < count; i++)
        put_string(out, texts[i]);
}

static int rows_of(const sr_samples *sheet) {
    return sheet->columns > 0 ? (sheet->count + sheet->columns - 1) / sheet->columns : 0;
}

static void put_objects(sr_text *out, const sr_tile *tile) {
    put(out, tile->box_count);
    for (int i = 0; i < tile->box_count; i++) {
        const sr_tile_box *box = &tile->boxes[i];
        const float corners[4] = {box->x1, box->y1, box->x2, box->y2};
        put_bytes(out, corners, sizeof corners);
        put(out, box->number);
        put_string(out, box->label);
    }
    put(out, tile->outline_count);
    for (int i = 0; i < tile->outline_count; i++) {
        const sr_tile_outline *outline = &tile->outlines[i];
        put(out, outline->number);
        put(out, outline->count);
        put_bytes(out, outline->points, (size_t)outline->count * 2 * sizeof *outline->points);
    }
}

static void put_sheet(sr_text *out, const sr_samples *sheet) {
    put_string(out, sheet->title);
    put(out, sheet->columns);
    put(out, sheet->side);
    put(out, sheet->count);
    put_strings(out, sheet->row_titles, rows_of(sheet));
    for (int i = 0; i < sheet->count; i++) {
        const sr_tile *tile = &sheet->tiles[i];
        put(out, tile->width);
        put(out, tile->height);
        put(out, tile->verdict);
        put_string(out, tile->caption);
        put_string(out, tile->note);
        put_bytes(out, tile->rgb, (size_t)(tile->width * tile->height * 3));
        put_bytes(out, tile->mask, (size_t)(tile->width * tile->height));
        put_objects(out, tile);
    }
    put_strings(out, sheet->classes, sheet->class_count);
}

void sr_picture_encode(const sr_picture *p, sr_text *out) {
    const size_t classes = (size_t)p->confusion.classes;
    put(out, p->kind);
    put_string(out, p->path);
    put(out, p->confusion.classes);
    put_bytes(out, p->confusion.counts, classes * classes * sizeof *p->confusion.counts);
    put_strings(out, p->classes, p->confusion.classes);
    put_sheet(out, &p->sheet);
}

// -- reading ---------------------------------------------------------------------------------

typedef struct reader {
    const char *at;
    size_t left;
    sr_arena *arena;
    bool failed;
} reader;

static int64_t get(reader *r) {
    int64_t number = 0;
    if (r->left < sizeof number) {
        r->failed = true;
        return 0;
    }
    memcpy(&number, r->at, sizeof number);
    r->at += sizeof number;
    r->left -= sizeof number;
    return number;
}

static const void *get_bytes(reader *r, size_t expected) {
    const uint64_t count = (uint64_t)get(r);
    const size_t padded = (size_t)((count + 7) & ~(uint64_t)7);
    const char *bytes = r->at;
    if (r->failed || count == ABSENT)
        return NULL;
    if (count > r->left || padded > r->left || (expected > 0 && count != expected)) {
        r->failed = true;
        return NULL;
    }
    r->at += padded;
    r->left -= padded;
    return bytes;
}

static const char *get_string(reader *r) {
    return get_bytes(r, 0); // with its zero byte
}

static int get_count(reader *r) {
    const int64_t count = get(r);
    r->failed = r->failed || count < 0 || count > (int64_t)r->left;
    return r->failed ? 0 : (int)count;
}

static const char *const *get_strings(reader *r, int *out_count) {
    const int count = get_count(r);
    const char **texts = count > 0 ? sr_arena_alloc(r->arena, (size_t)count * sizeof *texts) : NULL;
    for (int i = 0; texts && i < count; i++)
        texts[i] = get_string(r);
    r->failed = r->failed || (count > 0 && !texts);
    *out_count = r->failed ? 0 : count;
    return texts;
}

static void *get_array(reader *r, int count, size_t bytes) {
    void *array = count > 0 ? sr_arena_alloc(r->arena, (size_t)count * bytes) : NULL;
    r->failed = r->failed || (count > 0 && !array);
    return array;
}

static void get_objects(reader *r, sr_tile *tile) {
    const int box_count = get_count(r);
    sr_tile_box *boxes = get_array(r, box_count, sizeof *boxes);
    for (int i = 0; i < box_count && !r->failed; i++) {
        float corners[4] = {0};
        const void *stored = get_bytes(r, sizeof corners);
        if (stored)
            memcpy(corners, stored, sizeof corners);
        boxes[i] =
            (sr_tile_box){.x1 = corners[0], .y1 = corners[1], .x2 = corners[2], .y2 = corners[3]};
        boxes[i].number = (int)get(r);
        boxes[i].label = get_string(r);
    }
    const int outline_count = get_count(r);
    sr_tile_outline *outlines = get_array(r, outline_count, sizeof *outlines);
    for (int i = 0; i < outline_count && !r->failed; i++) {
        outlines[i].number = (int)get(r);
        outlines[i].count = get_count(r);
        outlines[i].points = get_bytes(r, (size_t)outlines[i].count * 2 * sizeof(float));
    }
    tile->boxes = boxes;
    tile->box_count = box_count;
    tile->outlines = outlines;
    tile->outline_count = outline_count;
}

static void get_sheet(reader *r, sr_samples *sheet) {
    int rows;
    sheet->title = get_string(r);
    sheet->columns = (int)get(r);
    sheet->side = (int)get(r);
    sheet->count = get_count(r);
    sheet->row_titles = get_strings(r, &rows);
    sr_tile *tiles = sr_arena_alloc(r->arena, ((size_t)sheet->count + 1) * sizeof *tiles);
    r->failed = r->failed || !tiles;
    for (int i = 0; !r->failed && i < sheet->count; i++) {
        sr_tile *tile = &tiles[i];
        tile->width = get(r);
        tile->height = get(r);
        tile->verdict = (sr_verdict)get(r);
        tile->caption = get_string(r);
        tile->note = get_string(r);
        tile->rgb = get_bytes(r, (size_t)(tile->width * tile->height * 3));
        tile->mask = get_bytes(r, (size_t)(tile->width * tile->height));
        get_objects(r, tile);
    }
    sheet->tiles = tiles;
    sheet->classes = get_strings(r, &sheet->class_count);
}

sr_status sr_picture_decode(const void *bytes, size_t count, sr_arena *arena, sr_picture *out) {
    reader r = {.at = bytes, .left = count, .arena = arena};
    int names;
    union {
        const void *in;
        int64_t *counts;
    } cells;
    *out = (sr_picture){.kind = (sr_drawing_kind)get(&r)};
    out->path = get_string(&r);
    out->confusion.classes = get_count(&r);
    const size_t classes = (size_t)out->confusion.classes;
    cells.in = get_bytes(&r, classes * classes * sizeof *cells.counts);
    out->confusion.counts = cells.counts; // only read
    out->classes = get_strings(&r, &names);
    get_sheet(&r, &out->sheet);
    return r.failed ? SR_FAIL(SR_E_INTERNAL, "what is to be drawn cannot be read") : SR_OK;
}

sr_status sr_picture_draw(const sr_picture *p) {
    switch (p->kind) {
    case SR_DRAWING_RESULTS:
        return sr_results_plot(p->path);
    case SR_DRAWING_CONFUSION:
        return sr_confusion_plot(&p->confusion, p->classes, p->path);
    case SR_DRAWING_SAMPLES:
        return sr_samples_write(&p->sheet, p->path);
    case SR_DRAWING_SHEET: // by its own function
        break;
    }
    return SR_FAIL(SR_E_INTERNAL, "a picture of kind %d", (int)p->kind);
}
