// SPDX-License-Identifier: Apache-2.0
// Reading what serried show draws (show_samples.h): each record is decoded, turned upright and
// shrunk to the size of its tile before the next one, so that only the sheet is kept in memory.
#include "launcher/commands/show_samples.h"

#include <stdio.h>
#include <string.h>

#include "dataio/image/resample.h"
#include "dataio/jpeg/decode.h"
#include "dataio/pack/inspect.h"
#include "dataio/record/class_name.h"
#include "dataio/record/zstd_frame.h"

#define SHEET_PIXELS ((int64_t)48 << 20)

typedef struct reader {
    sr_dataset *dataset;
    sr_arena *arena;
    int side;
    sr_decoder *decoder;
    sr_resampler *resampler;
    sr_zstd zstd;
} reader;

// -- pictures ----------------------------------------------------------------------------------

static sr_status shrink(reader *r, const sr_pixels *pixels, sr_tile *tile, uint8_t *rgb) {
    const sr_resize job = {.width = (double)pixels->width,
                           .height = (double)pixels->height,
                           .output_width = tile->width,
                           .output_height = tile->height,
                           .window = {.width = tile->width, .height = tile->height}};
    return sr_resample(r->resampler, pixels, &job, rgb);
}

// A small picture keeps its size; the sheet enlarges it.
static sr_status read_picture(reader *r, const sr_sample *sample, int64_t *width, int64_t *height,
                              sr_tile *tile) {
    const sr_encoded encoded = sr_encoded_of(sample);
    sr_pixels pixels;
    int shown_width, shown_height;
    SR_TRY(sr_decoder_open(r->decoder, &encoded, width, height));
    const sr_region all = {.width = *width, .height = *height};
    SR_TRY(sr_decoder_read(r->decoder, &all, 1, &pixels));
    sr_samples_shrink(*width, *height, r->side, &shown_width, &shown_height);
    tile->width = shown_width;
    tile->height = shown_height;
    uint8_t *rgb = sr_arena_alloc(r->arena, (size_t)(tile->width * tile->height) * 3);
    if (rgb == NULL)
        return SR_E_MEMORY;
    tile->rgb = rgb;
    return shrink(r, &pixels, tile, rgb);
}

// The class of the pixel at the centre of each pixel of the tile.
static sr_status read_mask(reader *r, const sr_sample *sample, sr_tile *tile) {
    const size_t bytes = (size_t)(sample->width * sample->height);
    uint8_t *ids = sr_alloc(bytes, "mask");
    uint8_t *mask = sr_arena_alloc(r->arena, (size_t)(tile->width * tile->height));
    sr_status status = ids != NULL && mask != NULL ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_zstd_expand(&r->zstd, sample->mask, sample->mask_bytes, ids, bytes);
    for (int64_t y = 0; y < tile->height && status == SR_OK; y++) {
        const uint8_t *row =
            ids + (2 * y + 1) * sample->height / (2 * tile->height) * sample->width;
        for (int64_t x = 0; x < tile->width; x++)
            mask[y * tile->width + x] = row[(2 * x + 1) * sample->width / (2 * tile->width)];
    }
    sr_free(ids);
    if (status == SR_OK)
        tile->mask = mask;
    return status;
}

// -- objects -----------------------------------------------------------------------------------

typedef struct objects {
    reader *reader;
    float scale_x, scale_y; // from the picture to the tile
    void *boxes, *outlines; // sr_tile_box, sr_tile_outline
    size_t box_count, box_capacity, outline_count, outline_capacity;
} objects;

static sr_status add_outline(objects *o, sr_record_cursor numbers, int number) {
    sr_record_cursor from = numbers;
    const char *key;
    size_t key_bytes, count = 0;
    sr_feature value;
    bool more;
    for (;; count++) {
        SR_TRY(sr_record_next(&from, &key, &key_bytes, &value, &more));
        if (!more)
            break;
    }
    float *points = sr_arena_alloc(o->reader->arena, (count + 1) * sizeof *points);
    if (points == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < count; i++) {
        SR_TRY(sr_record_next(&numbers, &key, &key_bytes, &value, &more));
        points[i] = (float)value.f64 * (i % 2 == 0 ? o->scale_x : o->scale_y);
    }
    SR_TRY(sr_grow(&o->outlines, &o->outline_capacity, o->outline_count + 1,
                   sizeof(sr_tile_outline), "outlines"));
    ((sr_tile_outline *)o->outlines)[o->outline_count++] =
        (sr_tile_outline){.points = points, .count = (int)(count / 2), .number = number};
    return SR_OK;
}

static sr_status add_outlines(objects *o, sr_record_cursor polygons, int number) {
    for (;;) {
        const char *key;
        size_t key_bytes;
        sr_feature polygon;
        bool more;
        SR_TRY(sr_record_next(&polygons, &key, &key_bytes, &polygon, &more));
        if (!more)
            return SR_OK;
        if (polygon.kind == SR_FEATURE_LIST)
            SR_TRY(add_outline(o, sr_feature_entries(&polygon), number));
    }
}

static sr_status add_object(objects *o, const sr_object *object) {
    const int classes = sr_dataset_class_count(o->reader->dataset);
    const int64_t found =
        sr_object_class(object, sr_dataset_file(o->reader->dataset, 0)->classes, classes);
    const bool known = found >= 0 && found < classes;
    // Objects without a known class take colours in turn.
    const int number = known ? (int)found : (int)(o->box_count % 4096);
    const char *label = known ? sr_dataset_class_name(o->reader->dataset, number) : NULL;
    if (label == NULL && object->name_bytes > 0) {
        label = sr_class_name_decode(object->name, object->name_bytes, o->reader->arena);
        if (label == NULL)
            return SR_E_MEMORY;
    }
    SR_TRY(sr_grow(&o->boxes, &o->box_capacity, o->box_count + 1, sizeof(sr_tile_box), "boxes"));
    ((sr_tile_box *)o->boxes)[o->box_count++] =
        (sr_tile_box){.x1 = (float)object->xmin * o->scale_x,
                      .y1 = (float)object->ymin * o->scale_y,
                      .x2 = (float)object->xmax * o->scale_x,
                      .y2 = (float)object->ymax * o->scale_y,
                      .number = number,
                      .label = label};
    return add_outlines(o, object->outlines, number);
}

static sr_status keep_objects(objects *o, sr_tile *tile) {
    sr_arena *arena = o->reader->arena;
    sr_tile_box *boxes = sr_arena_alloc(arena, (o->box_count + 1) * sizeof *boxes);
    sr_tile_outline *outlines = sr_arena_alloc(arena, (o->outline_count + 1) * sizeof *outlines);
    if (boxes == NULL || outlines == NULL)
        return SR_E_MEMORY;
    if (o->box_count > 0)
        memcpy(boxes, o->boxes, o->box_count * sizeof *boxes);
    if (o->outline_count > 0)
        memcpy(outlines, o->outlines, o->outline_count * sizeof *outlines);
    tile->boxes = boxes;
    tile->box_count = (int)o->box_count;
    tile->outlines = outlines;
    tile->outline_count = (int)o->outline_count;
    return SR_OK;
}

static sr_status read_objects(reader *r, sr_detection *detection, int64_t width, int64_t height,
                              sr_tile *tile) {
    objects o = {.reader = r,
                 .scale_x = (float)tile->width / (float)width,
                 .scale_y = (float)tile->height / (float)height};
    sr_status status = SR_OK;
    for (bool more = true; status == SR_OK;) {
        sr_object object;
        status = sr_detection_next(detection, &object, &more);
        if (status != SR_OK || !more)
            break;
        status = add_object(&o, &object);
    }
    if (status == SR_OK)
        status = keep_objects(&o, tile);
    sr_free(o.boxes);
    sr_free(o.outlines);
    return status;
}

// -- samples -----------------------------------------------------------------------------------

// The last part of a sample's name, without its suffix.
static sr_status file_name(reader *r, const sr_sample *sample, const char **out) {
    const char *name = sample->name ? sample->name : "", *end = name + sample->name_bytes;
    for (const char *p = name; p < end; p++)
        name = *p == '/' ? p + 1 : name;
    for (const char *p = end; p > name + 1; p--)
        if (p[-1] == '.') {
            end = p - 1;
            break;
        }
    char *copy = sr_arena_alloc(r->arena, (size_t)(end - name) + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    memcpy(copy, name, (size_t)(end - name));
    *out = copy;
    return SR_OK;
}

static sr_status add_caption(reader *r, const sr_sample *sample, sr_tile *tile) {
    if (sample->label < 0)
        return file_name(r, sample, &tile->caption);
    if (sample->label < sr_dataset_class_count(r->dataset))
        tile->caption = sr_dataset_class_name(r->dataset, (int)sample->label);
    if (tile->caption != NULL)
        return SR_OK;
    char number[32];
    (void)snprintf(number, sizeof number, "%lld", (long long)sample->label);
    tile->caption = sr_arena_strdup(r->arena, number);
    return tile->caption != NULL ? SR_OK : SR_E_MEMORY;
}

static sr_status read_sample(reader *r, int64_t index, sr_tile *tile) {
    sr_sample sample;
    sr_detection detection;
    bool has_objects;
    int64_t width, height;
    SR_TRY(sr_inspect_read(r->dataset, index, &sample, &detection, &has_objects));
    SR_TRY(read_picture(r, &sample, &width, &height, tile));
    SR_TRY(add_caption(r, &sample, tile));
    // A mask has the orientation of the stored picture; it is drawn only if that is upright.
    if (sample.mask != NULL && width == sample.width && height == sample.height &&
        sample.orientation <= 1)
        SR_TRY(read_mask(r, &sample, tile));
    return has_objects ? read_objects(r, &detection, width, height, tile) : SR_OK;
}

static sr_status read_samples(reader *r, int64_t first, int count, sr_samples *out) {
    sr_tile *tiles = sr_arena_alloc(r->arena, (size_t)count * sizeof *tiles);
    const int class_count = sr_dataset_class_count(r->dataset);
    const char **classes = sr_arena_alloc(r->arena, ((size_t)class_count + 1) * sizeof *classes);
    if (tiles == NULL || classes == NULL)
        return SR_E_MEMORY;
    SR_TRY(sr_decoder_create(&r->decoder));
    SR_TRY(sr_resampler_create(&r->resampler));
    for (int c = 0; c < class_count; c++)
        classes[c] = sr_dataset_class_name(r->dataset, c);
    for (int i = 0; i < count; i++) {
        const sr_status status = read_sample(r, first + i, &tiles[i]);
        if (status != SR_OK) {
            char name[300];
            sr_error_prefix("%s", sr_dataset_sample_name(r->dataset, first + i, name));
            return status;
        }
    }
    *out = (sr_samples){.tiles = tiles,
                        .count = count,
                        .side = r->side,
                        .classes = classes,
                        .class_count = class_count};
    return SR_OK;
}

sr_status sr_show_samples(sr_dataset *dataset, int64_t first, int count, int side, sr_arena *arena,
                          sr_samples *out) {
    const int64_t records = sr_dataset_count(dataset);
    reader r = {.dataset = dataset, .arena = arena, .side = side};
    if (first < 0 || first >= records || count < 1)
        return SR_FAIL(SR_E_USAGE, "sample %lld: the split has %lld samples, counted from 0",
                       (long long)first, (long long)records);
    if ((int64_t)count * side * side > SHEET_PIXELS)
        return SR_FAIL(SR_E_USAGE,
                       "%d samples of %d pixels make too large a picture; use a lower --count or "
                       "--size",
                       count, side);
    const int there = count < records - first ? count : (int)(records - first);
    const sr_status status = read_samples(&r, first, there, out);
    sr_decoder_free(r.decoder);
    sr_resampler_free(r.resampler);
    sr_zstd_release(&r.zstd);
    return status;
}
