// SPDX-License-Identifier: Apache-2.0
// samples/aug_0.png: samples of the first batch as the network sees them, from the lanes of all
// ranks.
//
// Each rank shrinks the samples of its lanes; rank 0 draws. The picture is the same on any number
// of ranks. A picture that cannot be drawn is a warning and never ends a run; all ranks take part
// even then.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/draw/samples_picture.h"
#include "trainer/run/training_internal.h"

enum { MAX_TILES = 36 };
enum { ABSENT = -2, NO_CLASS = -3 }; // instead of a label

// A sample as it is sent to rank 0; its pixels follow.
typedef struct sent_sample {
    int32_t label; // ABSENT: its lane could not be read; NO_CLASS: the task has none
    int32_t partner;
    float weight;
} sent_sample;

typedef struct first_batch {
    sr_training *training;
    int lanes, per_lane;   // that are shown
    int64_t width, height; // of the network's input
    int shown_width, shown_height;
    size_t stride;       // bytes of a sample with its pixels
    unsigned char *all;  // [lanes][per_lane] of 'stride' bytes
    sr_mixed_lane mixed; // of one lane; x NULL where the recipe mixes nothing
} first_batch;

static bool mixes(const sr_recipe *recipe) {
    return recipe->mix.probability > 0 && (recipe->mix.mixup > 0 || recipe->mix.cutmix > 0);
}

static sr_status begin(sr_training *t, first_batch *b) {
    const sr_engine_info *e = &t->info;
    const int64_t pixels = e->lane_samples * e->image_height * e->image_width * 3;
    *b = (first_batch){.training = t, .lanes = e->lanes < MAX_TILES ? e->lanes : MAX_TILES};
    sr_engine_get_size(t->engine, 0, &b->height, &b->width);
    b->per_lane = (MAX_TILES + b->lanes - 1) / b->lanes;
    b->per_lane = b->per_lane < e->lane_samples ? b->per_lane : (int)e->lane_samples;
    sr_samples_shrink(b->width, b->height, SR_TILE_SIDE, &b->shown_width, &b->shown_height);
    b->stride = (sizeof(sent_sample) + (size_t)b->shown_width * (size_t)b->shown_height * 3 + 15) &
                ~(size_t)15;
    b->all = sr_alloc_array((size_t)b->lanes * (size_t)b->per_lane, b->stride, "first batch");
    bool enough = b->all != NULL;
    if (mixes(t->recipe)) {
        b->mixed.x = sr_alloc_array((size_t)pixels, sizeof(float), "first batch");
        b->mixed.partner = sr_alloc_array((size_t)e->lane_samples, sizeof(int32_t), "first batch");
        b->mixed.weight = sr_alloc_array((size_t)e->lane_samples, sizeof(float), "first batch");
        enough = enough && b->mixed.x && b->mixed.partner && b->mixed.weight;
    }
    return enough ? SR_OK : SR_E_MEMORY;
}

static void release(first_batch *b) {
    sr_free(b->all);
    sr_free(b->mixed.x);
    sr_free(b->mixed.partner);
    sr_free(b->mixed.weight);
}

// -- samples of a lane -------------------------------------------------------------------------

static unsigned char *entry(const first_batch *b, int lane, int i) {
    return b->all + (size_t)(lane * b->per_lane + i) * b->stride;
}

// Undoes the normalisation by data.mean and data.std.
static void restore_pixels(const first_batch *b, const float *x, uint8_t *out) {
    const sr_engine_info *e = &b->training->info;
    for (int64_t i = 0; i < b->width * b->height * 3; i++) {
        const double value = 255 * ((double)x[i] * e->std[i % 3] + e->mean[i % 3]);
        out[i] = (uint8_t)(value > 0 ? value < 255 ? value + 0.5 : 255 : 0);
    }
}

static sr_status put_sample(const first_batch *b, int lane, int i, const uint8_t *rgb,
                            const sent_sample *s) {
    sr_raster raster;
    unsigned char *to = entry(b, lane, i);
    SR_TRY(sr_raster_create(b->shown_width, b->shown_height, &raster));
    sr_raster_picture(&raster, 0, 0, raster.width, raster.height, rgb, b->width, b->height);
    memcpy(to, s, sizeof *s);
    memcpy(to + sizeof *s, raster.rgb, (size_t)raster.width * (size_t)raster.height * 3);
    sr_raster_release(&raster);
    return SR_OK;
}

static sr_status put_lane(const first_batch *b, int lane, uint8_t *scratch) {
    const sr_slot *slot;
    const sr_array *image;
    const int64_t pixels = b->width * b->height * 3;
    SR_TRY(sr_feed_peek(b->training->feed, lane, &slot));
    SR_TRY(sr_slot_get(slot, "image", &image));
    const sr_array *label = sr_slot_find(slot, "label");
    if (b->mixed.x)
        SR_TRY(sr_engine_mix(b->training->engine, 0, lane, slot, &b->mixed));
    for (int i = 0; i < b->per_lane; i++) {
        const uint8_t *rgb = (const uint8_t *)image->data + i * pixels;
        sent_sample s = {.label = label ? ((const int32_t *)label->data)[i] : NO_CLASS,
                         .weight = 1};
        if (b->mixed.x) {
            restore_pixels(b, b->mixed.x + i * pixels, scratch);
            rgb = scratch;
            s.partner = b->mixed.partner[i];
            s.weight = b->mixed.weight[i];
        }
        SR_TRY(put_sample(b, lane, i, rgb, &s));
    }
    return SR_OK;
}

// A lane that cannot be read is reported by the step that needs it.
static sr_status put_lanes(const first_batch *b) {
    const sr_engine_info *e = &b->training->info;
    uint8_t *scratch = sr_alloc((size_t)(b->width * b->height * 3), "first batch");
    const sent_sample absent = {.label = ABSENT};
    if (!scratch)
        return SR_E_MEMORY;
    for (int lane = e->lane_begin; lane < e->lane_end && lane < b->lanes; lane++)
        if (put_lane(b, lane, scratch) != SR_OK)
            for (int i = 0; i < b->per_lane; i++)
                memcpy(entry(b, lane, i), &absent, sizeof absent);
    sr_free(scratch);
    return SR_OK;
}

static sr_status gather(const first_batch *b) {
    const sr_training *t = b->training;
    const int lanes = t->info.lanes;
    size_t *offsets = sr_alloc_array(2 * (size_t)t->ranks, sizeof *offsets, "first batch");
    if (!offsets)
        return SR_E_MEMORY;
    size_t *sizes = offsets + t->ranks;
    for (int r = 0; r < t->ranks; r++) {
        int first = sr_lanes_first(lanes, t->ranks, r),
            end = sr_lanes_first(lanes, t->ranks, r + 1);
        first = first < b->lanes ? first : b->lanes;
        end = end < b->lanes ? end : b->lanes;
        offsets[r] = (size_t)(first * b->per_lane) * b->stride;
        sizes[r] = (size_t)((end - first) * b->per_lane) * b->stride;
    }
    const sr_status status =
        sr_comm_all_gather_v(t->comm, b->all, offsets, sizes, "samples of the first batch");
    sr_free(offsets);
    return status;
}

// -- drawing -----------------------------------------------------------------------------------

static const char *name_of(const sr_training *t, int32_t number) {
    return number >= 0 && number < t->inputs.class_count ? t->inputs.class_names[number] : "?";
}

// "cat" alone, or "70 % cat" with "30 % dog" below.
static void describe(const sr_training *t, const sent_sample *s, sr_tile *tile, char text[2][160]) {
    const double percent = 100 * (double)s->weight;
    if (s->label == NO_CLASS)
        return;
    tile->caption = name_of(t, s->label);
    if (s->weight >= 1)
        return;
    (void)snprintf(text[0], 160, "%.0f %% %.140s", percent, tile->caption);
    (void)snprintf(text[1], 160, "%.0f %% %.140s", 100 - percent, name_of(t, s->partner));
    tile->caption = text[0];
    tile->note = text[1];
}

static void draw(const first_batch *b, const char *path) {
    const sr_training *t = b->training;
    char title[160], text[MAX_TILES * 2][2][160];
    sr_tile tiles[MAX_TILES * 2];
    int count = 0;
    for (int k = 0; k < b->lanes * b->per_lane && count < MAX_TILES; k++) {
        sent_sample s;
        const unsigned char *from = entry(b, 0, k);
        memcpy(&s, from, sizeof s);
        if (s.label == ABSENT)
            continue;
        tiles[count] =
            (sr_tile){.rgb = from + sizeof s, .width = b->shown_width, .height = b->shown_height};
        describe(t, &s, &tiles[count], text[count]);
        count++;
    }
    (void)snprintf(title, sizeof title,
                   "first batch as the network sees it: %d of %lld samples, from %s%d lane%s",
                   count, (long long)t->info.batch, t->info.lanes > b->lanes ? "the first " : "",
                   b->lanes, b->lanes == 1 ? "" : "s");
    const sr_samples sheet = {.title = title, .tiles = tiles, .count = count};
    if (count > 0)
        sr_drawing_samples(t->drawing, &sheet, path);
}

static sr_status draw_to_run(const first_batch *b) {
    const sr_training *t = b->training;
    char *folder = t->run ? sr_run_folder_file(t->run, "samples") : NULL;
    char *path = folder ? sr_path_join(folder, "aug_0.png") : NULL;
    sr_status status = path ? sr_run_folder_check(t->run) : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_make_folders(folder);
    if (status == SR_OK)
        draw(b, path);
    sr_free(path);
    sr_free(folder);
    return status;
}

sr_status sr_training_draw_first_batch(sr_training *t) {
    first_batch b;
    if (t->step > 0)
        return SR_OK;
    sr_status status = begin(t, &b);
    if (status == SR_OK)
        status = put_lanes(&b);
    if (status == SR_OK)
        status = gather(&b);
    if (status == SR_OK && t->rank == 0 && draw_to_run(&b) != SR_OK)
        SR_WARN("samples/aug_0.png was not drawn: %s", sr_error_message());
    release(&b);
    return status;
}
