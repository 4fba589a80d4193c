// SPDX-License-Identifier: Apache-2.0
// The schemas that serried writes: a picture with a class, with a mask, with boxes (record.h).
// Readers accept keys in any order, and records of other writers of these schemas.
#include <string.h>

#include "dataio/record/record.h"

// Checks the kind of a key's value; an absent value (NONE) passes.
static sr_status check_kind(const char *key, const sr_feature *feature, sr_feature_kind wanted) {
    sr_feature_kind kind = feature->kind == SR_FEATURE_STRING ? SR_FEATURE_BYTES : feature->kind;
    if (kind == SR_FEATURE_NONE || kind == wanted)
        return SR_OK;
    return SR_FAIL(SR_E_DATA, "key '%s' of the record is of kind %d, not %d", key,
                   (int)feature->kind, (int)wanted);
}

static bool is_key(const char *key, size_t bytes, const char *wanted) {
    return bytes == strlen(wanted) && memcmp(key, wanted, bytes) == 0;
}

static void put_segments(sr_record_writer *writer, const sr_sample *sample) {
    if (sample->segments != NULL)
        sr_record_put_bytes(writer, "segments", sample->segments, 4 * sample->segment_count);
}

static void put_orientation(sr_record_writer *writer, const sr_sample *sample) {
    if (sample->orientation > 1)
        sr_record_put_int64(writer, "orientation", sample->orientation);
}

static void put_zstd(sr_record_writer *writer, const sr_sample *sample) {
    if (sample->zstd)
        sr_record_put_int64(writer, "zstd", 1);
}

sr_status sr_sample_write(sr_record_writer *writer, const sr_sample *sample) {
    const int64_t shape[3] = {sample->height, sample->width, sample->channels};
    sr_record_begin(writer);
    sr_record_put_bytes(writer, "data", sample->data, sample->bytes);
    sr_record_put_int64(writer, "encoded", sample->encoded);
    sr_record_put_int64s(writer, "shape", shape, 3);
    if (sample->mask == NULL || sample->label >= 0)
        sr_record_put_int64s(writer, "label", &sample->label, sample->label >= 0);
    put_orientation(writer, sample);
    put_segments(writer, sample);
    put_zstd(writer, sample);
    if (sample->mask != NULL)
        sr_record_put_bytes(writer, "mask", sample->mask, sample->mask_bytes);
    if (sample->name != NULL)
        sr_record_put_bytes(writer, "name", sample->name, sample->name_bytes);
    return sr_record_end(writer);
}

static sr_status take_segments(const sr_feature *feature, sr_sample *out) {
    SR_TRY(check_kind("segments", feature, SR_FEATURE_BYTES));
    if (feature->bytes % 4 != 0)
        return SR_FAIL(SR_E_DATA, "key 'segments' has %zu bytes, not a multiple of 4",
                       feature->bytes);
    out->segments = feature->bytes ? feature->data : NULL;
    out->segment_count = feature->bytes / 4;
    return SR_OK;
}

static sr_status take_orientation(const sr_feature *feature, sr_sample *out) {
    SR_TRY(check_kind("orientation", feature, SR_FEATURE_INT64));
    if (feature->i64 < 0 || feature->i64 > 8)
        return SR_FAIL(SR_E_DATA, "key 'orientation' is %lld, not 1..8", (long long)feature->i64);
    out->orientation = feature->i64 == 0 ? 1 : (int)feature->i64;
    return SR_OK;
}

static sr_status take_bool(const char *key, const sr_feature *feature, bool *out) {
    SR_TRY(check_kind(key, feature, SR_FEATURE_INT64));
    if (feature->i64 != 0 && feature->i64 != 1)
        return SR_FAIL(SR_E_DATA, "key '%s' is %lld, not 0 or 1", key, (long long)feature->i64);
    *out = feature->i64 == 1;
    return SR_OK;
}

static sr_status take_bytes(const char *key, const sr_feature *feature, const void **data,
                            size_t *bytes) {
    SR_TRY(check_kind(key, feature, SR_FEATURE_BYTES));
    *data = feature->data;
    *bytes = feature->bytes;
    return SR_OK;
}

static sr_status take_sample_key(const char *key, size_t n, const sr_feature *feature,
                                 sr_sample *out) {
    if (is_key(key, n, "data"))
        return take_bytes("data", feature, &out->data, &out->bytes);
    if (is_key(key, n, "encoded")) {
        SR_TRY(check_kind("encoded", feature, SR_FEATURE_INT64));
        out->encoded = feature->i64 > 0;
    } else if (is_key(key, n, "shape")) {
        int64_t shape[3] = {0, 0, 1};
        size_t count;
        SR_TRY(check_kind("shape", feature, SR_FEATURE_LIST));
        SR_TRY(sr_feature_int64s(feature, shape, 3, &count));
        if (count < 2 || count > 3)
            return SR_FAIL(SR_E_DATA, "key 'shape' has %zu numbers, not 2 or 3", count);
        out->height = shape[0];
        out->width = shape[1];
        out->channels = shape[2];
    } else if (is_key(key, n, "label")) {
        size_t count = 1;
        if (feature->kind == SR_FEATURE_INT64) {
            out->label = feature->i64; // a plain number is accepted too
        } else {
            SR_TRY(check_kind("label", feature, SR_FEATURE_LIST));
            SR_TRY(sr_feature_int64s(feature, &out->label, 1, &count));
        }
    } else if (is_key(key, n, "orientation")) {
        return take_orientation(feature, out);
    } else if (is_key(key, n, "segments")) {
        return take_segments(feature, out);
    } else if (is_key(key, n, "zstd")) {
        return take_bool("zstd", feature, &out->zstd);
    } else if (is_key(key, n, "mask")) {
        return take_bytes("mask", feature, &out->mask, &out->mask_bytes);
    } else if (is_key(key, n, "name")) {
        SR_TRY(check_kind("name", feature, SR_FEATURE_BYTES));
        out->name = (const char *)feature->data;
        out->name_bytes = feature->bytes;
    }
    return SR_OK;
}

sr_status sr_sample_read(const void *record, size_t bytes, sr_sample *out) {
    sr_sample sample = {.label = -1, .orientation = 1};
    bool has_content = false;
    sr_record_cursor entries = sr_record_entries(record, bytes);
    for (;;) {
        const char *key;
        size_t key_bytes;
        sr_feature feature;
        bool more;
        SR_TRY(sr_record_next(&entries, &key, &key_bytes, &feature, &more));
        if (!more)
            break;
        has_content = has_content || is_key(key, key_bytes, "content");
        SR_TRY(take_sample_key(key, key_bytes, &feature, &sample));
    }
    if (sample.data == NULL || sample.bytes == 0)
        return SR_FAIL(SR_E_DATA, "the record has no key 'data' with a picture%s",
                       has_content ? "; it is a record with boxes, for detection" : "");
    *out = sample;
    return SR_OK;
}

uint32_t sr_sample_segment(const sr_sample *sample, size_t i) {
    const uint8_t *p = (const uint8_t *)sample->segments + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_polygons(sr_record_writer *writer, const sr_object *object) {
    sr_record_open_list(writer, "polygons");
    for (size_t i = 0; i < object->polygon_count; i++) {
        sr_record_open_list(writer, NULL);
        for (size_t j = 0; j < object->polygons[i].count; j++)
            sr_record_put_float64(writer, NULL, object->polygons[i].numbers[j]);
        sr_record_close(writer);
    }
    sr_record_close(writer);
}

static void put_object(sr_record_writer *writer, const sr_object *object) {
    sr_record_open_map(writer, NULL);
    sr_record_put_bytes(writer, "name", object->name, object->name_bytes);
    if (object->label >= 0)
        sr_record_put_int64(writer, "label", object->label);
    sr_record_put_float64(writer, "xmin", object->xmin);
    sr_record_put_float64(writer, "ymin", object->ymin);
    sr_record_put_float64(writer, "xmax", object->xmax);
    sr_record_put_float64(writer, "ymax", object->ymax);
    sr_record_put_int64(writer, "difficult", object->difficult);
    if (object->crowd)
        sr_record_put_int64(writer, "crowd", 1);
    if (object->mask != NULL)
        sr_record_put_bytes(writer, "mask", object->mask, object->mask_bytes);
    if (object->polygon_count > 0)
        put_polygons(writer, object);
    sr_record_close(writer);
}

sr_status sr_detection_write(sr_record_writer *writer, const sr_sample *picture,
                             const sr_object *objects, size_t count) {
    sr_record_begin(writer);
    sr_record_put_bytes(writer, "id", picture->name, picture->name_bytes);
    sr_record_put_bytes(writer, "content", picture->data, picture->bytes);
    sr_record_put_int64(writer, "height", picture->height);
    sr_record_put_int64(writer, "width", picture->width);
    sr_record_put_int64(writer, "depth", picture->channels);
    put_orientation(writer, picture);
    put_segments(writer, picture);
    if (!picture->encoded)
        sr_record_put_int64(writer, "raw", 1);
    put_zstd(writer, picture);
    sr_record_open_list(writer, "object");
    for (size_t i = 0; i < count; i++)
        put_object(writer, &objects[i]);
    sr_record_close(writer);
    return sr_record_end(writer);
}

static sr_status take_detection_key(const char *key, size_t n, const sr_feature *feature,
                                    sr_detection *out) {
    const char *const sides[] = {"height", "width", "depth"};
    int64_t *const numbers[] = {&out->picture.height, &out->picture.width, &out->picture.channels};
    for (int i = 0; i < 3; i++)
        if (is_key(key, n, sides[i])) {
            *numbers[i] = feature->i64;
            return check_kind(sides[i], feature, SR_FEATURE_INT64);
        }
    if (is_key(key, n, "content"))
        return take_bytes("content", feature, &out->picture.data, &out->picture.bytes);
    if (is_key(key, n, "id")) {
        out->picture.name = (const char *)feature->data;
        out->picture.name_bytes = feature->bytes;
        return check_kind("id", feature, SR_FEATURE_BYTES);
    }
    if (is_key(key, n, "orientation"))
        return take_orientation(feature, &out->picture);
    if (is_key(key, n, "segments"))
        return take_segments(feature, &out->picture);
    if (is_key(key, n, "zstd"))
        return take_bool("zstd", feature, &out->picture.zstd);
    if (is_key(key, n, "raw")) {
        bool raw = false;
        SR_TRY(take_bool("raw", feature, &raw));
        out->picture.encoded = !raw;
        return SR_OK;
    }
    if (is_key(key, n, "object")) {
        SR_TRY(check_kind("object", feature, SR_FEATURE_LIST));
        out->objects = sr_feature_entries(feature);
    }
    return SR_OK;
}

sr_status sr_detection_read(const void *record, size_t bytes, sr_detection *out) {
    sr_detection detection = {.picture = {.label = -1, .orientation = 1, .encoded = true}};
    sr_record_cursor entries = sr_record_entries(record, bytes);
    for (;;) {
        const char *key;
        size_t key_bytes;
        sr_feature feature;
        bool more;
        SR_TRY(sr_record_next(&entries, &key, &key_bytes, &feature, &more));
        if (!more)
            break;
        SR_TRY(take_detection_key(key, key_bytes, &feature, &detection));
    }
    if (detection.picture.data == NULL || detection.picture.bytes == 0)
        return SR_FAIL(SR_E_DATA, "the record has no key 'content' with a picture");
    *out = detection;
    return SR_OK;
}

static sr_status take_object_key(const char *key, size_t n, const sr_feature *feature,
                                 sr_object *out) {
    const char *const corners[] = {"xmin", "ymin", "xmax", "ymax"};
    double *const numbers[] = {&out->xmin, &out->ymin, &out->xmax, &out->ymax};
    for (int i = 0; i < 4; i++)
        if (is_key(key, n, corners[i])) {
            *numbers[i] = feature->f64;
            return check_kind(corners[i], feature, SR_FEATURE_FLOAT64);
        }
    if (is_key(key, n, "name")) {
        out->name = (const char *)feature->data;
        out->name_bytes = feature->bytes;
        return check_kind("name", feature, SR_FEATURE_BYTES);
    }
    if (is_key(key, n, "label")) {
        out->label = feature->i64;
        return check_kind("label", feature, SR_FEATURE_INT64);
    }
    if (is_key(key, n, "difficult")) {
        out->difficult = feature->i64 != 0;
        return check_kind("difficult", feature, SR_FEATURE_INT64);
    }
    if (is_key(key, n, "crowd"))
        return take_bool("crowd", feature, &out->crowd);
    if (is_key(key, n, "mask"))
        return take_bytes("mask", feature, &out->mask, &out->mask_bytes);
    if (is_key(key, n, "polygons")) {
        out->outlines = sr_feature_entries(feature);
        return check_kind("polygons", feature, SR_FEATURE_LIST);
    }
    return SR_OK;
}

sr_status sr_detection_next(sr_detection *detection, sr_object *out, bool *more) {
    const char *key;
    size_t key_bytes;
    sr_feature item;
    SR_TRY(sr_record_next(&detection->objects, &key, &key_bytes, &item, more));
    if (!*more)
        return SR_OK;
    if (item.kind != SR_FEATURE_MAP)
        return SR_FAIL(SR_E_DATA, "an item of 'object' is not a map");
    sr_object object = {.label = -1};
    sr_record_cursor entries = sr_feature_entries(&item);
    bool more_keys = true;
    for (;;) {
        sr_feature feature;
        SR_TRY(sr_record_next(&entries, &key, &key_bytes, &feature, &more_keys));
        if (!more_keys)
            break;
        SR_TRY(take_object_key(key, key_bytes, &feature, &object));
    }
    *out = object;
    return SR_OK;
}
