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

// A value of data.yaml and the line that it stands in.
typedef struct sr_yolo_value {
    const char *text;
    int line;
} sr_yolo_value;

// What data.yaml says; texts lie in the arena of the reading.
typedef struct sr_yolo_data {
    const char **names;           // by number, or NULL where there are none
    int class_count;              // of names or nc; 0 where neither is told
    bool key_points;              // kpt_shape: key points follow the box in a line
    sr_yolo_value root;           // path; text NULL where it is not told
    void *places[SR_SPLIT_COUNT]; // sr_yolo_value: folders or lists of pictures
    size_t place_count[SR_SPLIT_COUNT], place_capacity[SR_SPLIT_COUNT];
} sr_yolo_data;

// A zero byte stands behind the text. SR_E_DATA "path:line: what is wrong, and the cure", with
// nothing in *out.
SR_NODISCARD sr_status sr_yolo_data_parse(const char *path, const char *text, size_t bytes,
                                          sr_arena *arena, sr_yolo_data *out);
void sr_yolo_data_release(sr_yolo_data *data);
// The text looks like data.yaml: lines that begin with names or nc, and with a split or path.
bool sr_yolo_data_is(const char *text);

// One line of a label file. Coordinates are parts of the picture's width and height. Zero it before
// the first line; points are kept from line to line.
typedef struct sr_yolo_object {
    int32_t label;
    double box[4];      // xmin, ymin, xmax, ymax
    void *points;       // double, x and y in turns; sr_free
    size_t point_count; // numbers; 0: there is only the box
    size_t point_capacity;
} sr_yolo_object;

// Parses "class cx cy w h" or "class x1 y1 x2 y2 x3 y3 ..."; with key points what follows the box
// is passed over. SR_E_DATA with what is wrong, without the place.
SR_NODISCARD sr_status sr_yolo_line_parse(const char *line, size_t bytes, bool key_points,
                                          sr_yolo_object *out);

#ifdef __cplusplus
}
#endif
#endif
