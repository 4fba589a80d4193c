// SPDX-License-Identifier: Apache-2.0
// Format: KPLRecord directories, NAME.data with NAME.index and NAME.meta (dataio/record/record.h,
// dataio/record/protocol.h). Records are kept byte for byte.
//
// Several directories in one source become splits by their folders or names (train, val, test). All
// must have the same protocol; a directory with another one, or without one of the files, is
// refused by name. Classes: in the classification schema the labels that occur, as numbers; in the
// detection schema the names of the objects in byte order. To find them every record is read once.
#include <stdio.h>
#include <string.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"
#include "dataio/formats/name_table.h"
#include "dataio/record/protocol.h"
#include "dataio/record/record.h"
#include "kernels/base/text.h"

#define META_MAX ((uint64_t)16 << 20)
#define MAX_CLASSES 1000000

static bool is_meta(const char *path, const uint8_t *head, size_t head_bytes) {
    return sr_text_ends_with(path, ".meta") && memmem(head, head_bytes, "record_type", 11) != NULL;
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    (void)bytes;
    return is_meta(path, head, head_bytes) || sr_text_ends_with(path, ".data") ||
           sr_text_ends_with(path, ".index");
}

static sr_status file_is_meta(const sr_source *source, const sr_source_file *file, bool *out) {
    uint8_t head[SR_SOURCE_HEAD];
    const size_t n = file->bytes < sizeof head ? (size_t)file->bytes : sizeof head;
    *out = false;
    if (!sr_text_ends_with(file->path, ".meta") || file->bytes > META_MAX)
        return SR_OK;
    SR_TRY(sr_source_read_part(source, file, 0, head, n));
    *out = is_meta(file->path, head, n);
    return SR_OK;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    bool fits = false;
    for (size_t i = 0; i < source->wanted.count && source->files.count == 0 && !fits; i++) {
        SR_TRY(file_is_meta(source, &source->wanted.items[i], &fits));
        (void)snprintf(out->why, sizeof out->why, "%s", source->wanted.items[i].path);
    }
    out->certainty = fits ? SR_FORMAT_YES : SR_FORMAT_NO;
    return SR_OK;
}

// -- one directory -----------------------------------------------------------------------------

typedef struct kpl_reading {
    sr_source *source;
    sr_layout *layout;
    sr_name_table names; // of objects
    int64_t most;        // largest label
    void *text;
    size_t capacity;
} kpl_reading;

static const sr_source_file *sibling(const sr_source *source, const char *meta,
                                     const char *ending) {
    char path[4200];
    (void)snprintf(path, sizeof path, "%.*s%s", (int)strlen(meta) - 5, meta, ending);
    return sr_file_list_find(&source->wanted, path);
}

static sr_status refuse(kpl_reading *r, const sr_source_file *file, const char *reason) {
    r->source->wanted_refused++;
    return sr_source_refuse(r->source, file->path, reason);
}

// Reads the protocol as text; the first one must be that of all directories.
static sr_status take_meta(kpl_reading *r, const sr_source_file *meta, bool *fits) {
    sr_arena arena;
    const sr_type *type;
    sr_text text;
    SR_TRY(sr_source_read(r->source, meta, &r->text, &r->capacity));
    sr_arena_init(&arena);
    sr_text_init(&text);
    sr_status status = sr_meta_parse(r->text, (size_t)meta->bytes, &arena, &type);
    if (status == SR_OK) {
        sr_protocol_print(type, &text);
        status = sr_text_check(&text);
    }
    *fits = status == SR_OK;
    if (status == SR_E_DATA)
        status = refuse(r, meta, sr_error_message());
    if (*fits && r->layout->protocol == NULL) {
        r->layout->protocol = sr_arena_strdup(&r->layout->arena, text.data);
        status = r->layout->protocol ? SR_OK : SR_E_MEMORY;
    } else if (*fits && strcmp(r->layout->protocol, text.data) != 0) {
        *fits = false;
        status = refuse(r, meta, "its protocol differs from that of the other directories");
    }
    sr_text_release(&text);
    sr_arena_release(&arena);
    return status;
}

static sr_status add_records(kpl_reading *r, const sr_source_file *data, const uint64_t *offsets,
                             size_t count) {
    int backing;
    SR_TRY(sr_source_backing_of(r->source, data, &backing));
    for (size_t i = 0; i < count; i++) {
        char path[4200];
        (void)snprintf(path, sizeof path, "%s#%07zu", data->path, i);
        SR_TRY(sr_source_add(r->source,
                             &(sr_source_file){.path = path,
                                               .bytes = offsets[i + 1] - offsets[i],
                                               .offset = data->offset + offsets[i],
                                               .in = backing},
                             SR_OFFER_PICTURE));
    }
    return SR_OK;
}

static sr_status take_index(kpl_reading *r, const sr_source_file *index,
                            const sr_source_file *data) {
    uint64_t *offsets = NULL;
    size_t count = 0;
    if (index->bytes == 0)
        return refuse(r, index, "an empty index: its writer did not finish");
    SR_TRY(sr_source_read(r->source, index, &r->text, &r->capacity));
    sr_status status = sr_index_parse(r->text, (size_t)index->bytes, &offsets, &count);
    if (status == SR_E_DATA || status == SR_E_LIMIT)
        return refuse(r, index, sr_error_message());
    SR_TRY(status);
    if (offsets[count] != data->bytes)
        status = refuse(r, index, "an index of data of a different length");
    else
        status = add_records(r, data, offsets, count);
    sr_free(offsets);
    return status;
}

static sr_status take_directory(kpl_reading *r, const sr_source_file *meta) {
    const sr_source_file *data = sibling(r->source, meta->path, ".data");
    const sr_source_file *index = sibling(r->source, meta->path, ".index");
    bool fits;
    if (data == NULL || index == NULL)
        return refuse(r, meta,
                      data ? "there is no .index beside it" : "there is no .data beside it");
    SR_TRY(take_meta(r, meta, &fits));
    if (!fits)
        return SR_OK;
    const uint64_t refused = r->source->wanted_refused;
    SR_TRY(take_index(r, index, data));
    r->source->read += refused == r->source->wanted_refused ? 3 : 2;
    return SR_OK;
}

// -- classes -----------------------------------------------------------------------------------

static sr_status take_label(kpl_reading *r, const void *record, size_t bytes) {
    sr_sample sample;
    if (sr_sample_read(record, bytes, &sample) == SR_OK && sample.label > r->most &&
        sample.label < MAX_CLASSES)
        r->most = sample.label;
    return SR_OK; // mistakes in a record are found when it is packed
}

static sr_status take_names(kpl_reading *r, const void *record, size_t bytes) {
    sr_detection detection;
    sr_object object;
    bool more = true;
    if (sr_detection_read(record, bytes, &detection) != SR_OK)
        return SR_OK;
    while (sr_detection_next(&detection, &object, &more) == SR_OK && more) {
        uint32_t number;
        if (object.name != NULL && memchr(object.name, 0, object.name_bytes) == NULL)
            SR_TRY(sr_name_table_get(&r->names, &r->layout->arena, object.name, object.name_bytes,
                                     &number));
    }
    return SR_OK;
}

static sr_status find_classes(kpl_reading *r) {
    const char *protocol = r->layout->protocol ? r->layout->protocol : "";
    const bool objects = strstr(protocol, "content: bytes") != NULL;
    const bool labels = !objects && strstr(protocol, "label: [int64]") != NULL;
    const sr_file_list *files = &r->source->files;
    for (size_t i = 0; i < files->count && (objects || labels); i++) {
        SR_TRY(sr_source_read(r->source, &files->items[i], &r->text, &r->capacity));
        SR_TRY((objects ? take_names : take_label)(r, r->text, (size_t)files->items[i].bytes));
    }
    if (labels && r->most >= 0)
        return sr_layout_number_classes(r->layout, r->most + 1);
    if (!objects || r->layout->names_given)
        return SR_OK;
    sr_name_list list = {0};
    sr_status status = SR_OK;
    for (uint32_t i = 0; i < r->names.count && status == SR_OK; i++) {
        const char *name = sr_name_table_name(&r->names, i);
        status = sr_name_list_add(&list, &r->layout->arena, name, strlen(name));
    }
    const sr_status set = sr_layout_set_classes(r->layout, &list);
    return status != SR_OK ? status : set;
}

static sr_status read_all(kpl_reading *r) {
    for (size_t i = 0; i < r->source->wanted.count; i++) {
        bool fits;
        SR_TRY(file_is_meta(r->source, &r->source->wanted.items[i], &fits));
        if (fits)
            SR_TRY(take_directory(r, &r->source->wanted.items[i]));
    }
    SR_TRY(sr_layout_begin(r->layout, r->source));
    sr_folder_splits splits;
    SR_TRY(sr_folder_splits_find(r->source, &splits));
    for (size_t i = 0; i < r->layout->count; i++) {
        const char *name = sr_path_name(r->source->files.items[i].path);
        const int word = sr_split_word(name, strcspn(name, "#"));
        const int split = sr_folder_splits_of(&splits, &r->source->files.items[i]);
        r->layout->files[i].split = (int8_t)(split >= 0  ? split
                                             : word >= 0 ? word
                                                         : SR_SPLIT_TRAIN);
    }
    return find_classes(r);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    kpl_reading r = {.source = source, .layout = out, .most = -1};
    out->schema = SR_SCHEMA_RECORD;
    sr_status status = read_all(&r);
    sr_name_table_release(&r.names);
    sr_free(r.text);
    return status;
}

extern const sr_format sr_format_kplrecord;
const sr_format sr_format_kplrecord = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "kplrecord",
    .help = "directories of KPLRecords",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
