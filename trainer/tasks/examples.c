// SPDX-License-Identifier: Apache-2.0
// Examples of an evaluation (examples.h). Each rank keeps the candidates among its samples. Their
// descriptions are gathered, every rank chooses the same ones, and only their pixels are sent.
#include "trainer/tasks/examples.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/draw/samples_picture.h"

enum { PER_ROW = 8, TILES = SR_EXAMPLE_ROWS * PER_ROW };
// Of a shown picture: its pixels, and behind them its mask.
enum { SIDE = SR_TILE_SIDE, MASK_AT = SIDE * SIDE * 3, PICTURE_BYTES = MASK_AT + SIDE * SIDE };

// What is kept of an example; plain bytes, which are sent between ranks.
typedef struct kept {
    int64_t position; // -1: none
    double key;
    int32_t verdict;
    int32_t rank;                  // that has the pixels
    int32_t picture;               // index among that rank's pictures
    int32_t width, height, masked; // of what is shown; whether it has a mask
    char caption[SR_EXAMPLE_TEXT], note[SR_EXAMPLE_TEXT];
} kept;

typedef struct kept_rows {
    kept list[SR_EXAMPLE_ROWS][PER_ROW];
    int count[SR_EXAMPLE_ROWS];
} kept_rows;

struct sr_examples {
    const sr_example_desc *desc;
    int64_t samples;
    kept_rows rows;
    uint8_t *pixels; // [TILES] pictures
};

sr_status sr_examples_create(const sr_example_desc *desc, int64_t samples, sr_examples **out) {
    sr_examples *e = sr_alloc(sizeof *e, "examples");
    if (!e)
        return SR_E_MEMORY;
    e->desc = desc;
    e->samples = samples;
    e->pixels = sr_alloc_array(TILES, PICTURE_BYTES, "examples");
    if (!e->pixels) {
        sr_free(e);
        return SR_E_MEMORY;
    }
    *out = e;
    return SR_OK;
}

void sr_examples_free(sr_examples *e) {
    if (!e)
        return;
    sr_free(e->pixels);
    sr_free(e);
}

// -- choosing ----------------------------------------------------------------------------------

// In a row; equal keys are in order of position.
static bool before(bool fixed, int64_t position, double key, const kept *other) {
    if (!fixed && key != other->key)
        return key < other->key;
    return position < other->position;
}

static bool is_fixed_position(const sr_examples *e, int64_t position) {
    for (int64_t i = 0; i < PER_ROW; i++)
        if (position == (2 * i + 1) * e->samples / (2 * PER_ROW))
            return true;
    return false;
}

bool sr_examples_takes(const sr_examples *e, int row, int64_t position, double key) {
    const bool fixed = e->desc->rows[row].fixed;
    if (fixed && !is_fixed_position(e, position))
        return false;
    return e->rows.count[row] < PER_ROW ||
           before(fixed, position, key, &e->rows.list[row][PER_ROW - 1]);
}

// Inserts x in order, dropping the last of a full row. Returns its index, or -1. Pixels are not
// moved: x takes over the picture of the dropped example.
static int enter(kept_rows *rows, int row, bool fixed, kept x) {
    kept *list = rows->list[row];
    int at = rows->count[row];
    if (at == PER_ROW) {
        if (!before(fixed, x.position, x.key, &list[PER_ROW - 1]))
            return -1;
        x.picture = list[--at].picture;
    } else {
        x.picture = row * PER_ROW + at;
        ++rows->count[row];
    }
    for (; at > 0 && before(fixed, x.position, x.key, &list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = x;
    return at;
}

// The pixels at the middle of those that a smaller picture's cover.
static void shrink_mask(const uint8_t *mask, int64_t width, int64_t height, const kept *x,
                        uint8_t *out) {
    for (int64_t i = 0; i < x->height; i++) {
        const uint8_t *row = mask + (2 * i + 1) * height / (2 * x->height) * width;
        for (int64_t j = 0; j < x->width; j++)
            *out++ = row[(2 * j + 1) * width / (2 * x->width)];
    }
}

static void keep_pixels(sr_examples *e, const kept *x, const sr_example *example) {
    uint8_t *picture = e->pixels + (size_t)x->picture * PICTURE_BYTES;
    sr_raster shown = {.width = x->width, .height = x->height, .rgb = picture};
    sr_raster_picture(&shown, 0, 0, shown.width, shown.height, example->rgb, example->width,
                      example->height);
    if (example->mask)
        shrink_mask(example->mask, example->mask_width, example->mask_height, x, picture + MASK_AT);
}

void sr_examples_offer(sr_examples *e, int row, const sr_example *example) {
    kept x = {.position = example->position,
              .key = example->key,
              .verdict = (int32_t)example->verdict,
              .masked = example->mask != NULL};
    int width, height;
    if (!sr_examples_takes(e, row, x.position, x.key))
        return;
    sr_samples_shrink(example->width, example->height, SIDE, &width, &height);
    x.width = width;
    x.height = height;
    (void)snprintf(x.caption, sizeof x.caption, "%s", example->caption ? example->caption : "");
    (void)snprintf(x.note, sizeof x.note, "%s", example->note ? example->note : "");
    const int at = enter(&e->rows, row, e->desc->rows[row].fixed, x);
    if (at >= 0)
        keep_pixels(e, &e->rows.list[row][at], example);
}

// -- gathering ---------------------------------------------------------------------------------

// Inserts the examples of one rank; a position of -1 is an unused one.
static void enter_all(const sr_examples *e, kept_rows *chosen, const kept *from) {
    for (int n = 0; n < TILES; n++) {
        const int row = n / PER_ROW;
        if (from[n].position < 0)
            continue;
        const int at = enter(chosen, row, e->desc->rows[row].fixed, from[n]);
        if (at >= 0)
            chosen->list[row][at].picture = from[n].picture; // of its rank
    }
}

// Chooses the rows over all ranks from the rows of each.
static sr_status choose(const sr_examples *e, sr_comm *comm, kept_rows *chosen) {
    const int ranks = sr_comm_size(comm), rank = sr_comm_rank(comm);
    kept *all = sr_alloc_array((size_t)(ranks + 1) * TILES, sizeof *all, "examples of all ranks");
    if (!all)
        return SR_E_MEMORY;
    kept *mine = all + (ptrdiff_t)ranks * TILES;
    for (int n = 0; n < TILES; n++) {
        const int row = n / PER_ROW, i = n % PER_ROW;
        mine[n] = e->rows.list[row][i];
        mine[n].rank = rank;
        mine[n].position = i < e->rows.count[row] ? mine[n].position : -1;
    }
    const sr_status status = sr_comm_all_gather(comm, mine, TILES * sizeof *mine, all, "examples");
    for (int r = 0; r < ranks && status == SR_OK; r++)
        enter_all(e, chosen, all + (ptrdiff_t)r * TILES);
    sr_free(all);
    return status;
}

// Numbers the chosen pictures of a rank from 'next' on and, if that is this rank ('here'), copies
// them into 'all'. Returns their count.
static int32_t number_pictures(const sr_examples *e, kept_rows *chosen, int rank, bool here,
                               int32_t next, uint8_t *all) {
    int32_t count = 0;
    for (int n = 0; n < TILES; n++) {
        const int row = n / PER_ROW, i = n % PER_ROW;
        kept *x = &chosen->list[row][i];
        if (i >= chosen->count[row] || x->rank != rank)
            continue;
        const int32_t number = next + count++;
        if (here)
            memcpy(all + (size_t)number * PICTURE_BYTES,
                   e->pixels + (size_t)x->picture * PICTURE_BYTES, PICTURE_BYTES);
        x->picture = number;
    }
    return count;
}

// Gathers the pixels of the chosen examples, rank after rank.
static sr_status gather_pixels(sr_examples *e, sr_comm *comm, kept_rows *chosen) {
    const int ranks = sr_comm_size(comm), rank = sr_comm_rank(comm);
    size_t *offsets = sr_alloc_array(2 * (size_t)ranks, sizeof *offsets, "examples");
    uint8_t *all = sr_alloc_array(TILES, PICTURE_BYTES, "examples");
    int32_t next = 0;
    if (!offsets || !all) {
        sr_free(offsets);
        sr_free(all);
        return SR_E_MEMORY;
    }
    size_t *sizes = offsets + ranks;
    for (int r = 0; r < ranks; r++) {
        const int32_t count = number_pictures(e, chosen, r, r == rank, next, all);
        offsets[r] = (size_t)next * PICTURE_BYTES;
        sizes[r] = (size_t)count * PICTURE_BYTES;
        next += count;
    }
    const sr_status status =
        sr_comm_all_gather_v(comm, all, offsets, sizes, "pictures of examples");
    sr_free(offsets);
    sr_free(e->pixels);
    e->pixels = all;
    return status;
}

sr_status sr_examples_gather(sr_examples *e, sr_comm *comm) {
    if (sr_comm_size(comm) == 1)
        return SR_OK;
    kept_rows *chosen = sr_alloc(sizeof *chosen, "examples of all ranks");
    if (!chosen)
        return SR_E_MEMORY;
    sr_status status = choose(e, comm, chosen);
    if (status == SR_OK)
        status = gather_pixels(e, comm, chosen);
    if (status == SR_OK)
        e->rows = *chosen;
    sr_free(chosen);
    return status;
}

// -- drawing -----------------------------------------------------------------------------------

static sr_tile tile_of(const sr_examples *e, const kept *x) {
    const uint8_t *picture = e->pixels + (size_t)x->picture * PICTURE_BYTES;
    return (sr_tile){.rgb = picture,
                     .width = x->width,
                     .height = x->height,
                     .caption = x->caption[0] ? x->caption : NULL,
                     .note = x->note[0] ? x->note : NULL,
                     .verdict = (sr_verdict)x->verdict,
                     .mask = x->masked ? picture + MASK_AT : NULL};
}

void sr_examples_draw(const sr_examples *e, const sr_metric_setting *setting, const char *title,
                      const char *path, sr_drawing *drawing) {
    const char *row_titles[SR_EXAMPLE_ROWS];
    sr_tile tiles[TILES] = {0};
    int rows = 0, total = 0;
    bool masked = false;
    for (; rows < SR_EXAMPLE_ROWS && e->desc->rows[rows].title; rows++) {
        row_titles[rows] = e->desc->rows[rows].title;
        for (int i = 0; i < e->rows.count[rows]; i++) {
            tiles[rows * PER_ROW + i] = tile_of(e, &e->rows.list[rows][i]);
            masked = masked || e->rows.list[rows][i].masked;
        }
        total += e->rows.count[rows];
    }
    const sr_samples sheet = {.title = title,
                              .tiles = tiles,
                              .count = rows * PER_ROW,
                              .columns = PER_ROW,
                              .row_titles = row_titles,
                              .classes = masked ? setting->class_names : NULL,
                              .class_count = masked ? setting->classes : 0};
    if (total > 0)
        sr_drawing_samples(drawing, &sheet, path);
}
