// SPDX-License-Identifier: Apache-2.0
// Annotations of pictures in a temporary file, so that memory use does not grow with their number.
//
// The annotations of a picture are a linked list: each refers to the previous one. So they may be
// added in any order, before or after the picture is known, and the table of pictures needs one
// number for each picture.
#ifndef SR_DATAIO_ANNOTATIONS_H
#define SR_DATAIO_ANNOTATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/import/spool.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Annotations of one source. Written by one thread, then read by any.
typedef struct sr_annotations {
    sr_spool spool;
} sr_annotations;

// One annotated object. Pointers point into the reader's buffer.
typedef struct sr_annotation {
    int64_t label;         // chosen by the format; sr_layout_label_of gives its class
    uint32_t file;         // for messages: 1 + its file's index in source->wanted; 0: unknown
    int64_t number, image; // its id and that of its picture in that file (COCO)
    bool difficult, crowd;
    double box[4];                 // xmin, ymin, xmax, ymax
    uint32_t polygon_count;        //
    const uint32_t *polygon_sizes; // numbers of each polygon, two for each point
    const double *points;          // of all polygons, one after the other
    uint64_t point_count;          // numbers in it
    const void *mask;              // run lengths (dataio/formats/rle.h), or NULL
    uint32_t mask_bytes;
    uint32_t mask_height, mask_width;
} sr_annotation;

// The annotations of one picture; zero-initialised is empty. One thread at a time.
typedef struct sr_annotation_reader {
    void *items; // sr_annotation
    size_t count, capacity;
    void *buffer;
    size_t bytes, buffer_capacity;
} sr_annotation_reader;

void sr_annotation_reader_release(sr_annotation_reader *reader);
// Appends an annotation. previous: *out of the last annotation of the picture, 0 for its first.
// *out is the 'previous' of the next one and the 'last' of reading.
SR_NODISCARD sr_status sr_annotations_add(sr_annotations *annotations, uint64_t previous,
                                          const sr_annotation *annotation, uint64_t *out);
// Ends adding; annotations can be read afterwards.
SR_NODISCARD sr_status sr_annotations_end(sr_annotations *annotations);
// Reads the annotations of a picture in the order in which they were added; last: *out of its last
// one, 0 for none.
SR_NODISCARD sr_status sr_annotations_read(const sr_annotations *annotations, uint64_t last,
                                           sr_annotation_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
