// SPDX-License-Identifier: Apache-2.0
// Reading and writing single KPLRecords (format: record.h).
//
// Every training picture is read through this code once per epoch, so the reader returns pointers,
// not copies; the writer makes one pass and inserts the lengths of lists and maps when they close.
// This is not a protobuf library: it knows seven messages and has no descriptors.
#include "dataio/record/record.h"

#include <string.h>

#include "dataio/record/wire_internal.h"
#include "kernels/base/memory.h"

// -- reading -----------------------------------------------------------------------------------

sr_record_cursor sr_record_entries(const void *record, size_t bytes) {
    const uint8_t *data = record;
    return (sr_record_cursor){.next = data, .end = bytes ? data + bytes : data, .is_map = true};
}

sr_record_cursor sr_feature_entries(const sr_feature *feature) {
    sr_record_cursor cursor = {0};
    if (feature->kind == SR_FEATURE_MAP || feature->kind == SR_FEATURE_LIST)
        cursor = sr_record_entries(feature->data, feature->bytes);
    cursor.is_map = feature->kind == SR_FEATURE_MAP;
    return cursor;
}

static sr_status parse_feature(const uint8_t *at, const uint8_t *end, sr_feature *out) {
    sr_feature feature = {0};
    wire_field field;
    while (at < end) {
        if (!wire_next(&at, end, &field))
            return SR_FAIL(SR_E_DATA, "damaged KPLRecord: a value is cut off or has no valid type");
        unsigned wanted = field.number == SR_FEATURE_FLOAT64 ? WIRE_FIXED64
                          : field.number == SR_FEATURE_INT64 ? WIRE_VARINT
                                                             : WIRE_BYTES;
        bool known = field.number >= 2 && field.number <= 9 && field.number != 6;
        if (!known)
            continue;
        if (field.type != wanted)
            return SR_FAIL(SR_E_DATA, "damaged KPLRecord: field %u has wire type %u", field.number,
                           field.type);
        feature = (sr_feature){.kind = (sr_feature_kind)field.number,
                               .data = field.data,
                               .bytes = field.bytes,
                               .i64 = (int64_t)field.value};
        if (field.number == SR_FEATURE_FLOAT64)
            memcpy(&feature.f64, &field.value, sizeof feature.f64);
    }
    *out = feature;
    return SR_OK;
}

// One entry of FeatureMap.map: key = 1, value = 2; both may be absent.
static sr_status parse_entry(const wire_field *entry, const char **key, size_t *key_bytes,
                             sr_feature *feature) {
    const uint8_t *at = entry->data, *end = entry->data + entry->bytes;
    wire_field field;
    *key = "";
    *key_bytes = 0;
    *feature = (sr_feature){0};
    while (at < end) {
        if (!wire_next(&at, end, &field) ||
            ((field.number == 1 || field.number == 2) && field.type != WIRE_BYTES))
            return SR_FAIL(SR_E_DATA, "damaged KPLRecord: an entry of a map is cut off");
        if (field.number == 1) {
            *key = (const char *)field.data;
            *key_bytes = field.bytes;
        } else if (field.number == 2) {
            SR_TRY(parse_feature(field.data, field.data + field.bytes, feature));
        }
    }
    return SR_OK;
}

sr_status sr_record_next(sr_record_cursor *cursor, const char **key, size_t *key_bytes,
                         sr_feature *feature, bool *more) {
    const uint8_t *at = cursor->next;
    while (at < cursor->end) {
        wire_field field;
        if (!wire_next(&at, cursor->end, &field))
            return SR_FAIL(SR_E_DATA,
                           "damaged KPLRecord: an entry is cut off %zu bytes before the "
                           "end of its map or list",
                           (size_t)(cursor->end - at));
        if (field.number != 1)
            continue;
        if (field.type != WIRE_BYTES)
            return SR_FAIL(SR_E_DATA, "damaged KPLRecord: an entry has wire type %u", field.type);
        if (cursor->is_map) {
            SR_TRY(parse_entry(&field, key, key_bytes, feature));
        } else {
            *key = NULL;
            *key_bytes = 0;
            SR_TRY(parse_feature(field.data, field.data + field.bytes, feature));
        }
        cursor->next = at;
        *more = true;
        return SR_OK;
    }
    cursor->next = at;
    *more = false;
    return SR_OK;
}

sr_status sr_record_find(sr_record_cursor entries, const char *key, sr_feature *out) {
    size_t wanted = strlen(key), key_bytes;
    const char *name;
    sr_feature feature, found = {0};
    bool more = false;
    for (;;) {
        SR_TRY(sr_record_next(&entries, &name, &key_bytes, &feature, &more));
        if (!more)
            break;
        if (name != NULL && key_bytes == wanted && memcmp(name, key, wanted) == 0)
            found = feature;
    }
    *out = found;
    return SR_OK;
}

sr_status sr_feature_int64s(const sr_feature *list, int64_t *out, size_t capacity, size_t *count) {
    sr_record_cursor items = sr_feature_entries(list);
    size_t n = 0;
    for (;;) {
        const char *key;
        size_t key_bytes;
        sr_feature item = {0};
        bool more = false;
        SR_TRY(sr_record_next(&items, &key, &key_bytes, &item, &more));
        if (!more)
            break;
        if (item.kind != SR_FEATURE_INT64 && item.kind != SR_FEATURE_NONE)
            return SR_FAIL(SR_E_DATA, "item %zu of a list of int64 is of another kind", n);
        if (n < capacity)
            out[n] = item.i64;
        n++;
    }
    *count = n;
    return SR_OK;
}

// -- writing -----------------------------------------------------------------------------------

void sr_record_writer_release(sr_record_writer *writer) {
    sr_free(writer->data);
    *writer = (sr_record_writer){0};
}

void sr_record_begin(sr_record_writer *writer) {
    writer->bytes = 0;
    writer->depth = 0;
    writer->failed = SR_OK;
}

// Room for n more bytes; NULL after a failure.
static uint8_t *reserve(sr_record_writer *writer, size_t n) {
    if (writer->failed != SR_OK)
        return NULL;
    void *data = writer->data;
    writer->failed = sr_grow(&data, &writer->capacity, writer->bytes + n, 1, "record");
    writer->data = data;
    return writer->failed == SR_OK ? writer->data + writer->bytes : NULL;
}

static bool key_fits(sr_record_writer *writer, const char *key) {
    bool in_map = writer->depth == 0 || writer->level[writer->depth - 1].is_map;
    if (writer->failed == SR_OK && in_map != (key != NULL))
        writer->failed = SR_FAIL(SR_E_ARGUMENT, in_map ? "an entry of a map needs a key"
                                                       : "an item of a list has no key");
    return writer->failed == SR_OK;
}

#define HEAD_MAX ((size_t)6 * WIRE_VARINT_MAX)

// Writes what precedes a value of 'bytes' bytes (including its tag), the map entry with its key or
// the list item, to head; returns its size.
static size_t entry_head(uint8_t *head, const char *key, size_t bytes) {
    size_t n = 0;
    if (key == NULL) {
        head[n++] = 1 << 3 | WIRE_BYTES; // FeatureList.list
        return n + wire_put_varint(head + n, bytes);
    }
    size_t key_bytes = strlen(key);
    size_t entry =
        1 + wire_varint_size(key_bytes) + key_bytes + 1 + wire_varint_size(bytes) + bytes;
    head[n++] = 1 << 3 | WIRE_BYTES; // FeatureMap.map
    n += wire_put_varint(head + n, entry);
    head[n++] = 1 << 3 | WIRE_BYTES; // key
    n += wire_put_varint(head + n, key_bytes);
    memcpy(head + n, key, key_bytes);
    n += key_bytes;
    head[n++] = 2 << 3 | WIRE_BYTES; // value
    return n + wire_put_varint(head + n, bytes);
}

// A whole value: head, value's own tag and (for WIRE_BYTES) length, then data.
static void put(sr_record_writer *writer, const char *key, sr_feature_kind kind, unsigned type,
                const void *data, size_t bytes) {
    if (!key_fits(writer, key))
        return;
    uint8_t tag[1 + WIRE_VARINT_MAX];
    size_t tag_bytes = 1;
    tag[0] = (uint8_t)((unsigned)kind << 3 | type);
    if (type == WIRE_BYTES)
        tag_bytes += wire_put_varint(tag + 1, bytes);
    uint8_t *out = reserve(writer, HEAD_MAX + (key ? strlen(key) : 0) + tag_bytes + bytes);
    if (out == NULL)
        return;
    size_t n = entry_head(out, key, tag_bytes + bytes);
    memcpy(out + n, tag, tag_bytes);
    n += tag_bytes;
    if (bytes > 0)
        memcpy(out + n, data, bytes);
    writer->bytes += n + bytes;
}

void sr_record_put_bytes(sr_record_writer *writer, const char *key, const void *data,
                         size_t bytes) {
    put(writer, key, SR_FEATURE_BYTES, WIRE_BYTES, data, bytes);
}

void sr_record_put_string(sr_record_writer *writer, const char *key, const char *text) {
    put(writer, key, SR_FEATURE_BYTES, WIRE_BYTES, text, strlen(text));
}

void sr_record_put_int64(sr_record_writer *writer, const char *key, int64_t value) {
    uint8_t data[WIRE_VARINT_MAX];
    put(writer, key, SR_FEATURE_INT64, WIRE_VARINT, data, wire_put_varint(data, (uint64_t)value));
}

void sr_record_put_float64(sr_record_writer *writer, const char *key, double value) {
    uint64_t bits;
    uint8_t data[8];
    memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        data[i] = (uint8_t)(bits >> 8 * i);
    put(writer, key, SR_FEATURE_FLOAT64, WIRE_FIXED64, data, sizeof data);
}

void sr_record_put_int64s(sr_record_writer *writer, const char *key, const int64_t *values,
                          size_t count) {
    sr_record_open_list(writer, key);
    for (size_t i = 0; i < count; i++)
        sr_record_put_int64(writer, NULL, values[i]);
    sr_record_close(writer);
}

static void open_level(sr_record_writer *writer, const char *key, bool is_map) {
    if (!key_fits(writer, key))
        return;
    if (writer->depth == SR_RECORD_MAX_DEPTH) {
        writer->failed =
            SR_FAIL(SR_E_LIMIT, "a record nests at most %d levels", SR_RECORD_MAX_DEPTH);
        return;
    }
    writer->level[writer->depth].key = key;
    writer->level[writer->depth].start = writer->bytes;
    writer->level[writer->depth].is_map = is_map;
    writer->depth++;
}

void sr_record_open_list(sr_record_writer *writer, const char *key) {
    open_level(writer, key, false);
}

void sr_record_open_map(sr_record_writer *writer, const char *key) {
    open_level(writer, key, true);
}

void sr_record_close(sr_record_writer *writer) {
    if (writer->failed != SR_OK)
        return;
    if (writer->depth == 0) {
        writer->failed = SR_FAIL(SR_E_ARGUMENT, "a level is closed without having been opened");
        return;
    }
    writer->depth--;
    const char *key = writer->level[writer->depth].key;
    size_t start = writer->level[writer->depth].start, bytes = writer->bytes - start;
    size_t key_bytes = key ? strlen(key) : 0;
    if (reserve(writer, HEAD_MAX + key_bytes) == NULL)
        return;
    sr_feature_kind kind = writer->level[writer->depth].is_map ? SR_FEATURE_MAP : SR_FEATURE_LIST;
    uint8_t tag[1 + WIRE_VARINT_MAX];
    tag[0] = (uint8_t)((unsigned)kind << 3 | WIRE_BYTES);
    size_t tag_bytes = 1 + wire_put_varint(tag + 1, bytes);
    // The head is written after the content, then the two are swapped.
    uint8_t *data = writer->data + start;
    size_t head = entry_head(data + bytes, key, tag_bytes + bytes);
    head += tag_bytes;
    memmove(data + head, data, bytes);
    (void)entry_head(data, key, tag_bytes + bytes);
    memcpy(data + head - tag_bytes, tag, tag_bytes);
    writer->bytes += head;
}

sr_status sr_record_end(sr_record_writer *writer) {
    if (writer->failed == SR_OK && writer->depth != 0)
        writer->failed = SR_FAIL(SR_E_ARGUMENT, "a list or map of the record is still open");
    return writer->failed;
}
