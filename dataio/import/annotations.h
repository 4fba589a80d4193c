// SPDX-License-Identifier: Apache-2.0
// Annotations of pictures in a temporary file, so that memory does not grow with their number.
//
// The annotations of a picture are a chain: each knows the one before it. So they may come in any
// order, before or after the picture is known, and cost its table of pictures one number each.
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

// One annotated object. Pointers lie in the reader's buffer.
typedef struct sr_annotation {
    int64_t label;         // class; what the format will, until it is looked up
    uint32_t file;         // for messages: 1 + its file's index in source->wanted; 0: unknown
    int64_t number, image; // its number and its picture's in that file, COCO's ids
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

// What was read of one picture; zero-initialised is empty. One thread at a time.
typedef struct sr_annotation_reader {
    void *items; // sr_annotation
    size_t count, capacity;
    void *buffer;
    size_t bytes, buffer_capacity;
} sr_annotation_reader;

void sr_annotation_reader_release(sr_annotation_reader *reader);
// Appends an annotation; previous: what the picture's last one got, 0 for its first. *out is for
// the next one and for reading.
SR_NODISCARD sr_status sr_annotations_add(sr_annotations *annotations, uint64_t previous,
                                          const sr_annotation *annotation, uint64_t *out);
// All may be read afterwards, and none added.
SR_NODISCARD sr_status sr_annotations_end(sr_annotations *annotations);
// The annotations of a picture in the order in which they were added; last: what its last one got,
// 0 for none.
SR_NODISCARD sr_status sr_annotations_read(const sr_annotations *annotations, uint64_t last,
                                           sr_annotation_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
