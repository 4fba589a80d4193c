// SPDX-License-Identifier: Apache-2.0
// Examples of an evaluation (examples.h). Each rank keeps the candidates among its samples. Their
// descriptions are gathered, every rank chooses the same ones, and only their pixels are sent.
#include "trainer/report/examples.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/draw/samples_picture.h"
#include "trainer/tasks/metric_topk.h"

typedef enum example_kind {
    FIXED = 0, // evenly spaced positions
    BEST,      // correct, with the lowest loss
    WORST,     // the highest loss
    KINDS
} example_kind;

enum { PER_KIND = 8 };

typedef struct example {
    int64_t position; // -1: none
    double loss, probability;
    int32_t label, predicted;
    int32_t rank;    // that has the pixels
    int32_t picture; // index among that rank's pictures
} example;

typedef struct example_rows {
    example list[KINDS][PER_KIND];
    int count[KINDS];
} example_rows;

struct sr_examples {
    int64_t samples, width, height;
    int shown_width, shown_height;
    size_t bytes; // of a shown picture
    example_rows kept;
    uint8_t *pixels; // [KINDS * PER_KIND] pictures
};

sr_status sr_examples_create(int64_t samples, int64_t width, int64_t height, sr_examples **out) {
    sr_examples *e = sr_alloc(sizeof *e, "examples");
    if (!e)
        return SR_E_MEMORY;
    e->samples = samples;
    e->width = width;
    e->height = height;
    sr_samples_shrink(width, height, SR_TILE_SIDE, &e->shown_width, &e->shown_height);
    e->bytes = (size_t)e->shown_width * (size_t)e->shown_height * 3;
    e->pixels = sr_alloc_array((size_t)KINDS * PER_KIND, e->bytes, "examples");
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

// Whether a comes before b in the row of its kind; equal losses are in order of position.
static bool before(example_kind k, const example *a, const example *b) {
    if (k == BEST && a->loss != b->loss)
        return a->loss < b->loss;
    if (k == WORST && a->loss != b->loss)
        return a->loss > b->loss;
    return a->position < b->position;
}

static bool belongs(const sr_examples *e, example_kind k, const example *x) {
    if (k == BEST)
        return x->label == x->predicted;
    if (k == WORST)
        return true;
    for (int64_t i = 0; i < PER_KIND; i++)
        if (x->position == (2 * i + 1) * e->samples / (2 * PER_KIND))
            return true;
    return false;
}

// Inserts x in order, dropping the last of a full row. Returns its index, or -1. Pixels are not
// moved: x takes over the picture of the dropped example.
static int enter(example *row, int *count, example_kind k, example x) {
    int at = *count;
    if (at == PER_KIND) {
        if (!before(k, &x, &row[PER_KIND - 1]))
            return -1;
        x.picture = row[--at].picture;
    } else {
        x.picture = (int32_t)k * PER_KIND + at;
        ++*count;
    }
    for (; at > 0 && before(k, &x, &row[at - 1]); at--)
        row[at] = row[at - 1];
    row[at] = x;
    return at;
}

static void keep_pixels(sr_examples *e, int picture, const uint8_t *rgb) {
    sr_raster shown = {.width = e->shown_width,
                       .height = e->shown_height,
                       .rgb = e->pixels + (size_t)picture * e->bytes};
    sr_raster_picture(&shown, 0, 0, shown.width, shown.height, rgb, e->width, e->height);
}

void sr_examples_add(sr_examples *e, int64_t position, const uint8_t *rgb, const float *logits,
                     int classes, int label) {
    const sr_prediction p = sr_topk_predict(logits, classes, label);
    const example x = {.position = position,
                       .loss = isnan(p.loss) ? (double)INFINITY : p.loss,
                       .probability = p.probability,
                       .label = label,
                       .predicted = p.predicted};
    for (int k = 0; k < KINDS; k++) {
        if (!belongs(e, (example_kind)k, &x))
            continue;
        const int at = enter(e->kept.list[k], &e->kept.count[k], (example_kind)k, x);
        if (at >= 0)
            keep_pixels(e, e->kept.list[k][at].picture, rgb);
    }
}

// -- gathering ---------------------------------------------------------------------------------

// Inserts the examples of one rank; a position of -1 is an unused one.
static void enter_all(example_rows *chosen, const example *from) {
    for (int n = 0; n < KINDS * PER_KIND; n++) {
        const int k = n / PER_KIND;
        if (from[n].position < 0)
            continue;
        const int at = enter(chosen->list[k], &chosen->count[k], (example_kind)k, from[n]);
        if (at >= 0)
            chosen->list[k][at].picture = from[n].picture; // of its rank
    }
}

// Chooses the rows over all ranks from the rows of each.
static sr_status choose(const sr_examples *e, sr_comm *comm, example_rows *chosen) {
    const int ranks = sr_comm_size(comm), rank = sr_comm_rank(comm);
    example mine[KINDS * PER_KIND];
    for (int n = 0; n < KINDS * PER_KIND; n++) {
        const int k = n / PER_KIND, i = n % PER_KIND;
        mine[n] = e->kept.list[k][i];
        mine[n].rank = rank;
        mine[n].position = i < e->kept.count[k] ? mine[n].position : -1;
    }
    example *all =
        sr_alloc_array((size_t)ranks * KINDS * PER_KIND, sizeof *all, "examples of all ranks");
    if (!all)
        return SR_E_MEMORY;
    const sr_status status = sr_comm_all_gather(comm, mine, sizeof mine, all, "examples");
    for (int r = 0; r < ranks && status == SR_OK; r++)
        enter_all(chosen, all + (ptrdiff_t)r * KINDS * PER_KIND);
    sr_free(all);
    return status;
}

// Numbers the chosen pictures of a rank from 'next' on and, if that is this rank ('here'), copies
// them into 'all'. Returns their count.
static int32_t number_pictures(const sr_examples *e, example_rows *chosen, int rank, bool here,
                               int32_t next, uint8_t *all) {
    int32_t count = 0;
    for (int n = 0; n < KINDS * PER_KIND; n++) {
        const int k = n / PER_KIND, i = n % PER_KIND;
        example *x = &chosen->list[k][i];
        if (i >= chosen->count[k] || x->rank != rank)
            continue;
        const int32_t number = next + count++;
        if (here)
            memcpy(all + (size_t)number * e->bytes, e->pixels + (size_t)x->picture * e->bytes,
                   e->bytes);
        x->picture = number;
    }
    return count;
}

// Gathers the pixels of the chosen examples, rank after rank.
static sr_status gather_pixels(sr_examples *e, sr_comm *comm, example_rows *chosen) {
    const int ranks = sr_comm_size(comm), rank = sr_comm_rank(comm);
    size_t *offsets = sr_alloc_array(2 * (size_t)ranks, sizeof *offsets, "examples");
    uint8_t *all = sr_alloc_array((size_t)KINDS * PER_KIND, e->bytes, "examples");
    int32_t next = 0;
    if (!offsets || !all) {
        sr_free(offsets);
        sr_free(all);
        return SR_E_MEMORY;
    }
    size_t *sizes = offsets + ranks;
    for (int r = 0; r < ranks; r++) {
        const int32_t count = number_pictures(e, chosen, r, r == rank, next, all);
        offsets[r] = (size_t)next * e->bytes;
        sizes[r] = (size_t)count * e->bytes;
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
    example_rows chosen = {0};
    if (sr_comm_size(comm) == 1)
        return SR_OK;
    SR_TRY(choose(e, comm, &chosen));
    SR_TRY(gather_pixels(e, comm, &chosen));
    e->kept = chosen;
    return SR_OK;
}

// -- drawing -----------------------------------------------------------------------------------

void sr_examples_draw(const sr_examples *e, const char *const *classes, const char *title,
                      const char *path, sr_drawing *drawing) {
    static const char *const row_titles[KINDS] = {"the same samples after each evaluation",
                                                  "correct, with the lowest loss",
                                                  "the highest loss"};
    sr_tile tiles[KINDS * PER_KIND] = {0};
    char notes[KINDS * PER_KIND][160];
    int total = 0;
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; i < e->kept.count[k]; i++) {
            const example *x = &e->kept.list[k][i];
            const int n = k * PER_KIND + i;
            (void)snprintf(notes[n], sizeof notes[n], "%.*f %% %.140s", x->probability < 0.0995,
                           100 * x->probability, classes[x->predicted]);
            tiles[n] = (sr_tile){.rgb = e->pixels + (size_t)x->picture * e->bytes,
                                 .width = e->shown_width,
                                 .height = e->shown_height,
                                 .caption = classes[x->label],
                                 .note = notes[n],
                                 .verdict = x->predicted == x->label ? SR_VERDICT_RIGHT
                                                                     : SR_VERDICT_WRONG};
        }
        total += e->kept.count[k];
    }
    const sr_samples sheet = {.title = title,
                              .tiles = tiles,
                              .count = KINDS * PER_KIND,
                              .columns = PER_KIND,
                              .row_titles = row_titles};
    if (total > 0)
        sr_drawing_samples(drawing, &sheet, path);
}
