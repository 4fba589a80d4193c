// SPDX-License-Identifier: Apache-2.0
// KPLRecord: one self-describing example, a nested map / list of bytes, int64 and float64.
//
// Wire format: protobuf (https://protobuf.dev/programming-guides/encoding/), package dataset_proto:
//   FeatureMap  { map<string, Feature> map = 1; }                 a record is one FeatureMap
//   Feature     { oneof kind { string string_field = 2; bytes bytes_field = 3;
//                 double float64_field = 4; int64 int64_field = 5; FeatureList feature_list = 7;
//                 FeatureMap feature_map = 8; FileContent file_field = 9; } }
//   FeatureList { repeated Feature list = 1; }
// Any protobuf tool can read our records. Strings are UTF-8 in bytes_field, as the original writer
// stores them. Keys may come in any order: readers look up by key.
//
// The reader is zero-copy: a feature points into the record's bytes. The reader neither recurses
// over input nor allocates, so a look-up in a hostile record costs at most one pass over its bytes.
// Unknown fields are skipped; the last of a repeated key or value counts (protobuf's rule).
#ifndef SR_DATAIO_RECORD_H
#define SR_DATAIO_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// -- reading -----------------------------------------------------------------------------------

// The numbers are the field numbers of Feature.
typedef enum sr_feature_kind {
    SR_FEATURE_NONE = 0, // absent, or a Feature without a value
    SR_FEATURE_STRING = 2,
    SR_FEATURE_BYTES = 3,
    SR_FEATURE_FLOAT64 = 4,
    SR_FEATURE_INT64 = 5,
    SR_FEATURE_LIST = 7,
    SR_FEATURE_MAP = 8,
    SR_FEATURE_FILE = 9,
} sr_feature_kind;

// A value in a record; 'kind' says which of the fields is set.
typedef struct sr_feature {
    sr_feature_kind kind;
    const uint8_t *data; // STRING, BYTES: the value; LIST, MAP, FILE: the message, for a cursor
    size_t bytes;
    int64_t i64;
    double f64;
} sr_feature;

// Walks over the entries of a map or the items of a list.
typedef struct sr_record_cursor {
    const uint8_t *next, *end;
    bool is_map;
} sr_record_cursor;

// A record's own entries (a record is a FeatureMap), or those of a MAP or LIST feature.
sr_record_cursor sr_record_entries(const void *record, size_t bytes);
// The entries of a MAP, the items of a LIST; none for any other kind.
sr_record_cursor sr_feature_entries(const sr_feature *feature);
// The next entry; *more is false after the last. Key (NULL, 0 in lists) and feature point into the
// record. SR_E_DATA for malformed bytes; the cursor then does not move.
SR_NODISCARD sr_status sr_record_next(sr_record_cursor *cursor, const char **key, size_t *key_bytes,
                                      sr_feature *feature, bool *more);
// The feature of a key (the last of several); kind NONE when the key is absent.
SR_NODISCARD sr_status sr_record_find(sr_record_cursor entries, const char *key, sr_feature *out);
// The int64 items of a LIST into out; *count is the number in the list, which may exceed capacity.
SR_NODISCARD sr_status sr_feature_int64s(const sr_feature *list, int64_t *out, size_t capacity,
                                         size_t *count);

// -- writing -----------------------------------------------------------------------------------

#define SR_RECORD_MAX_DEPTH 16 // maps and lists inside one another

// Writes one record after the other into a growing buffer. A failure sticks and is returned by
// sr_record_end. A zero-initialised writer is empty. One thread at a time.
typedef struct sr_record_writer {
    uint8_t *data; // the finished record, valid until the next begin
    size_t bytes, capacity;
    sr_status failed;
    int depth;
    struct {
        const char *key; // borrowed until the level closes
        size_t start;    // where the content begins
        bool is_map;
    } level[SR_RECORD_MAX_DEPTH];
} sr_record_writer;

// Frees the buffer and zero-initialises the writer.
void sr_record_writer_release(sr_record_writer *writer);
// Begins a record: empties the buffer and forgets a failure.
void sr_record_begin(sr_record_writer *writer);
// One value, copied. key: of a map entry; NULL for an item of a list:
void sr_record_put_bytes(sr_record_writer *writer, const char *key, const void *data, size_t bytes);
void sr_record_put_string(sr_record_writer *writer, const char *key, const char *text);
void sr_record_put_int64(sr_record_writer *writer, const char *key, int64_t value);
void sr_record_put_float64(sr_record_writer *writer, const char *key, double value);
void sr_record_put_int64s(sr_record_writer *writer, const char *key, const int64_t *values,
                          size_t count);
// Opens a list or map, to which values belong until sr_record_close; at most SR_RECORD_MAX_DEPTH:
void sr_record_open_list(sr_record_writer *writer, const char *key);
void sr_record_open_map(sr_record_writer *writer, const char *key);
// Closes the innermost list or map.
void sr_record_close(sr_record_writer *writer);
// Ends the record, which is then in writer->data, writer->bytes.
SR_NODISCARD sr_status sr_record_end(sr_record_writer *writer);

// -- the record of a picture with a class ------------------------------------------------------
//
// Keys of the original classification schema: data bytes, encoded int64 (> 0: a JPEG or PNG stream,
// else raw u8 HWC), shape [int64] (height, width, channels as stored, before orientation), label
// [int64]. Our own keys, absent where not needed: orientation int64 (EXIF code 2..8, to be applied
// after decoding), segments bytes (see below), zstd int64 (1: data is one zstd frame of the raw
// pixels), mask bytes (one zstd frame of u8 [height, width], in the stored orientation of the
// picture: the class of each pixel, 255 for none), name bytes (where the sample came from, as
// "cat/0001.jpg"; for messages).
//
// segments: row index of a JPEG with a restart marker at the end of each row of MCUs, and possibly
// more at equal distances (its restart interval divides a row): n + 1 little-endian u32 offsets
// into data for n segments. Bytes [o[i], o[i+1]) are segment i's entropy-coded data and, except for
// the last segment, the two bytes of the restart marker after it; o[n] is the offset of the EOI
// marker.

// The keys of such a record and their kinds, as stored in a shard's header.
#define SR_SAMPLE_PROTOCOL                                                                         \
    "{data: bytes, encoded: int64, shape: [int64], label: [int64], orientation: int64, "           \
    "segments: bytes, zstd: int64, name: bytes}"
// The same for a picture with a mask.
#define SR_SEGMENTATION_PROTOCOL                                                                   \
    "{data: bytes, encoded: int64, shape: [int64], orientation: int64, segments: bytes, "          \
    "zstd: int64, mask: bytes, name: bytes}"

// A picture with a class or a mask.
typedef struct sr_sample {
    const void *data;
    size_t bytes;
    bool encoded; // a JPEG or PNG, not raw pixels
    bool zstd;    // raw pixels, compressed
    int64_t height, width, channels;
    int64_t label;        // first of the label list; -1 when there is none
    int orientation;      // 1..8
    const void *segments; // little-endian u32, not aligned; NULL when there are none
    size_t segment_count; // offsets, so segments + 1
    const void *mask;     // a zstd frame; NULL when there is none
    size_t mask_bytes;
    const char *name; // not terminated; NULL when there is none
    size_t name_bytes;
} sr_sample;

// Writes the sample as the writer's next record.
SR_NODISCARD sr_status sr_sample_write(sr_record_writer *writer, const sr_sample *sample);
// Pointers of *out point into the record. SR_E_DATA names the key that is missing or of another
// kind.
SR_NODISCARD sr_status sr_sample_read(const void *record, size_t bytes, sr_sample *out);
// Entry i of the row index (i < segment_count).
uint32_t sr_sample_segment(const sr_sample *sample, size_t i);

// -- the record of a picture with boxes --------------------------------------------------------
//
// {id: bytes, content: bytes, height, width, depth: int64, object: [{name: bytes, xmin, ymin, xmax,
// ymax: float64, difficult: int64, mask: bytes, polygons: [[float64]]}]}. Pixels of the upright
// picture, continuous coordinates with (0, 0) at the corner of the first pixel. Absent numbers are
// 0. mask: run lengths as COCO's compressed string (dataio/formats/rle.h). Our own keys:
// orientation, segments and zstd as above; raw int64 (1: content is u8 HWC, not a JPEG or PNG); in
// objects label int64 and crowd int64 (1: a region of many objects, COCO's iscrowd).

// The keys of such a record and their kinds, as stored in a shard's header.
#define SR_DETECTION_PROTOCOL                                                                      \
    "{id: bytes, content: bytes, height: int64, width: int64, depth: int64, orientation: int64, "  \
    "segments: bytes, raw: int64, zstd: int64, object: [{name: bytes, label: int64, "              \
    "xmin: float64, ymin: float64, xmax: float64, ymax: float64, difficult: int64, "               \
    "crowd: int64, mask: bytes, polygons: [[float64]]}]}"

// One polygon of an object's outline: x and y of each point in turn.
typedef struct sr_polygon {
    const double *numbers;
    size_t count; // of numbers
} sr_polygon;

// A box of a picture; corners in pixels.
typedef struct sr_object {
    const char *name;
    size_t name_bytes;
    int64_t label; // class number; -1 when only the name is given
    double xmin, ymin, xmax, ymax;
    bool difficult;
    bool crowd;       // a region of many objects
    const void *mask; // run lengths; NULL when there are none
    size_t mask_bytes;
    const sr_polygon *polygons; // for writing; NULL when there are none
    size_t polygon_count;
    sr_record_cursor outlines; // when read: a list for each polygon
} sr_object;

// A picture with boxes.
typedef struct sr_detection {
    sr_sample picture;        // name is the id; label is unused
    sr_record_cursor objects; // for sr_detection_next
} sr_detection;

// Writes a picture with 'count' objects as the writer's next record.
SR_NODISCARD sr_status sr_detection_write(sr_record_writer *writer, const sr_sample *picture,
                                          const sr_object *objects, size_t count);
// Pointers of *out point into the record. SR_E_DATA names what is missing or of another kind.
SR_NODISCARD sr_status sr_detection_read(const void *record, size_t bytes, sr_detection *out);
// The next box; *more is false after the last.
SR_NODISCARD sr_status sr_detection_next(sr_detection *detection, sr_object *out, bool *more);

#ifdef __cplusplus
}
#endif
#endif
