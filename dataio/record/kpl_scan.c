// SPDX-License-Identifier: Apache-2.0
// Reads all of a KPLRecord directory of another writer once, to find what its files do not state
// (sr_kpl_scan in kpl_folder_internal.h).
//
// Class names are those of N.prop; where it has none, the names of the objects in records with
// boxes, in byte order, and else the labels as numbers. Of a record that does not follow the
// protocol only its bytes are counted, not its contents.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataio/record/kpl_folder_internal.h"
#include "dataio/record/record.h"
#include "dataio/record/record_facts_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"

#define MOST_CLASSES (1 << 20)
#define MOST_NAMES (1 << 16)

typedef struct scan {
    const kpl_folder *folder;
    const sr_type *protocol;
    sr_arena arena;
    sr_property property;
    sr_index_entry *entries;
    int64_t count;
    uint8_t *buffer;
    size_t capacity;
    void *sides, *labels; // uint32_t; uint64_t: records of each label
    size_t side_count, side_capacity, label_count, label_capacity;
    void *names; // char *, in byte order: of objects
    size_t name_count, name_capacity;
    bool valid;
} scan;

// -- contents of a record ----------------------------------------------------------------------

// The index of the name, or the one where it would be inserted.
static size_t place_of(const scan *s, const char *name, size_t bytes, bool *there) {
    char *const *names = s->names;
    size_t low = 0, high = s->name_count;
    *there = false;
    while (low < high && !*there) {
        size_t middle = (low + high) / 2;
        int order = strncmp(names[middle], name, bytes);
        if (order == 0)
            order = names[middle][bytes] != '\0';
        *there = order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *there ? high : low;
}

static sr_status add_name(scan *s, const char *name, size_t bytes) {
    bool there;
    if (bytes == 0 || memchr(name, '\0', bytes) != NULL)
        return SR_OK;
    size_t at = place_of(s, name, bytes, &there);
    if (there)
        return SR_OK;
    if (s->name_count == MOST_NAMES)
        return SR_FAIL(SR_E_LIMIT, "objects have more than %d names; put the classes into %s",
                       MOST_NAMES, s->folder->prop.path);
    SR_TRY(sr_grow(&s->names, &s->name_capacity, s->name_count + 1, sizeof(char *), "class names"));
    char **names = s->names, *copy = sr_arena_alloc(&s->arena, bytes + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    memcpy(copy, name, bytes);
    memmove(names + at + 1, names + at, (s->name_count - at) * sizeof *names);
    names[at] = copy;
    s->name_count++;
    return SR_OK;
}

static sr_status add_objects(scan *s, const void *record, size_t bytes) {
    sr_feature objects, object, name;
    const char *key;
    size_t key_bytes;
    bool more;
    SR_TRY(sr_record_find(sr_record_entries(record, bytes), "object", &objects));
    sr_record_cursor items = sr_feature_entries(&objects);
    for (;;) {
        SR_TRY(sr_record_next(&items, &key, &key_bytes, &object, &more));
        if (!more)
            return SR_OK;
        SR_TRY(sr_record_find(sr_feature_entries(&object), "name", &name));
        if (name.kind == SR_FEATURE_BYTES || name.kind == SR_FEATURE_STRING)
            SR_TRY(add_name(s, (const char *)name.data, name.bytes));
    }
}

static sr_status add_label(scan *s, const sr_record_facts *facts) {
    size_t label = (size_t)facts->label;
    if (!facts->has_label || facts->label < 0)
        return SR_OK; // no class
    if (s->property.class_count > 0)
        SR_TRY(sr_record_facts_check(facts, (uint32_t)s->property.class_count));
    if (facts->label >= MOST_CLASSES)
        return SR_FAIL(SR_E_LIMIT, "label %" PRId64 " is over the limit of %d classes",
                       facts->label, MOST_CLASSES);
    SR_TRY(sr_grow(&s->labels, &s->label_capacity, label + 1, sizeof(uint64_t), "labels"));
    ((uint64_t *)s->labels)[label]++;
    s->label_count = label + 1 > s->label_count ? label + 1 : s->label_count;
    return SR_OK;
}

static sr_status add_facts(scan *s, const void *record, size_t bytes) {
    sr_record_facts facts = {0};
    SR_TRY(sr_record_facts_read(record, bytes, &facts));
    SR_TRY(add_label(s, &facts));
    if (s->property.class_count == 0)
        SR_TRY(add_objects(s, record, bytes));
    if (facts.side == 0)
        return SR_OK;
    SR_TRY(sr_grow(&s->sides, &s->side_capacity, s->side_count + 1, sizeof(uint32_t), "sides"));
    ((uint32_t *)s->sides)[s->side_count++] = facts.side;
    return SR_OK;
}

static sr_status take_record(scan *s, int64_t i) {
    sr_index_entry *entry = &s->entries[i];
    size_t bytes = (size_t)entry->bytes;
    entry->hash = sr_hash64(s->buffer, bytes);
    if (sr_protocol_check(s->protocol, s->buffer, bytes) != SR_OK) {
        if (s->valid)
            SR_WARN("%s record %" PRId64
                    ": %s; checksums of this directory are written once it is repaired",
                    s->folder->data_path, i, sr_error_message());
        s->valid = false;
        return SR_OK;
    }
    sr_status status = add_facts(s, s->buffer, bytes);
    if (status != SR_OK)
        sr_error_prefix("%s record %" PRId64, s->folder->data_path, i);
    return status;
}

static sr_status read_records(scan *s, int fd) {
    for (int64_t i = 0; i < s->count; i++) {
        size_t bytes = (size_t)s->entries[i].bytes;
        void *buffer = s->buffer;
        SR_TRY(sr_grow(&buffer, &s->capacity, bytes + 1, 1, "record"));
        s->buffer = buffer;
        SR_TRY(sr_file_read_at(fd, s->folder->data_path, s->entries[i].offset, s->buffer, bytes));
        SR_TRY(take_record(s, i));
    }
    return SR_OK;
}

static sr_status read_all(scan *s) {
    int fd = open(s->folder->data_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sr_file_fail(s->folder->data_path, "cannot be opened", errno);
    sr_status status = read_records(s, fd);
    (void)close(fd);
    return status;
}

// -- the header --------------------------------------------------------------------------------

static int compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static sr_status number_names(scan *s, const char ***out) {
    const char **names = sr_arena_alloc(&s->arena, s->label_count * sizeof *names);
    if (names == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < s->label_count; i++) {
        char text[24];
        (void)snprintf(text, sizeof text, "%zu", i);
        names[i] = sr_arena_strdup(&s->arena, text);
        if (names[i] == NULL)
            return SR_E_MEMORY;
    }
    *out = names;
    return SR_OK;
}

static sr_status set_classes(scan *s, shard_header *header) {
    const char **numbers = NULL;
    size_t count = (size_t)s->property.class_count;
    header->classes = s->property.classes;
    if (count == 0 && s->name_count > 0) {
        count = s->name_count;
        header->classes = (const char *const *)s->names;
    } else if (count == 0) {
        SR_TRY(number_names(s, &numbers));
        count = s->label_count;
        header->classes = numbers;
    }
    uint64_t *records = sr_arena_alloc(&s->arena, count * sizeof *records);
    if (records == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < count && i < s->label_count; i++)
        records[i] = ((const uint64_t *)s->labels)[i];
    header->class_records = records;
    header->class_count = (uint32_t)count;
    return SR_OK;
}

static sr_status encode(scan *s, uint8_t **out, size_t *bytes) {
    const char *split = s->property.split ? s->property.split : "";
    shard_header header = {.file_bytes = s->folder->data_bytes,
                           .records = (uint64_t)s->count,
                           .flags = SHARD_FLAG_LAST,
                           .split = strlen(split) <= SR_SPLIT_MAX ? split : ""};
    SR_TRY(set_classes(s, &header));
    if (s->side_count > 0) {
        qsort(s->sides, s->side_count, sizeof(uint32_t), compare_u32);
        header.median_side = ((const uint32_t *)s->sides)[s->side_count / 2];
    }
    sr_text meta;
    sr_text_init(&meta);
    sr_meta_print(s->protocol, KPL_USUAL_STEM, &meta);
    sr_status status = sr_text_check(&meta);
    header.meta = meta.data;
    header.meta_bytes = meta.length;
    if (status == SR_OK)
        status = sr_kpl_sums_encode(s->folder, &header, s->entries, out, bytes);
    sr_text_release(&meta);
    return status;
}

static sr_status parse_property(scan *s) {
    const kpl_file *prop = &s->folder->prop;
    if (prop->data == NULL)
        return SR_OK;
    sr_status status = sr_property_parse(prop->data, prop->bytes, &s->arena, &s->property);
    if (status != SR_OK)
        sr_error_prefix("%s", prop->path);
    return status;
}

sr_status sr_kpl_scan(const kpl_folder *folder, const sr_type *protocol, uint8_t **out,
                      size_t *bytes, bool *valid) {
    scan s = {.folder = folder, .protocol = protocol, .valid = true};
    sr_arena_init(&s.arena);
    sr_status status = parse_property(&s);
    if (status == SR_OK)
        status = sr_kpl_entries(folder, &s.entries, &s.count);
    if (status == SR_OK)
        status = read_all(&s);
    if (status == SR_OK)
        status = encode(&s, out, bytes);
    *valid = s.valid;
    sr_free(s.entries);
    sr_free(s.buffer);
    sr_free(s.sides);
    sr_free(s.labels);
    sr_free(s.names);
    sr_arena_release(&s.arena);
    return status;
}
