// SPDX-License-Identifier: Apache-2.0
// Reads and writes N.prop (message: property.h). Our keys need one level of lists only, so nothing
// recurses over input.
#include "dataio/record/property.h"

#include <string.h>

#include "dataio/record/wire_internal.h"

enum { FLAG_STRING = 0, FLAG_BYTES, FLAG_FLOAT64, FLAG_INT64, FLAG_LIST, FLAG_MAP };
enum { FIELD_FLAG = 1, FIELD_STRING, FIELD_BYTES, FIELD_FLOAT64, FIELD_INT64, FIELD_LIST };

#define MOST_CLASSES (1 << 20)

// -- reading -----------------------------------------------------------------------------------

// A DynamicType; the last of a repeated field counts, except for the items of a list, which are
// counted here and iterated by next_item.
typedef struct value {
    uint64_t flag, i64;
    double f64;
    const uint8_t *text; // of string and bytes
    size_t text_bytes;
    const uint8_t *at, *end; // of the message
    size_t items;
} value;

static sr_status parse_value(const uint8_t *at, const uint8_t *end, value *out) {
    value v = {.at = at, .end = end};
    wire_field field;
    while (at < end) {
        if (!wire_next(&at, end, &field))
            return SR_FAIL(SR_E_DATA, "a value is cut off");
        if (field.number == FIELD_FLAG && field.type == WIRE_VARINT)
            v.flag = field.value;
        if (field.number == FIELD_INT64 && field.type == WIRE_VARINT)
            v.i64 = field.value;
        if (field.number == FIELD_FLOAT64 && field.type == WIRE_FIXED64)
            memcpy(&v.f64, &field.value, sizeof v.f64);
        if ((field.number == FIELD_STRING || field.number == FIELD_BYTES) &&
            field.type == WIRE_BYTES) {
            v.text = field.data;
            v.text_bytes = field.bytes;
        }
        v.items += field.number == FIELD_LIST && field.type == WIRE_BYTES;
    }
    *out = v;
    return SR_OK;
}

// The next item of a list that parse_value has checked; false after the last.
static sr_status next_item(value *list, value *out, bool *more) {
    wire_field field;
    *more = false;
    while (list->at < list->end && !*more) {
        if (!wire_next(&list->at, list->end, &field))
            return SR_FAIL(SR_E_DATA, "a list is cut off");
        *more = field.number == FIELD_LIST && field.type == WIRE_BYTES;
    }
    return *more ? parse_value(field.data, field.data + field.bytes, out) : SR_OK;
}

static sr_status take_text(const value *v, sr_arena *arena, const char **out) {
    if (v->flag != FLAG_STRING && v->flag != FLAG_BYTES)
        return SR_FAIL(SR_E_DATA, "a string is expected");
    if (v->text_bytes > 0 && memchr(v->text, '\0', v->text_bytes) != NULL)
        return SR_FAIL(SR_E_DATA, "a string contains a zero byte");
    char *copy = sr_arena_alloc(arena, v->text_bytes + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    if (v->text_bytes > 0)
        memcpy(copy, v->text, v->text_bytes);
    *out = copy;
    return SR_OK;
}

static sr_status take_classes(value *v, sr_arena *arena, sr_property *out) {
    if (v->flag != FLAG_LIST)
        return SR_FAIL(SR_E_DATA, "a list of strings is expected");
    if (v->items > MOST_CLASSES)
        return SR_FAIL(SR_E_LIMIT, "%zu classes are more than %d", v->items, MOST_CLASSES);
    const char **names = sr_arena_alloc(arena, v->items * sizeof *names);
    if (names == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < v->items; i++) {
        value item = {0};
        bool more;
        SR_TRY(next_item(v, &item, &more));
        SR_TRY(take_text(&item, arena, &names[i]));
    }
    out->classes = names;
    out->class_count = (int)v->items;
    return SR_OK;
}

static sr_status take_triple(value *v, double out[3]) {
    if (v->flag != FLAG_LIST || v->items != 3)
        return SR_FAIL(SR_E_DATA, "a list of three float64 is expected");
    for (int i = 0; i < 3; i++) {
        value item = {0};
        bool more;
        SR_TRY(next_item(v, &item, &more));
        if (item.flag != FLAG_FLOAT64)
            return SR_FAIL(SR_E_DATA, "a list of three float64 is expected");
        out[i] = item.f64;
    }
    return SR_OK;
}

typedef struct seen {
    bool mean, std;
} seen;

static bool is_key(const wire_field *key, const char *name) {
    return key->bytes == strlen(name) && memcmp(key->data, name, key->bytes) == 0;
}

static sr_status take_entry(const wire_field *key, value *v, sr_arena *arena, seen *has,
                            sr_property *out) {
    if (is_key(key, "classes"))
        return take_classes(v, arena, out);
    if (is_key(key, "split"))
        return take_text(v, arena, &out->split);
    if (is_key(key, "mean")) {
        has->mean = true;
        return take_triple(v, out->mean);
    }
    if (is_key(key, "std")) {
        has->std = true;
        return take_triple(v, out->std);
    }
    if (!is_key(key, "median_side"))
        return SR_OK;
    if (v->flag != FLAG_INT64)
        return SR_FAIL(SR_E_DATA, "an int64 is expected");
    out->median_side = (int64_t)v->i64;
    return SR_OK;
}

// One entry of Property.map: key = 1, value = 2; both may be absent.
static sr_status parse_entry(const wire_field *entry, sr_arena *arena, seen *has,
                             sr_property *out) {
    const uint8_t *at = entry->data, *end = entry->data + entry->bytes;
    wire_field field, key = {.data = entry->data}, content = {.data = entry->data};
    while (at < end) {
        if (!wire_next(&at, end, &field) || (field.number <= 2 && field.type != WIRE_BYTES))
            return SR_FAIL(SR_E_DATA, "properties: an entry is cut off");
        if (field.number == 1)
            key = field;
        else if (field.number == 2)
            content = field;
    }
    value v = {0};
    sr_status status = parse_value(content.data, content.data + content.bytes, &v);
    if (status == SR_OK)
        status = take_entry(&key, &v, arena, has, out);
    if (status != SR_OK)
        sr_error_prefix("properties: key '%.*s'", key.bytes > 100 ? 100 : (int)key.bytes,
                        (const char *)key.data);
    return status;
}

sr_status sr_property_parse(const void *data, size_t bytes, sr_arena *arena, sr_property *out) {
    const uint8_t *at = data, *end = bytes ? at + bytes : at;
    sr_property property = {0};
    seen has = {0};
    wire_field field;
    while (at < end) {
        if (!wire_next(&at, end, &field) || (field.number == 1 && field.type != WIRE_BYTES))
            return SR_FAIL(SR_E_DATA, "properties: the message is cut off %zu bytes before its end",
                           (size_t)(end - at));
        if (field.number == 1)
            SR_TRY(parse_entry(&field, arena, &has, &property));
    }
    property.has_mean = has.mean && has.std;
    *out = property;
    return SR_OK;
}

// -- writing -----------------------------------------------------------------------------------

static void add_tag(sr_text *out, unsigned field, unsigned type) {
    const uint8_t tag = (uint8_t)(field << 3 | type);
    sr_text_add_bytes(out, &tag, 1);
}

static void add_varint(sr_text *out, uint64_t v) {
    uint8_t bytes[WIRE_VARINT_MAX];
    sr_text_add_bytes(out, bytes, wire_put_varint(bytes, v));
}

static void add_message(sr_text *out, unsigned field, const void *data, size_t bytes) {
    add_tag(out, field, WIRE_BYTES);
    add_varint(out, bytes);
    sr_text_add_bytes(out, data, bytes);
}

static void add_flag(sr_text *out, unsigned flag) {
    if (flag == 0)
        return; // proto3 leaves zeros out
    add_tag(out, FIELD_FLAG, WIRE_VARINT);
    add_varint(out, flag);
}

static void add_string(sr_text *out, const char *text) {
    if (*text != '\0')
        add_message(out, FIELD_STRING, text, strlen(text));
}

static void add_float64(sr_text *out, double number) {
    uint64_t bits;
    uint8_t bytes[8];
    memcpy(&bits, &number, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    add_flag(out, FLAG_FLOAT64);
    if (bits == 0)
        return;
    add_tag(out, FIELD_FLOAT64, WIRE_FIXED64);
    sr_text_add_bytes(out, bytes, sizeof bytes);
}

// Writes the value in 'v', which is then cleared for the next one.
static void add_entry(sr_text *out, const char *key, sr_text *v) {
    sr_text entry;
    sr_text_init(&entry);
    add_message(&entry, 1, key, strlen(key));
    add_message(&entry, 2, v->data, v->length);
    out->failed = out->failed || entry.failed || v->failed;
    add_message(out, 1, entry.data, entry.length);
    sr_text_release(&entry);
    sr_text_clear(v);
}

static void add_classes(const sr_property *p, sr_text *v, sr_text *out) {
    add_flag(v, FLAG_LIST);
    for (int i = 0; i < p->class_count; i++) {
        sr_text item;
        sr_text_init(&item);
        add_string(&item, p->classes[i]);
        v->failed = v->failed || item.failed;
        add_message(v, FIELD_LIST, item.data, item.length);
        sr_text_release(&item);
    }
    add_entry(out, "classes", v);
}

static void add_triple(const char *key, const double numbers[3], sr_text *v, sr_text *out) {
    add_flag(v, FLAG_LIST);
    for (int i = 0; i < 3; i++) {
        sr_text item;
        sr_text_init(&item);
        add_float64(&item, numbers[i]);
        v->failed = v->failed || item.failed;
        add_message(v, FIELD_LIST, item.data, item.length);
        sr_text_release(&item);
    }
    add_entry(out, key, v);
}

sr_status sr_property_write(const sr_property *property, sr_text *out) {
    sr_text v;
    sr_text_init(&v);
    if (property->class_count > 0)
        add_classes(property, &v, out);
    if (property->split != NULL) {
        add_string(&v, property->split);
        add_entry(out, "split", &v);
    }
    if (property->median_side != 0) {
        add_flag(&v, FLAG_INT64);
        add_tag(&v, FIELD_INT64, WIRE_VARINT);
        add_varint(&v, (uint64_t)property->median_side);
        add_entry(out, "median_side", &v);
    }
    if (property->has_mean) {
        add_triple("mean", property->mean, &v, out);
        add_triple("std", property->std, &v, out);
    }
    sr_text_release(&v);
    return sr_text_check(out);
}
