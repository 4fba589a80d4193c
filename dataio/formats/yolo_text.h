// SPDX-License-Identifier: Apache-2.0
// The texts of a YOLO data set: data.yaml and the lines of label files.
#ifndef SR_DATAIO_YOLO_TEXT_H
#define SR_DATAIO_YOLO_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/formats/layout.h"
#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_YOLO_MAX_BYTES ((uint64_t)16 << 20) // of a file
#define SR_YOLO_MAX_CLASSES 1000000

// A value in data.yaml and its line.
typedef struct sr_yolo_value {
    const char *text;
    int line;
} sr_yolo_value;

// The contents of data.yaml; strings are in the arena given to the parser.
typedef struct sr_yolo_data {
    const char **names;          // by number, or NULL: absent
    int class_count;             // of names or nc; 0: neither is given
    bool key_points;             // kpt_shape: key points follow the box in a line
    sr_yolo_value root;          // path; text NULL: absent
    void *paths[SR_SPLIT_COUNT]; // sr_yolo_value: folders or lists of pictures
    size_t path_count[SR_SPLIT_COUNT], path_capacity[SR_SPLIT_COUNT];
} sr_yolo_data;

// The text is followed by a zero byte. SR_E_DATA "path:line: what is wrong, and the cure"; *out is
// then empty.
SR_NODISCARD sr_status sr_yolo_data_parse(const char *path, const char *text, size_t bytes,
                                          sr_arena *arena, sr_yolo_data *out);
void sr_yolo_data_release(sr_yolo_data *data);
// Whether the text looks like data.yaml: lines that begin with names or nc, and with a split or
// path.
bool sr_yolo_data_is(const char *text);

// One line of a label file. Coordinates are fractions of the picture's width and height.
// Zero-initialise it before the first line; the buffer of points is kept from line to line.
typedef struct sr_yolo_object {
    int32_t label;
    double box[4];      // xmin, ymin, xmax, ymax
    void *points;       // double, x and y in turn; sr_free
    size_t point_count; // numbers; 0: only the box is given
    size_t point_capacity;
} sr_yolo_object;

// Parses "class cx cy w h" or "class x1 y1 x2 y2 x3 y3 ..."; with key points everything after the
// box is skipped. SR_E_DATA states what is wrong, without file and line.
SR_NODISCARD sr_status sr_yolo_line_parse(const char *line, size_t bytes, bool key_points,
                                          sr_yolo_object *out);

#ifdef __cplusplus
}
#endif
#endif
