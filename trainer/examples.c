// SPDX-License-Identifier: Apache-2.0
// Examples of an evaluation (examples.h). Each rank keeps the candidates among its samples; their
// numbers are gathered, every rank chooses the same ones, and only their pixels travel.
#include "trainer/examples.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/metrics.h"
#include "trainer/samples_picture.h"

typedef enum kind {
    FIXED = 0, // evenly spaced positions
    BEST,      // right, with the lowest loss
    WORST,     // the highest loss
    KINDS
} kind;

enum { PER_KIND = 8 };

typedef struct example {
    int64_t position; // -1: none
    double loss, probability;
    int32_t label, predicted;
    int32_t rank; // that has the pixels
    int32_t slot; // of that rank's pixels
} example;

struct sr_examples {
    int64_t samples, width, height;
    int shown_width, shown_height;
    size_t bytes; // of a shown picture
    example list[KINDS][PER_KIND];
    int count[KINDS];
    uint8_t *pixels; // [KINDS * PER_KIND] pictures
};

sr_status sr_examples_create(int64_t samples, int64_t width, int64_t height, sr_examples **out) {
    sr_examples *e = sr_alloc(sizeof *e, "examples");
    if (!e)
        return SR_E_MEMORY;
    e->samples = samples;
    e->width = width;
    e->height = height;
    sr_samples_fit(width, height, SR_TILE_SIDE, &e->shown_width, &e->shown_height);
    if (e->shown_width > width) { // enlarged only when drawn
        e->shown_width = (int)width;
        e->shown_height = (int)height;
    }
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

// Whether a stands before b in its kind's row; of equal losses the earlier sample.
static bool before(kind k, const example *a, const example *b) {
    if (k == BEST && a->loss != b->loss)
        return a->loss < b->loss;
    if (k == WORST && a->loss != b->loss)
        return a->loss > b->loss;
    return a->position < b->position;
}

static bool belongs(const sr_examples *e, kind k, const example *x) {
    if (k == BEST)
        return x->label == x->predicted;
    if (k == WORST)
        return true;
    for (int64_t i = 0; i < PER_KIND; i++)
        if (x->position == (2 * i + 1) * e->samples / (2 * PER_KIND))
            return true;
    return false;
}

// Enters x in order, dropping the last of a full row. Returns where, or -1. Pixels stay where they
// are: the entry takes the slot of the one that was dropped.
static int enter(example *row, int *count, kind k, example x) {
    int at = *count;
    if (at == PER_KIND) {
        if (!before(k, &x, &row[PER_KIND - 1]))
            return -1;
        x.slot = row[--at].slot;
    } else {
        x.slot = (int32_t)k * PER_KIND + at;
        ++*count;
    }
    for (; at > 0 && before(k, &x, &row[at - 1]); at--)
        row[at] = row[at - 1];
    row[at] = x;
    return at;
}

static void keep_pixels(sr_examples *e, int slot, const uint8_t *rgb) {
    sr_raster shown = {.width = e->shown_width,
                       .height = e->shown_height,
                       .rgb = e->pixels + (size_t)slot * e->bytes};
    sr_raster_picture(&shown, 0, 0, shown.width, shown.height, rgb, e->width, e->height);
}

void sr_examples_add(sr_examples *e, int64_t position, const uint8_t *rgb, const float *logits,
                     int classes, int label) {
    const sr_prediction p = sr_metrics_predict(logits, classes, label);
    const example x = {.position = position,
                       .loss = isnan(p.loss) ? (double)INFINITY : p.loss,
                       .probability = p.probability,
                       .label = label,
                       .predicted = p.predicted};
    for (int k = 0; k < KINDS; k++) {
        if (!belongs(e, (kind)k, &x))
            continue;
        const int at = enter(e->list[k], &e->count[k], (kind)k, x);
        if (at >= 0)
            keep_pixels(e, e->list[k][at].slot, rgb);
    }
}

// -- gathering ---------------------------------------------------------------------------------

// The rows of all ranks, chosen from those of each.
static sr_status choose(sr_examples *e, sr_comm *comm, example chosen[KINDS][PER_KIND],
                        int count[KINDS]) {
    const int ranks = sr_comm_size(comm), rank = sr_comm_rank(comm);
    const size_t entries = (size_t)KINDS * PER_KIND;
    example mine[KINDS][PER_KIND];
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < PER_KIND; i++) {
            mine[k][i] = e->list[k][i];
            mine[k][i].rank = rank;
            if (i >= e->count[k])
                mine[k][i].position = -1;
        }
    example *all = sr_alloc_array((size_t)ranks * entries, sizeof *all, "examples");
    if (!all)
        return SR_E_MEMORY;
    const sr_status status = sr_comm_all_gather(comm, mine, sizeof mine, all, "examples");
    for (int k = 0; k < KINDS && status == SR_OK; k++)
        for (int i = 0; i < ranks * PER_KIND; i++) {
            const example *x =
                &all[(size_t)(i / PER_KIND) * entries + (size_t)(k * PER_KIND + i % PER_KIND)];
            if (x->position < 0)
                continue;
            const int at = enter(chosen[k], &count[k], (kind)k, *x);
            if (at >= 0)
                chosen[k][at].slot = x->slot; // of its rank
        }
    sr_free(all);
    return status;
}

// Pixels of the chosen ones, rank after rank; *slots are where rank 0 finds each.
static sr_status gather_pixels(sr_examples *e, sr_comm *comm, example chosen[KINDS][PER_KIND],
                               const int count[KINDS]) {
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
        offsets[r] = (size_t)next * e->bytes;
        for (int k = 0; k < KINDS; k++)
            for (int i = 0; i < count[k]; i++) {
                example *x = &chosen[k][i];
                if (x->rank != r)
                    continue;
                if (r == rank)
                    memcpy(all + (size_t)next * e->bytes, e->pixels + (size_t)x->slot * e->bytes,
                           e->bytes);
                x->slot = next++;
            }
        sizes[r] = (size_t)next * e->bytes - offsets[r];
    }
    const sr_status status =
        sr_comm_all_gather_v(comm, all, offsets, sizes, "pictures of examples");
    sr_free(offsets);
    sr_free(e->pixels);
    e->pixels = all;
    return status;
}

sr_status sr_examples_gather(sr_examples *e, sr_comm *comm) {
    example chosen[KINDS][PER_KIND];
    int count[KINDS] = {0};
    if (sr_comm_size(comm) == 1)
        return SR_OK;
    SR_TRY(choose(e, comm, chosen, count));
    SR_TRY(gather_pixels(e, comm, chosen, count));
    memcpy(e->list, chosen, sizeof chosen);
    memcpy(e->count, count, sizeof count);
    return SR_OK;
}

// -- drawing -----------------------------------------------------------------------------------

sr_status sr_examples_write(const sr_examples *e, const char *const *classes, const char *title,
                            const char *path) {
    static const char *const row_titles[KINDS] = {"the same samples after each evaluation",
                                                  "right, with the lowest loss",
                                                  "the highest loss"};
    sr_tile tiles[KINDS * PER_KIND] = {0};
    char notes[KINDS * PER_KIND][160];
    int total = 0;
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; i < e->count[k]; i++) {
            const example *x = &e->list[k][i];
            const int n = k * PER_KIND + i;
            (void)snprintf(notes[n], sizeof notes[n], "%.*f %% %.140s", x->probability < 0.0995,
                           100 * x->probability, classes[x->predicted]);
            tiles[n] = (sr_tile){.rgb = e->pixels + (size_t)x->slot * e->bytes,
                                 .width = e->shown_width,
                                 .height = e->shown_height,
                                 .caption = classes[x->label],
                                 .note = notes[n],
                                 .verdict = x->predicted == x->label ? SR_VERDICT_RIGHT
                                                                     : SR_VERDICT_WRONG};
        }
        total += e->count[k];
    }
    const sr_samples sheet = {.title = title,
                              .tiles = tiles,
                              .count = KINDS * PER_KIND,
                              .columns = PER_KIND,
                              .row_titles = row_titles};
    return total > 0 ? sr_samples_write(&sheet, path) : SR_OK;
}
