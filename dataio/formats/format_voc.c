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
#include "dataio/formats/split_lists.h"
#include "dataio/formats/voc_xml.h"
#include "dataio/image/picture.h"
#include "dataio/import/path_text.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"

#define PROBED 8
#define DOUBTFUL (SR_LIST_TRAINVAL + 1)

typedef struct voc_reading {
    sr_source *source;
    sr_layout *layout;
    sr_picture_index index;
    sr_name_table names;
    bool *in_train;       // [names.count]: some picture of train has it
    sr_split_lists lists; // define the splits, else:
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

// The split of a list in ImageSets/Main or ImageSets; SR_LIST_TRAINVAL; DOUBTFUL for other files
// there that have names of splits, or similar ones; or -1.
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
    return sr_split_is_union(name, stem) ? SR_LIST_TRAINVAL : split;
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    return (sr_voc_is_xml(head, head_bytes) && bytes <= SR_VOC_MAX_BYTES) ||
           (list_split(path) >= 0 && bytes <= SR_LIST_MAX_BYTES);
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

// Warns of lists that are not read; real VOC has lists of other tasks beside those of Main.
static void tell_doubts(const voc_reading *r) {
    sr_few_names doubts = {0};
    for (size_t i = 0; i < r->source->wanted.count; i++) {
        const char *path = r->source->wanted.items[i].path, *name = sr_path_name(path);
        const size_t stem = sr_path_stem_bytes(path) - (size_t)(name - path);
        if (list_split(path) == DOUBTFUL && (!r->lists.any || sr_split_named(name, stem) < 0))
            sr_few_names_add(&doubts, path, strlen(path));
    }
    if (doubts.count > 0)
        SR_WARN("%s: %s: not read; the lists of splits are train.txt, val.txt, test.txt and "
                "trainval.txt in ImageSets/Main",
                r->source->path, doubts.text);
}

static sr_status read_lists(voc_reading *r) {
    for (size_t i = 0; i < r->source->wanted.count; i++) {
        const sr_source_file *file = &r->source->wanted.items[i];
        const int split = list_split(file->path);
        if (split >= 0 && split != DOUBTFUL)
            SR_TRY(sr_split_lists_read(&r->lists, r->source, file, split, &r->layout->arena));
    }
    tell_doubts(r);
    sr_split_lists_settle(&r->lists);
    return SR_OK;
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
    const char *path = file->path;
    *out = SR_SPLIT_TRAIN;
    if (r->lists.any) {
        *out = sr_split_lists_of(&r->lists, path);
        r->layout->unlabelled += *out < 0;
        if (*out == SR_LIST_SEVERAL) {
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
    return sr_split_lists_refuse_missing(&r->lists, r->source, &r->index);
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
    if (!r->lists.any)
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
    sr_split_lists_release(&r.lists);
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
