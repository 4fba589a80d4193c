// SPDX-License-Identifier: Apache-2.0
// Linked lists of annotations in a temporary file (annotations.h).
//
// An entry is a head followed by, 8-byte aligned, the points of its polygons, their sizes and its
// run lengths, all in native byte order: only this process reads them.
#include "dataio/import/annotations.h"

#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

typedef struct note_head {
    uint64_t previous; // 1 + offset of the previous entry of the picture; 0: none
    int64_t label, number, image;
    double box[4];
    uint64_t points, payload; // numbers; bytes after the head
    uint32_t polygons, mask_bytes, mask_height, mask_width;
    uint32_t file;
    uint8_t difficult, crowd, has_mask, zero;
} note_head;

void sr_annotation_reader_release(sr_annotation_reader *reader) {
    sr_free(reader->items);
    sr_free(reader->buffer);
    *reader = (sr_annotation_reader){0};
}

static uint64_t padded(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

sr_status sr_annotations_add(sr_annotations *annotations, uint64_t previous,
                             const sr_annotation *annotation, uint64_t *out) {
    static const uint8_t zeros[8];
    note_head head = {.previous = previous,
                      .label = annotation->label,
                      .number = annotation->number,
                      .image = annotation->image,
                      .file = annotation->file,
                      .points = annotation->point_count,
                      .polygons = annotation->polygon_count,
                      .mask_bytes = annotation->mask_bytes,
                      .mask_height = annotation->mask_height,
                      .mask_width = annotation->mask_width,
                      .difficult = annotation->difficult,
                      .crowd = annotation->crowd,
                      .has_mask = annotation->mask != NULL};
    memcpy(head.box, annotation->box, sizeof head.box);
    const uint64_t rest = 4 * (uint64_t)annotation->polygon_count + annotation->mask_bytes;
    head.payload = 8 * head.points + padded(rest);
    const uint64_t at = annotations->spool.bytes;
    SR_TRY(sr_spool_append(&annotations->spool, &head, sizeof head));
    SR_TRY(sr_spool_append(&annotations->spool, annotation->points, 8 * head.points));
    SR_TRY(sr_spool_append(&annotations->spool, annotation->polygon_sizes,
                           4 * (size_t)annotation->polygon_count));
    SR_TRY(sr_spool_append(&annotations->spool, annotation->mask, annotation->mask_bytes));
    SR_TRY(sr_spool_append(&annotations->spool, zeros, padded(rest) - rest));
    *out = at + 1;
    return SR_OK;
}

sr_status sr_annotations_end(sr_annotations *annotations) {
    return sr_spool_flush(&annotations->spool);
}

static sr_status read_entry(const sr_annotations *annotations, uint64_t at,
                            sr_annotation_reader *reader, uint64_t *previous) {
    note_head head;
    const char *folder = annotations->spool.folder;
    SR_TRY(sr_file_read_at(annotations->spool.fd, folder, at, &head, sizeof head));
    const size_t bytes = reader->bytes + head.payload;
    SR_TRY(sr_grow(&reader->buffer, &reader->buffer_capacity, bytes > 0 ? bytes : 1, 1,
                   "annotations"));
    SR_TRY(sr_grow(&reader->items, &reader->capacity, reader->count + 1, sizeof(sr_annotation),
                   "annotations"));
    SR_TRY(sr_file_read_at(annotations->spool.fd, folder, at + sizeof head,
                           (uint8_t *)reader->buffer + reader->bytes, head.payload));
    sr_annotation *annotation = (sr_annotation *)reader->items + reader->count++;
    *annotation = (sr_annotation){.label = head.label,
                                  .number = head.number,
                                  .image = head.image,
                                  .file = head.file,
                                  .difficult = head.difficult,
                                  .crowd = head.crowd,
                                  .polygon_count = head.polygons,
                                  .mask_bytes = head.mask_bytes,
                                  .mask_height = head.mask_height,
                                  .mask_width = head.mask_width};
    memcpy(annotation->box, head.box, sizeof head.box);
    annotation->mask =
        head.has_mask ? annotations : NULL; // set when the buffer has its final address
    annotation->point_count = head.points;
    reader->bytes += head.payload;
    *previous = head.previous;
    return SR_OK;
}

// Sets the pointers of the annotations, in the order of reading, into the buffer.
static void place_notes(sr_annotation_reader *reader) {
    const uint8_t *at = reader->buffer;
    sr_annotation *annotations = reader->items;
    for (size_t i = 0; i < reader->count; i++) {
        sr_annotation *annotation = &annotations[i];
        const uint64_t sizes = 4 * (uint64_t)annotation->polygon_count;
        annotation->points = (const double *)(const void *)at;
        at += 8 * annotation->point_count;
        annotation->polygon_sizes = (const uint32_t *)(const void *)at;
        if (annotation->mask != NULL)
            annotation->mask = at + sizes;
        at += padded(sizes + annotation->mask_bytes);
    }
}

sr_status sr_annotations_read(const sr_annotations *annotations, uint64_t last,
                              sr_annotation_reader *reader) {
    reader->count = reader->bytes = 0;
    while (last != 0)
        SR_TRY(read_entry(annotations, last - 1, reader, &last));
    place_notes(reader);
    sr_annotation *items = reader->items;
    for (size_t i = 0; i < reader->count / 2; i++) {
        sr_annotation swapped = items[i];
        items[i] = items[reader->count - 1 - i];
        items[reader->count - 1 - i] = swapped;
    }
    return SR_OK;
}
