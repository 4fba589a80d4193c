// SPDX-License-Identifier: Apache-2.0
// Protocols as text, checking records against their protocol, and N.index (formats: protocol.h).
// The text-format Meta is in meta_text.c.
#include "dataio/record/protocol.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dataio/record/record.h"
#include "dataio/record/wire_internal.h"

#define MAX_DEPTH SR_RECORD_MAX_DEPTH
#define KEY_MAX 256

typedef struct scanner {
    const char *text, *at;
    sr_arena *arena;
    int depth;
} scanner;

static sr_status mistake(const scanner *s, const char *what) {
    return SR_FAIL(SR_E_USAGE, "protocol '%s', column %zu: %s", s->text,
                   (size_t)(s->at - s->text) + 1, what);
}

static void skip_space(scanner *s) {
    while (isspace((unsigned char)*s->at))
        s->at++;
}

static bool take(scanner *s, char c) {
    skip_space(s);
    if (*s->at != c)
        return false;
    s->at++;
    return true;
}

// Whether the character needs no quotes.
static bool is_bare(unsigned char c) {
    return isalnum(c) || (c != '\0' && strchr("_-./", c) != NULL);
}

// A bare word or a quoted one, into word[KEY_MAX].
static sr_status take_word(scanner *s, char *word) {
    skip_space(s);
    char quote = *s->at == '"' || *s->at == '\'' ? *s->at++ : '\0';
    size_t n = 0;
    for (; *s->at != '\0'; s->at++) {
        unsigned char c = (unsigned char)*s->at;
        if (quote ? c == (unsigned char)quote : !is_bare(c))
            break;
        if (n + 1 >= KEY_MAX)
            return mistake(s, "this name is too long");
        word[n++] = (char)c;
    }
    if (quote && !take(s, quote))
        return mistake(s, "the closing quote is missing");
    if (n == 0)
        return mistake(s, "a name is expected");
    word[n] = '\0';
    return SR_OK;
}

static const struct {
    const char *name;
    sr_type_kind kind;
} leaf_names[] = {
    {"bytes", SR_TYPE_BYTES},   {"float64", SR_TYPE_FLOAT64}, {"int64", SR_TYPE_INT64},
    {"string", SR_TYPE_STRING}, {"file", SR_TYPE_FILE},       {"bytearray", SR_TYPE_BYTES},
    {"float", SR_TYPE_FLOAT64}, {"int", SR_TYPE_INT64},
};

static sr_status new_type(sr_arena *arena, sr_type_kind kind, sr_type **out) {
    *out = sr_arena_alloc(arena, sizeof **out);
    if (*out == NULL)
        return SR_E_MEMORY;
    (*out)->kind = kind;
    return SR_OK;
}

static sr_status parse_type(scanner *s, sr_type **out);

static bool has_key(const sr_type *map, const char *key) {
    for (const sr_type *t = map->first; t != NULL; t = t->next)
        if (strcmp(t->key, key) == 0)
            return true;
    return false;
}

static sr_status parse_map(scanner *s, sr_type **out) {
    sr_type *map;
    SR_TRY(new_type(s->arena, SR_TYPE_MAP, &map));
    sr_type **tail = &map->first;
    while (!take(s, '}')) {
        char key[KEY_MAX];
        if (map->first != NULL && !take(s, ','))
            return mistake(s, "',' or '}' is expected");
        SR_TRY(take_word(s, key));
        if (has_key(map, key))
            return mistake(s, "this key is repeated");
        if (!take(s, ':'))
            return mistake(s, "':' is expected after a key");
        sr_type *type = NULL;
        SR_TRY(parse_type(s, &type));
        assert(type != NULL);
        type->key = sr_arena_strdup(s->arena, key);
        if (type->key == NULL)
            return SR_E_MEMORY;
        *tail = type;
        tail = &type->next;
    }
    *out = map;
    return SR_OK;
}

static sr_status parse_leaf(scanner *s, sr_type **out) {
    char word[KEY_MAX];
    SR_TRY(take_word(s, word));
    for (size_t i = 0; i < sizeof leaf_names / sizeof *leaf_names; i++)
        if (strcasecmp(word, leaf_names[i].name) == 0)
            return new_type(s->arena, leaf_names[i].kind, out);
    return mistake(
        s, "a type is expected: bytes, int64, float64, string, file, [TYPE] or {KEY: TYPE}");
}

static sr_status parse_type(scanner *s, sr_type **out) {
    if (s->depth == MAX_DEPTH)
        return mistake(s, "nested too deeply");
    s->depth++;
    if (take(s, '{')) {
        SR_TRY(parse_map(s, out));
    } else if (take(s, '[')) {
        SR_TRY(new_type(s->arena, SR_TYPE_LIST, out));
        SR_TRY(parse_type(s, &(*out)->first));
        if (!take(s, ']'))
            return mistake(s, "']' is expected: a list has one element type");
    } else {
        SR_TRY(parse_leaf(s, out));
    }
    s->depth--;
    return SR_OK;
}

sr_status sr_protocol_parse(const char *text, sr_arena *arena, const sr_type **out) {
    scanner s = {.text = text, .at = text, .arena = arena};
    sr_type *type = NULL;
    SR_TRY(parse_type(&s, &type));
    assert(type != NULL);
    skip_space(&s);
    if (*s.at != '\0')
        return mistake(&s, "something follows after the protocol");
    if (type->kind != SR_TYPE_MAP)
        return SR_FAIL(SR_E_USAGE,
                       "protocol '%s': the top level must be a map, such as {key: bytes}", text);
    *out = type;
    return SR_OK;
}

// Adds a key as the parser expects it: in quotes unless it is a bare word.
static void print_key(const char *key, sr_text *out) {
    bool bare = *key != '\0';
    for (const char *p = key; *p; p++)
        bare = bare && is_bare((unsigned char)*p);
    const char *quote = bare ? "" : strchr(key, '"') ? "'" : "\"";
    sr_text_add(out, "%s%s%s: ", quote, key, quote);
}

void sr_protocol_print(const sr_type *type, sr_text *out) {
    if (type->kind == SR_TYPE_LIST) {
        sr_text_add(out, "[");
        sr_protocol_print(type->first, out);
        sr_text_add(out, "]");
        return;
    }
    if (type->kind == SR_TYPE_MAP) {
        sr_text_add(out, "{");
        for (const sr_type *t = type->first; t != NULL; t = t->next) {
            print_key(t->key, out);
            sr_protocol_print(t, out);
            sr_text_add(out, "%s", t->next ? ", " : "");
        }
        sr_text_add(out, "}");
        return;
    }
    for (size_t i = 0; i < sizeof leaf_names / sizeof *leaf_names; i++)
        if (leaf_names[i].kind == type->kind) {
            sr_text_add(out, "%s", leaf_names[i].name);
            return;
        }
    sr_text_add(out, "unknown");
}

// -- checking ----------------------------------------------------------------------------------

static bool kind_fits(sr_type_kind type, sr_feature_kind kind) {
    switch (type) {
    case SR_TYPE_UNKNOWN:
        return true;
    case SR_TYPE_BYTES:
    case SR_TYPE_STRING:
        return kind == SR_FEATURE_BYTES || kind == SR_FEATURE_STRING;
    case SR_TYPE_FLOAT64:
        return kind == SR_FEATURE_FLOAT64;
    case SR_TYPE_INT64:
        return kind == SR_FEATURE_INT64;
    case SR_TYPE_LIST:
        return kind == SR_FEATURE_LIST;
    case SR_TYPE_MAP:
        return kind == SR_FEATURE_MAP;
    case SR_TYPE_FILE:
        return kind == SR_FEATURE_FILE;
    }
    return false;
}

static const sr_type *child_of(const sr_type *parent, const char *key, size_t bytes) {
    if (parent->kind == SR_TYPE_LIST)
        return parent->first;
    for (const sr_type *t = parent->first; t != NULL; t = t->next)
        if (strlen(t->key) == bytes && memcmp(t->key, key, bytes) == 0)
            return t;
    return NULL;
}

// The depth is that of the protocol, which its parser limits.
static sr_status check_entries(const sr_type *type, sr_record_cursor cursor, const char *path) {
    for (size_t i = 0;; i++) {
        const char *key;
        size_t key_bytes;
        sr_feature feature;
        bool more;
        sr_status status = sr_record_next(&cursor, &key, &key_bytes, &feature, &more);
        if (status != SR_OK)
            sr_error_prefix("%s%safter %zu entries", path, *path ? " " : "", i);
        if (status != SR_OK || !more)
            return status;
        char name[KEY_MAX];
        if (type->kind == SR_TYPE_LIST)
            (void)snprintf(name, sizeof name, "%s[%zu]", path, i);
        else
            (void)snprintf(name, sizeof name, "%s%s%.*s", path, *path ? "." : "",
                           key_bytes > 100 ? 100 : (int)key_bytes, key);
        const sr_type *child = child_of(type, key, key_bytes);
        if (child == NULL)
            return SR_FAIL(SR_E_DATA, "key '%s' is not in the protocol", name);
        if (feature.kind == SR_FEATURE_NONE)
            continue;
        if (!kind_fits(child->kind, feature.kind))
            return SR_FAIL(SR_E_DATA, "key '%s' is of kind %d, which the protocol does not declare",
                           name, (int)feature.kind);
        if (child->kind == SR_TYPE_LIST || child->kind == SR_TYPE_MAP)
            SR_TRY(check_entries(child, sr_feature_entries(&feature), name));
    }
}

sr_status sr_protocol_check(const sr_type *protocol, const void *record, size_t bytes) {
    return check_entries(protocol, sr_record_entries(record, bytes), "");
}

// -- N.index -----------------------------------------------------------------------------------

typedef struct offset_list {
    void *items;
    size_t count, capacity;
} offset_list;

static sr_status append_offset(offset_list *list, uint64_t value) {
    uint64_t before = list->count ? ((uint64_t *)list->items)[list->count - 1] : 0;
    if (list->count == 0 ? value != 0 : value < before)
        return SR_FAIL(SR_E_DATA, "index: offset %zu is %llu; offsets begin with 0 and grow",
                       list->count, (unsigned long long)value);
    SR_TRY(sr_grow(&list->items, &list->capacity, list->count + 1, sizeof(uint64_t), "offsets"));
    ((uint64_t *)list->items)[list->count++] = value;
    return SR_OK;
}

static sr_status parse_offsets(const uint8_t *at, const uint8_t *end, offset_list *list) {
    wire_field field;
    while (at < end) {
        if (!wire_next(&at, end, &field))
            return SR_FAIL(SR_E_DATA, "index: the message is cut off");
        if (field.number != 1)
            continue;
        if (field.type == WIRE_VARINT) {
            SR_TRY(append_offset(list, field.value));
            continue;
        }
        if (field.type != WIRE_BYTES)
            continue;
        const uint8_t *p = field.data, *stop = field.data + field.bytes;
        while (p < stop) {
            uint64_t value;
            if (!wire_varint(&p, stop, &value))
                return SR_FAIL(SR_E_DATA, "index: offset %zu is cut off", list->count);
            SR_TRY(append_offset(list, value));
        }
    }
    if (list->count == 0)
        return SR_FAIL(SR_E_DATA, "index: empty; its writer stopped before it closed the data set");
    return SR_OK;
}

sr_status sr_index_parse(const void *data, size_t bytes, uint64_t **offsets, size_t *count) {
    offset_list list = {0};
    const uint8_t *at = data;
    sr_status status = parse_offsets(at, bytes ? at + bytes : at, &list);
    if (status != SR_OK) {
        sr_free(list.items);
        return status;
    }
    *offsets = list.items;
    *count = list.count - 1;
    return SR_OK;
}

sr_status sr_index_write(const uint64_t *offsets, size_t count, sr_text *out) {
    uint8_t varint[WIRE_VARINT_MAX];
    size_t bytes = 0;
    for (size_t i = 0; i <= count; i++)
        bytes += wire_varint_size(offsets[i]);
    varint[0] = 1 << 3 | WIRE_BYTES;
    sr_text_add_bytes(out, varint, 1);
    sr_text_add_bytes(out, varint, wire_put_varint(varint, bytes));
    for (size_t i = 0; i <= count; i++)
        sr_text_add_bytes(out, varint, wire_put_varint(varint, offsets[i]));
    return sr_text_check(out);
}
