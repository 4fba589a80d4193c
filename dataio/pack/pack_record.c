// SPDX-License-Identifier: Apache-2.0
// Records of packing (pack_record.h), one function for each schema of layout.h.
//
// Coordinates of annotations refer to the picture as their writer saw it. Most tools read pictures
// as they are stored and ignore an EXIF orientation; where the annotated size is the stored one the
// orientation is therefore dropped, where it is only that of the rotated picture it is kept
// (records contain boxes of the upright picture), else the picture is refused. Normalised
// coordinates are written by tools that show pictures upright, and have no size to compare.
#include "dataio/pack/pack_record.h"

#include <stdio.h>
#include <string.h>

#include "dataio/image/mask_png.h"

sr_status sr_pack_worker_init(sr_pack_worker *worker) {
    *worker = (sr_pack_worker){0};
    sr_arena_init(&worker->objects);
    return sr_picture_worker_create(&worker->pictures);
}

void sr_pack_worker_release(sr_pack_worker *worker) {
    sr_picture_worker_free(worker->pictures);
    sr_annotation_reader_release(&worker->annotations);
    sr_rle_release(&worker->rle);
    sr_outline_mask_release(&worker->outlines);
    sr_zstd_release(&worker->zstd);
    sr_free(worker->mask_file);
    sr_free(worker->mask);
    sr_free(worker->small_mask);
    sr_free(worker->mask_frame);
    sr_arena_release(&worker->objects);
}

void sr_pack_sample_release(sr_pack_sample *sample) {
    sr_free(sample->source);
    sr_record_writer_release(&sample->record);
}

// -- the picture -------------------------------------------------------------------------------

static sr_status make_picture(const sr_pack_job *job, sr_pack_worker *worker,
                              sr_pack_sample *sample, sr_sample *out) {
    const sr_pack_options *o = &job->options;
    const sr_layout_file *file = &job->layout->files[sample->file];
    const sr_source_file *from = &job->source->files.items[file->source];
    const sr_layout_pixels *pixels = &job->layout->pixels;
    const sr_picture_options options = {.max_side = o->max_side,
                                        .quality = o->quality,
                                        .raw = o->raw,
                                        .zstd = o->zstd,
                                        .segments = o->segments};
    const char *name = sr_source_name(job->source, from);
    *out = (sr_sample){.label = -1, .name = name, .name_bytes = strlen(name)};
    SR_TRY(sr_source_read(job->source, from, &sample->source, &sample->source_capacity));
    if (pixels->height == 0)
        return sr_picture_normalise(worker->pictures, sample->source, (size_t)from->bytes, &options,
                                    out, &sample->flags);
    return sr_picture_normalise_pixels(worker->pictures, sample->source, pixels->height,
                                       pixels->width, pixels->channels, pixels->planes, &options,
                                       out, &sample->flags);
}

static sr_status finish(sr_pack_worker *worker, sr_pack_sample *sample, const sr_sample *picture) {
    sample->data = sample->record.data;
    sample->bytes = sample->record.bytes;
    return sample->sampled ? sr_picture_sum(worker->pictures, picture, &sample->sums) : SR_OK;
}

static sr_status make_class(const sr_pack_job *job, sr_pack_worker *worker,
                            sr_pack_sample *sample) {
    sr_sample picture;
    SR_TRY(make_picture(job, worker, sample, &picture));
    if (job->layout->class_count > 0)
        picture.label = job->layout->files[sample->file].label;
    SR_TRY(sr_sample_write(&sample->record, &picture));
    return finish(worker, sample, &picture);
}

// -- boxes -------------------------------------------------------------------------------------

// Scales from annotated to stored sizes, in the picture as training will see it.
typedef struct scaling {
    double x, y;
    double unit_x, unit_y;         // annotated pixels per unit of a coordinate
    int64_t width, height;         // as annotated
    int64_t new_width, new_height; // as stored
} scaling;

static sr_status find_scaling(const sr_layout *layout, const sr_layout_file *file,
                              const sr_pack_worker *worker, sr_sample *picture, scaling *out) {
    int64_t width, height;
    sr_picture_source_size(worker->pictures, &width, &height);
    const bool known = file->width > 0 && file->height > 0;
    const bool fits = known && file->width == height && file->height == width && width != height;
    const bool turned = picture->orientation >= 5 && (fits || layout->normalised);
    if (known && !turned && (file->width != width || file->height != height))
        return SR_FAIL(SR_E_DATA,
                       "the annotation is for a picture of %u x %u, this one is %lld x %lld",
                       file->width, file->height, (long long)width, (long long)height);
    if (!turned && !layout->normalised)
        picture->orientation = 1;
    *out = (scaling){.width = turned ? height : width,
                     .height = turned ? width : height,
                     .new_width = turned ? picture->height : picture->width,
                     .new_height = turned ? picture->width : picture->height};
    out->unit_x = layout->normalised ? (double)out->width : 1;
    out->unit_y = layout->normalised ? (double)out->height : 1;
    out->x = out->unit_x * (double)out->new_width / (double)out->width;
    out->y = out->unit_y * (double)out->new_height / (double)out->height;
    return SR_OK;
}

// Whether a box is empty, inverted, at most a pixel wide or high (as VOC writes an empty box) or
// outside.
static bool is_degenerate(const double box[4], const scaling *s) {
    return !((box[2] - box[0]) * s->unit_x > 1 && (box[3] - box[1]) * s->unit_y > 1) ||
           box[2] <= 0 || box[3] <= 0 || box[0] * s->unit_x >= (double)s->width ||
           box[1] * s->unit_y >= (double)s->height;
}

static sr_status scale_polygons(sr_arena *arena, const sr_annotation *annotation, const scaling *s,
                                sr_object *out) {
    if (annotation->polygon_count == 0)
        return SR_OK;
    sr_polygon *polygons = sr_arena_alloc(arena, annotation->polygon_count * sizeof *polygons);
    double *points = sr_arena_alloc(arena, annotation->point_count * sizeof *points);
    if (polygons == NULL || points == NULL)
        return SR_E_MEMORY;
    for (uint64_t i = 0; i < annotation->point_count; i++)
        points[i] = annotation->points[i] * (i % 2 ? s->y : s->x);
    for (uint32_t i = 0; i < annotation->polygon_count; i++) {
        polygons[i] = (sr_polygon){.numbers = points, .count = annotation->polygon_sizes[i]};
        points += annotation->polygon_sizes[i];
    }
    out->polygons = polygons;
    out->polygon_count = annotation->polygon_count;
    return SR_OK;
}

static sr_status scale_mask(sr_pack_worker *worker, const sr_annotation *annotation,
                            const scaling *s, sr_object *out) {
    if (annotation->mask == NULL)
        return SR_OK;
    if (annotation->mask_height != s->height || annotation->mask_width != s->width)
        return SR_FAIL(SR_E_DATA, "an object's mask is of %u x %u, the picture is %lld x %lld",
                       annotation->mask_width, annotation->mask_height, (long long)s->width,
                       (long long)s->height);
    out->mask = annotation->mask;
    out->mask_bytes = annotation->mask_bytes;
    if (s->new_width == s->width && s->new_height == s->height)
        return SR_OK;
    SR_TRY(sr_rle_parse(&worker->rle, annotation->mask, annotation->mask_bytes));
    SR_TRY(sr_rle_check(&worker->rle, annotation->mask_height, annotation->mask_width));
    SR_TRY(sr_rle_resize(&worker->rle, s->height, s->width, s->new_height, s->new_width));
    SR_TRY(sr_rle_print(&worker->rle));
    void *copy = sr_arena_alloc(&worker->objects, worker->rle.text_bytes);
    if (copy == NULL)
        return SR_E_MEMORY;
    memcpy(copy, worker->rle.text, worker->rle.text_bytes);
    out->mask = copy;
    out->mask_bytes = worker->rle.text_bytes;
    return SR_OK;
}

static sr_status make_object(const sr_pack_job *job, sr_pack_worker *worker,
                             const sr_annotation *annotation, const scaling *s, sr_object *out) {
    int32_t label;
    SR_TRY(sr_layout_label_of(job->layout, annotation->label, &label));
    const char *name = job->layout->classes[label];
    *out = (sr_object){.name = name,
                       .name_bytes = strlen(name),
                       .label = label,
                       .xmin = annotation->box[0] * s->x,
                       .ymin = annotation->box[1] * s->y,
                       .xmax = annotation->box[2] * s->x,
                       .ymax = annotation->box[3] * s->y,
                       .difficult = annotation->difficult,
                       .crowd = annotation->crowd};
    SR_TRY(scale_polygons(&worker->objects, annotation, s, out));
    return scale_mask(worker, annotation, s, out);
}

// Prefixes the message of a failure with the annotation that caused it.
static void add_position(const sr_pack_job *job, const sr_annotation *annotation) {
    char number[48];
    if (annotation->file == 0)
        return;
    (void)snprintf(number, sizeof number,
                   annotation->number >= 0 ? "annotation id %lld" : "an annotation",
                   (long long)annotation->number);
    sr_error_prefix("%s of image id %lld, %s", number, (long long)annotation->image,
                    job->source->wanted.items[annotation->file - 1].path);
}

static sr_status make_objects(const sr_pack_job *job, sr_pack_worker *worker,
                              sr_pack_sample *sample) {
    const sr_layout_file *file = &job->layout->files[sample->file];
    sr_sample picture;
    scaling s = {0};
    SR_TRY(make_picture(job, worker, sample, &picture));
    SR_TRY(find_scaling(job->layout, file, worker, &picture, &s));
    SR_TRY(sr_annotations_read(&job->layout->annotations, file->annotation, &worker->annotations));
    sr_arena_reset(&worker->objects);
    const sr_annotation *annotations = worker->annotations.items;
    sr_object *objects =
        sr_arena_alloc(&worker->objects, worker->annotations.count * sizeof *objects);
    if (objects == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < worker->annotations.count; i++) {
        const sr_status status = make_object(job, worker, &annotations[i], &s, &objects[i]);
        if (status != SR_OK) {
            add_position(job, &annotations[i]);
            return status;
        }
        sample->degenerate += is_degenerate(annotations[i].box, &s);
    }
    sample->objects = (uint32_t)worker->annotations.count;
    SR_TRY(sr_detection_write(&sample->record, &picture, objects, worker->annotations.count));
    return finish(worker, sample, &picture);
}

// Checks that the objects of the picture have classes.
static sr_status check_objects(const sr_pack_job *job, sr_pack_worker *worker,
                               const sr_layout_file *file) {
    SR_TRY(sr_annotations_read(&job->layout->annotations, file->annotation, &worker->annotations));
    const sr_annotation *annotations = worker->annotations.items;
    for (size_t i = 0; i < worker->annotations.count; i++) {
        int32_t label;
        const sr_status status = sr_layout_label_of(job->layout, annotations[i].label, &label);
        if (status != SR_OK) {
            add_position(job, &annotations[i]);
            return status;
        }
    }
    return SR_OK;
}

// -- masks -------------------------------------------------------------------------------------

// Names the pixel whose value has no class.
static sr_status fail_value(const sr_layout *layout, const uint8_t *at, int64_t x, int64_t y) {
    const sr_class_map *map = &layout->class_map;
    if (map->has_colors)
        return SR_FAIL(SR_E_DATA,
                       "pixel (%lld, %lld) has the colour %d %d %d, which is not in the class map",
                       (long long)x, (long long)y, at[0], at[1], at[2]);
    if (map->ids[*at] == SR_CLASS_UNKNOWN)
        return SR_FAIL(SR_E_DATA,
                       "pixel (%lld, %lld) has the value %d, which is not in the class map",
                       (long long)x, (long long)y, *at);
    return SR_FAIL(SR_E_DATA,
                   "pixel (%lld, %lld) has the value %d, but there are %d classes (--ignore-value "
                   "%d leaves it without a class)",
                   (long long)x, (long long)y, *at, layout->class_count, *at);
}

// Replaces the values of a mask by classes, in place; *out: 1 + the largest one. Until the classes
// are counted any class is allowed.
static sr_status map_values(const sr_layout *layout, uint8_t *pixels, int64_t width, int64_t height,
                            int *out) {
    const sr_class_map *map = &layout->class_map;
    const int limit = layout->class_count > 0 ? layout->class_count : SR_MASK_VOID;
    const int64_t channels = map->has_colors ? 3 : 1, count = width * height;
    uint32_t last = 0;
    int most = -1, id = sr_class_map_color(map, last);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *at = pixels + i * channels;
        const uint32_t rgb =
            map->has_colors ? (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2] : 0;
        if (!map->has_colors)
            id = map->ids[*at];
        else if (rgb != last)
            id = sr_class_map_color(map, last = rgb);
        if (id != SR_MASK_VOID && (id == SR_CLASS_UNKNOWN || id >= limit))
            return fail_value(layout, at, i % width, i / width);
        if (id != SR_MASK_VOID && id > most)
            most = id;
        pixels[i] = (uint8_t)id;
    }
    *out = most + 1;
    return SR_OK;
}

// The file of the picture's mask.
static const sr_source_file *mask_of(const sr_pack_job *job, const sr_pack_sample *sample) {
    return &job->source->files.items[job->layout->files[sample->file].annotation - 1];
}

// Reads the classes of the mask into worker->mask; sets sample->classes.
static sr_status read_mask(const sr_pack_job *job, sr_pack_worker *worker, sr_pack_sample *sample,
                           int64_t *width, int64_t *height) {
    const sr_source_file *from = mask_of(job, sample);
    const sr_mask_kind kind = job->layout->class_map.has_colors ? SR_MASK_COLORS : SR_MASK_NUMBERS;
    SR_TRY(sr_source_read(job->source, from, &worker->mask_file, &worker->mask_file_capacity));
    sr_status status = sr_mask_png_read(worker->mask_file, (size_t)from->bytes, kind, &worker->mask,
                                        &worker->mask_capacity, width, height);
    if (status == SR_OK)
        status = map_values(job->layout, worker->mask, *width, *height, &sample->classes);
    if (status != SR_OK)
        sr_error_prefix("mask %s", from->path);
    return status;
}

// Each pixel of the smaller mask is the original one at its centre.
static sr_status shrink_mask(sr_pack_worker *worker, const uint8_t *from, int64_t width,
                             int64_t height, const sr_sample *picture) {
    const size_t bytes = (size_t)(picture->width * picture->height);
    SR_TRY(sr_grow(&worker->small_mask, &worker->small_mask_capacity, bytes, 1, "mask"));
    uint8_t *to = worker->small_mask;
    for (int64_t y = 0; y < picture->height; y++) {
        const uint8_t *row = from + (2 * y + 1) * height / (2 * picture->height) * width;
        for (int64_t x = 0; x < picture->width; x++)
            *to++ = row[(2 * x + 1) * width / (2 * picture->width)];
    }
    return SR_OK;
}

// Writes the record of a picture and its mask, [height, width] of the source picture.
static sr_status write_mask(sr_pack_worker *worker, sr_pack_sample *sample, sr_sample *picture,
                            const void *ids, int64_t width, int64_t height) {
    picture->orientation = 1;
    if (picture->width != width || picture->height != height) {
        SR_TRY(shrink_mask(worker, ids, width, height, picture));
        ids = worker->small_mask;
    }
    SR_TRY(sr_zstd_compress(&worker->zstd, ids, (size_t)(picture->width * picture->height),
                            &worker->mask_frame, &worker->mask_frame_capacity,
                            &picture->mask_bytes));
    picture->mask = worker->mask_frame;
    SR_TRY(sr_sample_write(&sample->record, picture));
    return finish(worker, sample, picture);
}

static sr_status make_mask(const sr_pack_job *job, sr_pack_worker *worker, sr_pack_sample *sample) {
    sr_sample picture;
    int64_t width, height, mask_width, mask_height;
    SR_TRY(make_picture(job, worker, sample, &picture));
    sr_picture_source_size(worker->pictures, &width, &height);
    SR_TRY(read_mask(job, worker, sample, &mask_width, &mask_height));
    if (mask_width != width || mask_height != height) {
        return SR_FAIL(SR_E_DATA, "mask %s is %lld x %lld, the picture %lld x %lld%s",
                       mask_of(job, sample)->path, (long long)mask_width, (long long)mask_height,
                       (long long)width, (long long)height,
                       picture.orientation > 1 ? "; EXIF rotates the picture: store it upright"
                                               : "");
    }
    return write_mask(worker, sample, &picture, worker->mask, width, height);
}

static sr_status draw_objects(const sr_pack_job *job, sr_pack_worker *worker,
                              const sr_layout_file *file) {
    SR_TRY(sr_annotations_read(&job->layout->annotations, file->annotation, &worker->annotations));
    const sr_annotation *annotations = worker->annotations.items;
    for (size_t i = 0; i < worker->annotations.count; i++) {
        int32_t label = 0;
        sr_status status = sr_layout_label_of(job->layout, annotations[i].label, &label);
        if (status == SR_OK)
            status = sr_outline_mask_add(&worker->outlines, &annotations[i], (uint8_t)label);
        if (status != SR_OK) {
            add_position(job, &annotations[i]);
            return status;
        }
    }
    return SR_OK;
}

// A mask has the orientation of the stored picture, as has the record of a mask in a file.
static sr_status make_outlines(const sr_pack_job *job, sr_pack_worker *worker,
                               sr_pack_sample *sample) {
    const sr_layout_file *file = &job->layout->files[sample->file];
    sr_sample picture;
    scaling s = {0};
    SR_TRY(make_picture(job, worker, sample, &picture));
    SR_TRY(find_scaling(job->layout, file, worker, &picture, &s));
    if (picture.orientation > 1)
        return SR_FAIL(SR_E_DATA, "EXIF rotates the picture, and its outlines are of the rotated "
                                  "one: store it upright");
    SR_TRY(sr_outline_mask_begin(&worker->outlines, s.width, s.height, job->layout->background));
    SR_TRY(draw_objects(job, worker, file));
    return write_mask(worker, sample, &picture, worker->outlines.ids, s.width, s.height);
}

// -- finished records --------------------------------------------------------------------------

static sr_status keep_record(const sr_pack_job *job, sr_pack_sample *sample) {
    const sr_layout_file *file = &job->layout->files[sample->file];
    const sr_source_file *from = &job->source->files.items[file->source];
    SR_TRY(sr_source_read(job->source, from, &sample->source, &sample->source_capacity));
    sample->data = sample->source;
    sample->bytes = (size_t)from->bytes;
    return sr_protocol_check(job->protocol, sample->data, sample->bytes);
}

// -- any schema --------------------------------------------------------------------------------

static void begin(sr_pack_sample *sample) {
    sample->sums = (sr_channel_sums){0};
    sample->flags = sample->objects = sample->degenerate = 0;
    sample->classes = 0;
}

sr_status sr_pack_record_make(const sr_pack_job *job, sr_pack_worker *worker,
                              sr_pack_sample *sample) {
    begin(sample);
    switch (job->layout->schema) {
    case SR_SCHEMA_CLASS:
        return make_class(job, worker, sample);
    case SR_SCHEMA_OBJECTS:
        return make_objects(job, worker, sample);
    case SR_SCHEMA_MASK:
        return make_mask(job, worker, sample);
    case SR_SCHEMA_OUTLINES:
        return make_outlines(job, worker, sample);
    case SR_SCHEMA_RECORD:
        return keep_record(job, sample);
    }
    return SR_FAIL(SR_E_INTERNAL, "unknown schema");
}

sr_status sr_pack_record_check(const sr_pack_job *job, sr_pack_worker *worker,
                               sr_pack_sample *sample) {
    begin(sample);
    const sr_layout_file *file = &job->layout->files[sample->file];
    const sr_source_file *from = &job->source->files.items[file->source];
    int64_t width, height;
    if (job->layout->schema == SR_SCHEMA_RECORD)
        return keep_record(job, sample);
    if (job->layout->pixels.height > 0)
        return SR_OK;
    SR_TRY(sr_source_read(job->source, from, &sample->source, &sample->source_capacity));
    SR_TRY(sr_picture_check(worker->pictures, sample->source, (size_t)from->bytes));
    if (job->layout->schema == SR_SCHEMA_OBJECTS || job->layout->schema == SR_SCHEMA_OUTLINES)
        return check_objects(job, worker, file);
    return job->layout->schema == SR_SCHEMA_MASK ? read_mask(job, worker, sample, &width, &height)
                                                 : SR_OK;
}
