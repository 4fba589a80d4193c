// SPDX-License-Identifier: Apache-2.0
// Format: Pascal VOC, one XML file of boxes for each picture, in any folders.
//
// An annotation belongs to the picture with its name (without extensions); of several such pictures
// to the one that <filename>, the split and the folders indicate. The splits are those of
// {train,val,test}.txt in ImageSets/Main or ImageSets; else folders of splits (folder_splits.h);
// else everything is train. trainval.txt stands for the one of train and val that has no list.
// Classes are sorted by the bytes of their names, those of train where there is a train split.
//
// Corners are inclusive pixel numbers from 1, so xmin - 1, ymin - 1, xmax, ymax are our continuous
// coordinates. <part>, <pose>, <truncated> and the like are not kept.
//
// Refused by name: an annotation that cannot be read or has no picture; a picture with two
// annotations and the second of them; a picture without annotation, or with a class that train does
// not have; a listed name without a picture. Left out and counted: pictures that no list names, and
// renderings of annotated pictures (VOC's masks).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"
#include "dataio/formats/name_table.h"
#include "dataio/formats/picture_index.h"
#include "dataio/formats/voc_xml.h"
#include "dataio/image/picture.h"
#include "dataio/import/path_text.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"

#define LIST_MAX_BYTES ((uint64_t)256 << 20)
#define PROBED 8
#define SEVERAL SR_SPLIT_COUNT
#define TRAINVAL (SR_SPLIT_COUNT + 1)
#define DOUBTFUL (SR_SPLIT_COUNT + 2)

// A name that a list assigns to a split.
typedef struct listed {
    const char *name;
    int8_t split; // or TRAINVAL, SEVERAL
    bool met;
} listed;

typedef struct voc_reading {
    sr_source *source;
    sr_layout *layout;
    sr_picture_index index;
    sr_name_table names;
    bool *in_train; // [names.count]: some picture of train has it
    void *lists;    // listed
    size_t list_count, list_capacity;
    bool has_lists, has_list[TRAINVAL + 1]; // which define the splits, else:
    sr_folder_splits folders;
    bool *annotated; // [files]
    void *text;
    size_t capacity;
    sr_arena scratch; // of one annotation
} voc_reading;

// -- recognition -------------------------------------------------------------------------------

static bool is_folder(const char *name, size_t bytes, const char *wanted) {
    return strlen(wanted) == bytes && strncasecmp(name, wanted, bytes) == 0;
}

// The split of a list in ImageSets/Main or ImageSets; TRAINVAL; DOUBTFUL for other files there that
// have names of splits, or similar ones; or -1.
static int list_split(const char *path) {
    const char *name = sr_path_name(path), *folder;
    const size_t stem = sr_path_stem_bytes(path) - (size_t)(name - path);
    int below = -1; // folders below ImageSets
    bool main = false;
    size_t bytes;
    for (int level = 0; sr_path_folder_at(path, level, &folder, &bytes); level++) {
        below = is_folder(folder, bytes, "ImageSets") ? 0 : below < 0 ? -1 : below + 1;
        main = below == 1 && is_folder(folder, bytes, "Main");
    }
    if (below < 0 || !sr_text_ends_with(path, ".txt"))
        return -1;
    const int split = sr_split_named(name, stem);
    if (split < 0)
        return sr_split_resembles(name, stem) ? DOUBTFUL : -1;
    if (below > 0 && !main)
        return DOUBTFUL;
    return sr_split_is_union(name, stem) ? TRAINVAL : split;
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    return (sr_voc_is_xml(head, head_bytes) && bytes <= SR_VOC_MAX_BYTES) ||
           (list_split(path) >= 0 && bytes <= LIST_MAX_BYTES);
}

static bool is_annotation(const sr_source *source, const sr_source_file *file) {
    char head[SR_SOURCE_HEAD + 1] = {0};
    const size_t bytes = file->bytes < SR_SOURCE_HEAD ? (size_t)file->bytes : SR_SOURCE_HEAD;
    return sr_source_read_part(source, file, 0, head, bytes) == SR_OK &&
           sr_voc_is_xml((const uint8_t *)head, bytes) && strstr(head, "<annotation") != NULL;
}

// At least half as many XML files as pictures, and one of the first is an annotation.
static sr_status recognises(sr_source *source, sr_recognition *out) {
    size_t found = 0, probed = 0, lists = 0, beside = 0;
    for (size_t i = 0; i < source->wanted.count && probed < PROBED; i++) {
        const sr_source_file *file = &source->wanted.items[i];
        if (sr_text_ends_with(file->path, ".txt") || file->bytes == 0)
            continue;
        probed++;
        if (!is_annotation(source, file))
            continue;
        found++;
        beside += sr_has_picture_beside(source, file->path);
        (void)snprintf(out->why, sizeof out->why, "boxes for each picture, as in %s", file->path);
    }
    for (size_t i = 0; i < source->wanted.count; i++)
        lists += list_split(source->wanted.items[i].path) >= 0;
    if (found > 0 && 2 * (source->wanted.count - lists) >= source->files.count)
        out->certainty = beside > 0 ? SR_FORMAT_BESIDE : SR_FORMAT_YES;
    return SR_OK;
}

// -- lists -------------------------------------------------------------------------------------

static int by_listed_name(const void *a, const void *b) {
    const listed *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->split - y->split;
}

// The name of a picture in a list, which may be a path with its extension.
static const char *listed_name(const char *word, sr_arena *arena) {
    char path[SR_PATH_TEXT_MAX];
    (void)sr_path_normalise(word, SR_PATH_ANY, path);
    if (sr_picture_named(path))
        path[sr_path_stem_bytes(path)] = '\0';
    return sr_arena_strdup(arena, sr_path_name(path));
}

// The first word of every line.
static sr_status read_list(voc_reading *r, const sr_source_file *file, int split) {
    SR_TRY(sr_source_read(r->source, file, &r->text, &r->capacity));
    char *at = r->text;
    at += strncmp(at, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (*at != '\0') {
        const size_t line = strcspn(at, "\n"), word = strcspn(at, " \t\r\n");
        const bool more = at[line] == '\n';
        if (word > 0) {
            at[word < line ? word : line] = '\0';
            SR_TRY(sr_grow(&r->lists, &r->list_capacity, r->list_count + 1, sizeof(listed),
                           "lists of pictures"));
            const char *name = listed_name(at, &r->layout->arena);
            if (name == NULL)
                return SR_E_MEMORY;
            ((listed *)r->lists)[r->list_count++] = (listed){.name = name, .split = (int8_t)split};
        }
        at += line + more;
    }
    r->has_lists = r->has_list[split] = true;
    r->source->read++;
    return SR_OK;
}

// What a name that only trainval lists is of: no split where train and val are both listed.
static int split_of_trainval(const voc_reading *r) {
    return !r->has_list[SR_SPLIT_TRAIN] ? SR_SPLIT_TRAIN
           : !r->has_list[SR_SPLIT_VAL] ? SR_SPLIT_VAL
                                        : -1;
}

// Warns of lists that are not read; real VOC has lists of other tasks beside those of Main.
static void tell_doubts(const voc_reading *r) {
    sr_few_names doubts = {0};
    for (size_t i = 0; i < r->source->wanted.count; i++) {
        const char *path = r->source->wanted.items[i].path, *name = sr_path_name(path);
        const size_t stem = sr_path_stem_bytes(path) - (size_t)(name - path);
        if (list_split(path) == DOUBTFUL && (!r->has_lists || sr_split_named(name, stem) < 0))
            sr_few_names_add(&doubts, path, strlen(path));
    }
    if (doubts.count > 0)
        SR_WARN("%s: %s: not read; the lists of splits are train.txt, val.txt, test.txt and "
                "trainval.txt in ImageSets/Main",
                r->source->path, doubts.text);
}

static sr_status read_lists(voc_reading *r) {
    for (size_t i = 0; i < r->source->wanted.count; i++) {
        const int split = list_split(r->source->wanted.items[i].path);
        if (split >= 0 && split != DOUBTFUL)
            SR_TRY(read_list(r, &r->source->wanted.items[i], split));
    }
    tell_doubts(r);
    listed *lists = r->lists;
    if (r->list_count > 0)
        qsort(lists, r->list_count, sizeof *lists, by_listed_name);
    size_t kept = 0;
    for (size_t i = 0; i < r->list_count; i++) {
        if (kept == 0 || strcmp(lists[kept - 1].name, lists[i].name) != 0)
            lists[kept++] = lists[i];
        else if (lists[kept - 1].split != lists[i].split && lists[i].split != TRAINVAL)
            lists[kept - 1].split = SEVERAL;
    }
    r->list_count = kept;
    for (size_t i = 0; i < kept; i++)
        if (lists[i].split == TRAINVAL)
            lists[i].split = (int8_t)split_of_trainval(r);
    return SR_OK;
}

static listed *find_listed(const voc_reading *r, const char *name, size_t bytes) {
    listed *lists = r->lists;
    size_t low = 0, high = r->list_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        int order = strncmp(lists[middle].name, name, bytes);
        if (order == 0 && lists[middle].name[bytes] != '\0')
            order = 1;
        if (order == 0)
            return &lists[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// -- annotations -------------------------------------------------------------------------------

static sr_status refuse_file(voc_reading *r, const sr_source_file *file, const char *reason) {
    r->source->wanted_refused++;
    return sr_source_refuse(r->source, file->path, reason);
}

static sr_status add_objects(voc_reading *r, const sr_voc *voc, bool train, sr_layout_file *file) {
    for (size_t i = 0; i < voc->count; i++) {
        const sr_voc_object *o = &voc->objects[i];
        uint32_t number;
        const size_t before = r->names.count;
        SR_TRY(sr_name_table_get(&r->names, &r->layout->arena, o->name, strlen(o->name), &number));
        if (r->names.count > before) {
            bool *grown = sr_realloc(r->in_train, before * sizeof *grown,
                                     r->names.count * sizeof *grown, "classes");
            if (grown == NULL)
                return SR_E_MEMORY;
            r->in_train = grown;
        }
        r->in_train[number] = r->in_train[number] || train;
        const sr_annotation annotation = {
            .label = number,
            .difficult = o->difficult,
            .box = {o->box[0] - 1, o->box[1] - 1, o->box[2], o->box[3]}};
        SR_TRY(sr_annotations_add(&r->layout->annotations, file->annotation, &annotation,
                                  &file->annotation));
    }
    file->width = voc->width;
    file->height = voc->height;
    return SR_OK;
}

// The split of an annotated picture; -1 where it is left out or was refused.
static sr_status find_split(voc_reading *r, const sr_source_file *file, int *out) {
    const char *path = file->path, *name = sr_path_name(path);
    *out = SR_SPLIT_TRAIN;
    if (r->has_lists) {
        const listed *entry =
            find_listed(r, name, sr_path_stem_bytes(path) - (size_t)(name - path));
        *out = entry ? entry->split : -1;
        r->layout->unlabelled += *out < 0;
        if (*out == SEVERAL) {
            *out = -1;
            return sr_source_refuse(r->source, path, "is listed for several splits");
        }
    } else if (r->folders.any) {
        *out = sr_folder_splits_of(&r->folders, file);
        if (*out < 0)
            return sr_source_refuse(r->source, path, "is outside train, val and test");
    }
    return SR_OK;
}

// Refuses a picture that has several annotations, since objects of either would be missing.
static sr_status spoil(voc_reading *r, uint32_t picture) {
    sr_layout_file *file = &r->layout->files[picture];
    if (file->split < 0)
        return SR_OK;
    file->split = -1;
    return sr_source_refuse(r->source, r->source->files.items[picture].path,
                            "a picture with several annotations");
}

static sr_status match(voc_reading *r, const sr_source_file *file, const sr_voc *voc) {
    const char *name = sr_path_name(file->path), *rivals[2];
    char filename[SR_PATH_TEXT_MAX];
    (void)sr_path_normalise(voc->filename, SR_PATH_ANY, filename);
    const sr_picture_wanted wanted = {.stem = name,
                                      .stem_bytes = sr_path_stem_bytes(file->path) -
                                                    (size_t)(name - file->path),
                                      .name = sr_path_inside(filename),
                                      .near = file->path,
                                      .split = sr_path_split(file->path)};
    uint32_t picture;
    int split;
    if (!sr_picture_index_choose(&r->index, &wanted, &picture, rivals)) {
        if (rivals[0] == NULL)
            return refuse_file(r, file, "an annotation without a picture");
        r->source->wanted_refused++;
        return sr_source_refuse_for(r->source, file->path, "may be of %s or of %s", rivals[0],
                                    rivals[1]);
    }
    const char *path = r->source->files.items[picture].path;
    if (r->annotated[picture]) {
        r->source->wanted_refused++;
        SR_TRY(sr_source_refuse_for(r->source, file->path, "a second annotation of %s", path));
        return spoil(r, picture);
    }
    r->annotated[picture] = true;
    r->source->read++;
    SR_TRY(find_split(r, &r->source->files.items[picture], &split));
    if (split < 0)
        return SR_OK;
    r->layout->files[picture].split = (int8_t)split;
    return add_objects(r, voc, split == SR_SPLIT_TRAIN, &r->layout->files[picture]);
}

static sr_status read_annotation(voc_reading *r, const sr_source_file *file) {
    sr_voc voc;
    if (file->bytes == 0)
        return refuse_file(r, file, "empty file");
    SR_TRY(sr_source_read(r->source, file, &r->text, &r->capacity));
    sr_arena_reset(&r->scratch);
    const sr_status status = sr_voc_parse(r->text, (size_t)file->bytes, &r->scratch, &voc);
    if (status == SR_E_DATA || status == SR_E_LIMIT)
        return refuse_file(r, file, sr_error_message());
    SR_TRY(status);
    const sr_status matched = match(r, file, &voc);
    sr_free(voc.objects);
    return matched;
}

// -- other pictures ----------------------------------------------------------------------------

// Is another picture of the same name annotated?
static bool is_rendering(const voc_reading *r, const char *path) {
    const char *name = sr_path_name(path);
    size_t first, count = sr_picture_index_find(
                      &r->index, name, sr_path_stem_bytes(path) - (size_t)(name - path), &first);
    for (size_t i = first; i < first + count; i++)
        if (r->annotated[r->index.files[i]])
            return true;
    return false;
}

static sr_status settle_pictures(voc_reading *r) {
    for (size_t i = 0; i < r->layout->count; i++) {
        const char *path = r->source->files.items[i].path;
        if (r->annotated[i])
            continue;
        if (is_rendering(r, path))
            r->layout->unlabelled++;
        else
            SR_TRY(sr_source_refuse(r->source, path, "a picture without an annotation"));
    }
    const listed *lists = r->lists;
    for (size_t i = 0; i < r->list_count; i++) {
        size_t first;
        if (sr_picture_index_find(&r->index, lists[i].name, strlen(lists[i].name), &first) == 0)
            SR_TRY(sr_source_refuse(r->source, lists[i].name,
                                    "is listed in ImageSets, but there is no such "
                                    "picture"));
    }
    return SR_OK;
}

static sr_status settle_classes(voc_reading *r) {
    sr_layout *layout = r->layout;
    bool any_train = false;
    for (size_t i = 0; i < layout->count; i++)
        any_train = any_train || layout->files[i].split == SR_SPLIT_TRAIN;
    if (layout->class_count == 0) {
        sr_name_list list = {0};
        sr_status status = SR_OK;
        for (uint32_t i = 0; i < r->names.count && status == SR_OK; i++) {
            const char *name = sr_name_table_name(&r->names, i);
            if (r->in_train[i] || !any_train)
                status = sr_name_list_add(&list, &layout->arena, name, strlen(name));
        }
        sr_status set = sr_layout_set_classes(layout, &list);
        SR_TRY(status);
        SR_TRY(set);
    }
    for (uint32_t i = 0; i < r->names.count; i++) {
        const char *name = sr_name_table_name(&r->names, i);
        const int label = sr_layout_find_class(layout, name, strlen(name));
        SR_TRY(sr_layout_map_label(layout, i, label, name));
    }
    return SR_OK;
}

static sr_status read_all(voc_reading *r) {
    const sr_source *source = r->source;
    SR_TRY(sr_layout_begin(r->layout, source));
    SR_TRY(sr_picture_index_make(source, &r->index));
    r->annotated = sr_alloc_array(r->layout->count, sizeof *r->annotated, "pictures");
    if (r->annotated == NULL)
        return SR_E_MEMORY;
    SR_TRY(read_lists(r));
    if (!r->has_lists)
        SR_TRY(sr_folder_splits_find(source, &r->folders));
    for (size_t i = 0; i < source->wanted.count; i++) {
        const sr_source_file *file = &source->wanted.items[i];
        if (list_split(file->path) < 0 && (file->bytes == 0 || is_annotation(source, file)))
            SR_TRY(read_annotation(r, file));
    }
    SR_TRY(settle_pictures(r));
    return settle_classes(r);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    voc_reading r = {.source = source, .layout = out};
    sr_arena_init(&r.scratch);
    out->schema = SR_SCHEMA_OBJECTS;
    sr_status status = read_all(&r);
    sr_picture_index_release(&r.index);
    sr_name_table_release(&r.names);
    sr_free(r.in_train);
    sr_free(r.lists);
    sr_free(r.annotated);
    sr_free(r.text);
    sr_arena_release(&r.scratch);
    return status;
}

extern const sr_format sr_format_voc;
const sr_format sr_format_voc = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "voc",
    .help = "Pascal VOC, an XML file of boxes for each picture",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
