// SPDX-License-Identifier: Apache-2.0
// Masks from outlines (outline_mask.h). As in COCO's run lengths, an object is columns of pixels
// one after the other. Instead of sorting the crossings of a polygon they are marked where they
// are, which gives the same pixels.
#include "dataio/formats/outline_mask.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/image/mask_png.h"
#include "kernels/base/memory.h"

#define SCALE 5                     // of the fine grid
#define COORDINATE_MAX 65536        // further away, a line is traced to here
#define AREA_CROWD (UINT32_MAX - 1) // less than that of the background

void sr_outline_mask_release(sr_outline_mask *mask) {
    sr_free(mask->ids);
    sr_free(mask->areas);
    sr_free(mask->inside);
    sr_free(mask->crossings);
    sr_rle_release(&mask->rle);
    *mask = (sr_outline_mask){0};
}

sr_status sr_outline_mask_begin(sr_outline_mask *mask, int64_t width, int64_t height,
                                uint8_t background) {
    const size_t pixels = (size_t)(width * height);
    mask->width = width;
    mask->height = height;
    SR_TRY(sr_grow(&mask->ids, &mask->id_capacity, pixels, 1, "mask"));
    SR_TRY(sr_grow(&mask->areas, &mask->area_capacity, pixels, sizeof(uint32_t), "mask"));
    SR_TRY(sr_grow(&mask->inside, &mask->inside_capacity, pixels + 1, 1, "mask"));
    SR_TRY(sr_grow(&mask->crossings, &mask->crossing_capacity, pixels + 1, 1, "mask"));
    memset(mask->ids, background, pixels);
    memset(mask->areas, 0xff, pixels * sizeof(uint32_t)); // the largest
    memset(mask->inside, 0, pixels + 1);
    memset(mask->crossings, 0, pixels + 1);
    return SR_OK;
}

// -- polygons ----------------------------------------------------------------------------------

// The boundary of one polygon on the fine grid.
typedef struct tracing {
    sr_outline_mask *mask;
    bool begun;
    int64_t u, v;       // the last point
    size_t first, last; // marked crossings
} tracing;

static int64_t fine(double coordinate) {
    const double limit = COORDINATE_MAX;
    return (int64_t)(SCALE * (coordinate < -limit  ? -limit
                              : coordinate > limit ? limit
                                                   : coordinate) +
                     0.5);
}

// The smallest pixel row whose centre is at or below a row of the fine grid.
static int64_t row_of(int64_t v, int64_t height) {
    const int64_t from = v - SCALE / 2;
    const int64_t row = from <= 0 ? 0 : (from + SCALE - 1) / SCALE;
    return row < height ? row : height;
}

// Goes on to a point. Where that crosses the centre of a column of pixels, it is marked.
static void step(tracing *t, int64_t u, int64_t v) {
    if (t->begun && u != t->u) {
        const int64_t column = u < t->u ? u : u - 1;
        if (column >= 0 && column % SCALE == SCALE / 2 && column / SCALE < t->mask->width) {
            const int64_t row = row_of(v < t->v ? v : t->v, t->mask->height);
            const size_t at = (size_t)(column / SCALE * t->mask->height + row);
            ((uint8_t *)t->mask->crossings)[at] ^= 1;
            t->first = at < t->first ? at : t->first;
            t->last = at > t->last ? at : t->last;
        }
    }
    t->begun = true;
    t->u = u;
    t->v = v;
}

// Every point of a side, in its direction; computed from its left or upper end.
static void trace_side(tracing *t, int64_t xs, int64_t ys, int64_t xe, int64_t ye) {
    const int64_t dx = llabs(xe - xs), dy = llabs(ye - ys), steps = dx >= dy ? dx : dy;
    const bool flip = dx >= dy ? xs > xe : ys > ye;
    const int64_t x = flip ? xe : xs, y = flip ? ye : ys;
    const int64_t to_x = flip ? xs : xe, to_y = flip ? ys : ye;
    const double slope =
        steps == 0 ? 0.0 : (double)(dx >= dy ? to_y - y : to_x - x) / (double)steps;
    for (int64_t i = 0; i <= steps; i++) {
        const int64_t d = flip ? steps - i : i;
        if (dx >= dy)
            step(t, x + d, (int64_t)((double)y + slope * (double)d + 0.5));
        else
            step(t, (int64_t)((double)x + slope * (double)d + 0.5), y + d);
    }
}

// Adds what lies between odd and even crossings to the object, and clears them.
static void fill(sr_outline_mask *mask, const tracing *t) {
    uint8_t *crossings = mask->crossings, *inside = mask->inside;
    uint8_t odd = 0;
    if (t->first > t->last)
        return;
    for (size_t i = t->first; i <= t->last; i++) {
        odd ^= crossings[i];
        crossings[i] = 0;
        if (odd)
            inside[i] = 1;
    }
    mask->first = t->first < mask->first ? t->first : mask->first;
    mask->last = t->last > mask->last ? t->last : mask->last;
}

static void add_polygon(sr_outline_mask *mask, const double *points, size_t count) {
    tracing t = {.mask = mask, .first = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        const double *from = points + 2 * i, *to = points + 2 * ((i + 1) % count);
        trace_side(&t, fine(from[0]), fine(from[1]), fine(to[0]), fine(to[1]));
    }
    fill(mask, &t);
}

// -- objects -----------------------------------------------------------------------------------

static sr_status add_runs(sr_outline_mask *mask, const sr_annotation *object) {
    sr_rle *rle = &mask->rle;
    size_t at = 0;
    if (object->mask_height != mask->height || object->mask_width != mask->width)
        return SR_FAIL(SR_E_DATA, "an object's mask is of %u x %u, the picture is %lld x %lld",
                       object->mask_width, object->mask_height, (long long)mask->width,
                       (long long)mask->height);
    SR_TRY(sr_rle_parse(rle, object->mask, object->mask_bytes));
    SR_TRY(sr_rle_check(rle, object->mask_height, object->mask_width));
    for (size_t i = 0; i < rle->count; i++) {
        const uint32_t length = ((const uint32_t *)rle->counts)[i];
        if (i % 2 == 1)
            memset((uint8_t *)mask->inside + at, 1, length);
        at += length;
    }
    mask->first = 0;
    mask->last = at;
    return SR_OK;
}

// Gives the object its pixels, unless a smaller one has them, and clears it.
static void paint(sr_outline_mask *mask, bool crowd, uint8_t class_number) {
    uint8_t *inside = mask->inside, *ids = mask->ids;
    uint32_t *areas = mask->areas, area = 0;
    const size_t height = (size_t)mask->height, width = (size_t)mask->width;
    const size_t end = mask->last < height * width ? mask->last : height * width;
    for (size_t i = mask->first; i < end; i++)
        area += inside[i];
    area = crowd ? AREA_CROWD : area;
    for (size_t i = mask->first; i < end; i++) {
        const size_t pixel = i % height * width + i / height;
        if (inside[i] && area < areas[pixel]) {
            areas[pixel] = area;
            ids[pixel] = crowd ? SR_MASK_VOID : class_number;
        }
        inside[i] = 0;
    }
}

sr_status sr_outline_mask_add(sr_outline_mask *mask, const sr_annotation *object,
                              uint8_t class_number) {
    const double *points = object->points;
    if (object->polygon_count == 0 && object->mask == NULL)
        return SR_FAIL(SR_E_DATA, "an object has a box, but no outline to draw a mask from");
    mask->first = SIZE_MAX;
    mask->last = 0;
    for (uint32_t i = 0; i < object->polygon_count; i++) {
        add_polygon(mask, points, object->polygon_sizes[i] / 2);
        points += object->polygon_sizes[i];
    }
    if (object->mask != NULL)
        SR_TRY(add_runs(mask, object));
    if (mask->first <= mask->last)
        paint(mask, object->crowd, class_number);
    return SR_OK;
}
