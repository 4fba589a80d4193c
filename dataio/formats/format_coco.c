// SPDX-License-Identifier: Apache-2.0
// Format: COCO's object annotations, JSON files and folders of pictures.
//
// Every JSON file with COCO's lists is read, but where some are named instances_... only those, as
// the others (captions, key points) describe the same pictures. The split of a file is given by a
// word of its name or, failing that, of its folders (dataio/record/split.h); else it is train.
// file_name is the end of a path in the source; of several such paths the one is used that is in a
// folder named like the end of the JSON's name (train2017), in its split, or near it. Of an
// absolute path, and of one with "..", leading folders need not exist.
//
// Classes are the categories of train in the order of their ids; other files are matched by name.
// Boxes x, y, width, height become corners; iscrowd is kept and also marks the object as difficult.
// Polygons are kept as they are, run lengths as COCO's compressed string.
//
// coco-masks packs the same outlines drawn as masks (outline_mask.h) instead. Pixels without an
// object are of the class background, which is added as class 0; with names of the user they have
// no class unless background is one of the names. A class map's ids are those of categories, and 0
// means no object; so may several categories become one class, or "*" the background.
//
// Refused by name: an image without a picture or with two possible pictures; a picture that
// several images name, and these; a picture with an unusable annotation, since without it training
// would take the object for background: an annotation that is invalid, of a category that is not
// defined or that train does not have, or of an image id that names two pictures; and, under the
// name of their file, annotations of an image that is not defined. Left out and counted: pictures
// that no file names. Ids of annotations are used in messages only and may repeat. Invalid JSON and
// invalid categories are errors with line and column.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/formats/coco_json.h"
#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"
#include "dataio/formats/id_table.h"
#include "dataio/formats/name_table.h"
#include "dataio/formats/picture_index.h"
#include "dataio/image/mask_png.h"
#include "dataio/import/path_text.h"
#include "kernels/base/text.h"

#define PROBED 32 // of the largest JSON files
#define BACKGROUND "background"
#define NAMED_BEFORE UINT32_MAX // in a file before, or by an image that cannot be used

// An image of the current file.
typedef struct image {
    uint64_t annotation; // its last annotation (annotations.h)
    int64_t first;       // number of its first annotation
    uint32_t picture;    // 1 + index into the source's files; 0: not defined yet
    uint32_t objects;
    bool refused;
    const char *flaw; // why it cannot be used, or NULL
} image;

typedef struct category {
    int file; // which defines it
    int64_t id;
    const char *name;
    const char *rival; // the id also has this name, or NULL
} category;

// The meaning of the label of an annotation.
typedef struct label {
    int file;
    int64_t category;
} label;

typedef struct coco_reading {
    sr_source *source;
    sr_layout *layout;
    sr_picture_index index;
    const sr_source_file *json; // the current file
    int split, file;            // its split; its number
    sr_id_table ids;            // of its images
    void *images;               // image
    size_t image_capacity;
    void *categories; // category, those of one file after those of another
    size_t category_count, category_capacity, first_category;
    sr_id_table defined; // ids of the file's categories
    sr_id_table used;    // category ids that the file's annotations have
    void *labels;        // label, of annotations: those of one file after those of another
    size_t label_count, label_capacity, first_label;
    sr_name_table names; // of the classes, then other names
    size_t class_names;  // number of names of classes
    int *class_of;       // [class_names]
    uint32_t *namer;     // [files]: 1 + number of the image in ids, NAMED_BEFORE or 0: none
    char path[4096];     // for messages
} coco_reading;

// -- recognition -------------------------------------------------------------------------------

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    (void)path, (void)bytes;
    size_t at = head_bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < head_bytes && strchr(" \t\r\n", head[at]) != NULL && head[at] != '\0')
        at++;
    return at < head_bytes && head[at] == '{';
}

static sr_status read_json(void *user, uint64_t offset, void *out, size_t bytes) {
    const coco_reading *r = user;
    return sr_source_read_part(r->source, r->json, offset, out, bytes);
}

static sr_coco_verdict probe(sr_source *source, const sr_source_file *json) {
    uint8_t head[64];
    const size_t n = json->bytes < sizeof head ? (size_t)json->bytes : sizeof head;
    coco_reading r = {.source = source, .json = json};
    if (sr_source_read_part(source, json, 0, head, n) != SR_OK ||
        !wants(json->path, head, n, json->bytes))
        return SR_COCO_NO;
    return sr_coco_probe(&(sr_coco_reading){
        .path = json->path, .bytes = json->bytes, .user = &r, .read = read_json});
}

static int by_json_path(const void *a, const void *b) {
    const sr_source_file *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

// Finds the files to read. Only a few of the largest are probed, as a source may have a JSON file
// for each picture.
static sr_status find_files(sr_source *source, const sr_source_file **files, size_t *out) {
    const sr_source_file *largest[PROBED];
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < source->wanted.count; i++) {
        const sr_source_file *json = &source->wanted.items[i];
        size_t at = count;
        if (sr_text_ends_with(json->path, ".txt")) // lists and labels, of which there may be many
            continue;
        while (at > 0 && largest[at - 1]->bytes < json->bytes)
            at--;
        if (at == PROBED)
            continue;
        count += count < PROBED;
        memmove(largest + at + 1, largest + at, (count - at - 1) * sizeof *largest);
        largest[at] = json;
    }
    bool instances = false;
    for (size_t i = 0; i < count; i++)
        if (probe(source, largest[i]) != SR_COCO_NO) {
            files[kept++] = largest[i];
            instances = instances || strncmp(sr_path_name(largest[i]->path), "instances_", 10) == 0;
        }
    *out = 0; // filters in place: *out <= i
    for (size_t i = 0; i < kept; i++)
        if (!instances || strncmp(sr_path_name(files[i]->path), "instances_", 10) == 0)
            files[(*out)++] = files[i];
    return SR_OK;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    const sr_source_file *files[PROBED];
    size_t count, beside = 0;
    SR_TRY(find_files(source, files, &count));
    for (size_t i = 0; i < count; i++)
        beside += sr_has_picture_beside(source, files[i]->path);
    if (count == 0)
        return SR_OK;
    out->certainty = beside == count ? SR_FORMAT_BESIDE : SR_FORMAT_YES;
    (void)snprintf(out->why, sizeof out->why, "images and annotations in %s%s", files[0]->path,
                   count > 1 ? " and others" : "");
    return SR_OK;
}

// -- paths -------------------------------------------------------------------------------------

// The path of the JSON; where the user named the file itself, the whole path, which may contain the
// split.
static const char *full_path(const sr_source *source, const sr_source_file *json) {
    const bool itself = source->folder >= 0 && source->backing_count > 0 && json->in < 0;
    return itself ? source->path : json->path;
}

// -1: no name gives it.
static int find_split(const sr_source *source, const sr_source_file *json) {
    const char *path = full_path(source, json), *name = sr_path_name(path), *folder;
    size_t bytes;
    int split = sr_split_word(name, strlen(name));
    if (split < 0)
        split = sr_path_split(path);
    for (int level = 0; split < 0 && sr_path_folder_at(json->path, level, &folder, &bytes); level++)
        if ((size_t)(folder - json->path) >= source->root_bytes)
            split = sr_split_word(folder, bytes);
    return split;
}

static int split_of_json(const sr_source *source, const sr_source_file *json) {
    const int split = find_split(source, json);
    return split < 0 ? SR_SPLIT_TRAIN : split;
}

static void tell_doubts(const sr_source *source, const sr_source_file *const *files, size_t count) {
    sr_few_names doubts = {0};
    for (size_t i = 0; i < count; i++) {
        const char *name = sr_path_name(files[i]->path);
        if (find_split(source, files[i]) < 0 && sr_split_resembles(name, strlen(name)))
            sr_few_names_add(&doubts, name, strlen(name));
    }
    sr_folder_splits_doubt(source, &doubts, "treated as train");
}

// Prepends a folder named like the end of the JSON's name after its last '_', as "train2017".
static void join_tail(const char *json, const char *file_name, char *out, size_t capacity) {
    const char *name = sr_path_name(json), *tail = strrchr(name, '_');
    tail = tail ? tail + 1 : name;
    (void)snprintf(out, capacity, "%.*s/%s", (int)strcspn(tail, "."), tail, file_name);
}

static bool find_named(coco_reading *r, const char *file_name, uint32_t *out,
                       const char *rivals[2]) {
    char longer[4200];
    const char *name = sr_path_name(file_name);
    sr_picture_wanted wanted = {.stem = name,
                                .stem_bytes = sr_path_stem_bytes(name),
                                .near = r->json->path,
                                .split = r->split};
    join_tail(r->json->path, file_name, longer, sizeof longer);
    const char *const names[] = {longer, file_name};
    for (int i = 0; i < 2; i++) {
        wanted.name = names[i];
        if (sr_picture_index_choose(&r->index, &wanted, out, rivals) &&
            sr_path_ends_with(r->source->files.items[*out].path, names[i]))
            return true;
    }
    if (rivals[0] != NULL && !sr_path_ends_with(rivals[0], file_name))
        rivals[0] = rivals[1] = NULL;
    return false;
}

// Windows programs separate folders with '\\'.
static bool find_picture(coco_reading *r, const char *file_name, uint32_t *out,
                         const char *rivals[2]) {
    static const sr_path_separator separators[] = {SR_PATH_SLASH, SR_PATH_ANY};
    char path[SR_PATH_TEXT_MAX];
    rivals[0] = rivals[1] = NULL;
    for (int i = 0; i < 2 && sr_path_normalise(file_name, separators[i], path); i++) {
        const char *at = sr_path_inside(path), *slash;
        const bool outside = at != path;
        for (; at != NULL; at = slash != NULL ? slash + 1 : NULL) {
            slash = outside ? strchr(at, '/') : NULL;
            if (find_named(r, at, out, rivals))
                return true;
            if (rivals[0] != NULL)
                return false;
        }
    }
    return false;
}

// -- events ------------------------------------------------------------------------------------

static sr_status image_of(coco_reading *r, int64_t id, image **out) {
    uint32_t number;
    const size_t before = r->ids.count;
    SR_TRY(sr_id_table_get(&r->ids, id, &number));
    SR_TRY(sr_grow(&r->images, &r->image_capacity, r->ids.count, sizeof(image), "images"));
    *out = (image *)r->images + number;
    if (r->ids.count > before)
        **out = (image){0};
    return SR_OK;
}

static bool is_known(const image *i) {
    return i->picture != 0 || i->refused;
}

// Records the first reason why an image cannot be used.
static sr_status spoil(coco_reading *r, image *to, const char *fmt, ...) SR_PRINTF(3, 4);
static sr_status spoil(coco_reading *r, image *to, const char *fmt, ...) {
    char reason[512];
    va_list arguments;
    if (to->flaw != NULL)
        return SR_OK;
    va_start(arguments, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, arguments);
    va_end(arguments);
    to->flaw = sr_arena_strdup(&r->layout->arena, reason);
    return to->flaw != NULL ? SR_OK : SR_E_MEMORY;
}

// Handles a picture that another image names, or that an unusable image names: without it, training
// would miss the objects of one of them. by: the id of the image in the current file, or -1.
static sr_status name_again(coco_reading *r, uint32_t picture, int64_t by) {
    const uint32_t namer = r->namer[picture];
    sr_layout_file *file = &r->layout->files[picture];
    char image_name[48] = "an invalid image";
    if (by >= 0)
        (void)snprintf(image_name, sizeof image_name, "image id %lld", (long long)by);
    r->namer[picture] = namer == 0 ? NAMED_BEFORE : namer;
    if (namer != 0 && namer != NAMED_BEFORE)
        return spoil(r, (image *)r->images + namer - 1, "%s of %s also names this picture",
                     image_name, r->json->path);
    if (file->split < 0)
        return SR_OK;
    file->split = -1;
    return sr_source_refuse_for(r->source, r->source->files.items[picture].path,
                                "%s of %s also names this picture", image_name, r->json->path);
}

// Handles a repeated image id. The same picture again changes nothing; another picture makes both
// unusable, as annotations may belong to either.
static sr_status repeat_image(coco_reading *r, image *to, const sr_coco_image *from) {
    const char *rivals[2];
    uint32_t picture;
    const bool found = find_picture(r, from->file_name, &picture, rivals);
    if (found && to->picture == picture + 1)
        return SR_OK;
    SR_TRY(spoil(r, to, "image id %lld of %s is also used for %s", (long long)from->id,
                 r->json->path, from->file_name));
    if (found)
        SR_TRY(name_again(r, picture, from->id));
    return sr_source_refuse_for(r->source, from->file_name,
                                "image id %lld of %s is also used for another picture",
                                (long long)from->id, r->json->path);
}

static sr_status on_image(void *user, const sr_coco_image *from) {
    coco_reading *r = user;
    image *to;
    uint32_t picture;
    const char *rivals[2];
    SR_TRY(image_of(r, from->id, &to));
    if (is_known(to))
        return repeat_image(r, to, from);
    if (!find_picture(r, from->file_name, &picture, rivals)) {
        to->refused = true;
        if (rivals[0] != NULL)
            return sr_source_refuse_for(r->source, from->file_name,
                                        "image id %lld of %s, which may be %s or %s",
                                        (long long)from->id, r->json->path, rivals[0], rivals[1]);
        return sr_source_refuse_for(r->source, from->file_name,
                                    "image id %lld of %s, but there is no such picture",
                                    (long long)from->id, r->json->path);
    }
    if (r->namer[picture] != 0) {
        to->refused = true;
        SR_TRY(name_again(r, picture, from->id));
        return sr_source_refuse_for(r->source, from->file_name,
                                    "image id %lld of %s names a picture that another image names",
                                    (long long)from->id, r->json->path);
    }
    r->namer[picture] = 1 + (uint32_t)(to - (image *)r->images);
    to->picture = picture + 1;
    r->layout->files[picture].split = (int8_t)r->split;
    r->layout->files[picture].width = from->width;
    r->layout->files[picture].height = from->height;
    return SR_OK;
}

// "annotation id 7", or "an annotation" where it has no id.
static const char *annotation_name(int64_t id, char out[48]) {
    (void)snprintf(out, 48, id >= 0 ? "annotation id %lld" : "an annotation", (long long)id);
    return out;
}

static sr_status on_flaw(void *user, const sr_coco_flaw *flaw) {
    coco_reading *r = user;
    image *to;
    uint32_t picture;
    const char *rivals[2], *json = r->json->path;
    char name[48];
    if (flaw->annotation && flaw->has_image) {
        SR_TRY(image_of(r, flaw->image, &to));
        to->first = to->objects++ > 0 ? to->first : flaw->id;
        return spoil(r, to, "%s of image id %lld, %s:%s", annotation_name(flaw->id, name),
                     (long long)flaw->image, json, flaw->reason);
    }
    if (flaw->annotation)
        return sr_source_refuse_for(r->source, json, "%s, %s", annotation_name(flaw->id, name),
                                    flaw->reason);
    if (flaw->has_id) { // so that its annotations are not taken for those of an unknown image
        SR_TRY(image_of(r, flaw->id, &to));
        to->refused = to->refused || to->picture == 0;
    }
    if (flaw->file_name[0] == '\0')
        return sr_source_refuse_for(r->source, json, "%s", flaw->reason);
    if (find_picture(r, flaw->file_name, &picture, rivals))
        SR_TRY(name_again(r, picture, flaw->has_id ? flaw->id : -1));
    return sr_source_refuse_for(r->source, flaw->file_name, "%s:%s", json, flaw->reason);
}

static sr_status on_annotation(void *user, const sr_coco_annotation *from) {
    coco_reading *r = user;
    image *to;
    uint32_t number;
    SR_TRY(image_of(r, from->image, &to));
    SR_TRY(sr_id_table_get(&r->used, from->category, &number));
    if (r->first_label + number == r->label_count) {
        SR_TRY(sr_grow(&r->labels, &r->label_capacity, r->label_count + 1, sizeof(label),
                       "categories"));
        ((label *)r->labels)[r->label_count++] =
            (label){.file = r->file, .category = from->category};
    }
    sr_annotation annotation = from->object;
    annotation.label = (int64_t)(r->first_label + number);
    annotation.file = 1 + (uint32_t)(r->json - r->source->wanted.items);
    annotation.image = from->image;
    to->first = to->objects++ > 0 ? to->first : annotation.number;
    return sr_annotations_add(&r->layout->annotations, to->annotation, &annotation,
                              &to->annotation);
}

static sr_status on_category(void *user, int64_t id, const char *name) {
    coco_reading *r = user;
    uint32_t number;
    const size_t before = r->defined.count;
    SR_TRY(sr_id_table_get(&r->defined, id, &number));
    const char *copy = sr_arena_strdup(&r->layout->arena, name);
    if (copy == NULL)
        return SR_E_MEMORY;
    if (r->defined.count == before) {
        category *same = (category *)r->categories + r->first_category + number;
        same->rival = strcmp(same->name, name) == 0 ? same->rival : copy;
        return SR_OK;
    }
    SR_TRY(sr_grow(&r->categories, &r->category_capacity, r->category_count + 1, sizeof(category),
                   "categories"));
    ((category *)r->categories)[r->category_count++] =
        (category){.file = r->file, .id = id, .name = copy};
    return SR_OK;
}

// -- files -------------------------------------------------------------------------------------

// Assigns the annotations to the pictures.
static sr_status settle_images(coco_reading *r) {
    const image *images = r->images;
    char name[48];
    for (size_t i = 0; i < r->ids.count; i++) {
        const image *from = &images[i];
        const long long id = ((const int64_t *)r->ids.ids)[i];
        sr_layout_file *file = from->picture ? &r->layout->files[from->picture - 1] : NULL;
        if (file != NULL)
            r->namer[from->picture - 1] = NAMED_BEFORE;
        if (file != NULL && from->flaw == NULL) {
            file->annotation = from->annotation;
        } else if (file != NULL) {
            file->split = -1;
            SR_TRY(
                sr_source_refuse(r->source, r->source->files.items[file->source].path, from->flaw));
        } else if (!from->refused) {
            SR_TRY(sr_source_refuse_for(
                r->source, r->json->path,
                "%s is of image id %lld, which is not defined (%u annotation%s)",
                annotation_name(from->first, name), id, from->objects,
                from->objects == 1 ? " is" : "s are"));
        }
    }
    sr_id_table_clear(&r->ids);
    sr_id_table_clear(&r->used);
    sr_id_table_clear(&r->defined);
    r->first_label = r->label_count;
    r->first_category = r->category_count;
    return SR_OK;
}

static sr_status read_file(coco_reading *r, const sr_source_file *json) {
    r->json = json;
    r->split = split_of_json(r->source, json);
    const bool itself = full_path(r->source, json) == r->source->path;
    (void)snprintf(r->path, sizeof r->path, "%s%s%s", r->source->path,
                   itself                   ? ""
                   : r->source->folder >= 0 ? "/"
                                            : ": ",
                   itself ? "" : json->path);
    SR_TRY(sr_coco_read(&(sr_coco_reading){.path = r->path,
                                           .bytes = json->bytes,
                                           .user = r,
                                           .read = read_json,
                                           .image = on_image,
                                           .annotation = on_annotation,
                                           .category = on_category,
                                           .flaw = on_flaw}));
    r->source->read++;
    return settle_images(r);
}

static int by_file_and_id(const void *a, const void *b) {
    const category *x = a, *y = b;
    const int order = (x->id > y->id) - (x->id < y->id);
    return x->file != y->file ? x->file - y->file : order;
}

static bool is_given(const sr_layout *layout) {
    return layout->names_given || layout->options.class_map != NULL;
}

// Adds the class of pixels without an object, as the first, to those of the categories.
static sr_status add_background(coco_reading *r, sr_name_list *classes) {
    uint32_t number = 0;
    const size_t bytes = strlen(BACKGROUND);
    if (r->layout->schema != SR_SCHEMA_OUTLINES || is_given(r->layout))
        return SR_OK;
    SR_TRY(sr_name_table_get(&r->names, &r->layout->arena, BACKGROUND, bytes, &number));
    r->class_of[number] = 0;
    return sr_name_list_add(classes, &r->layout->arena, BACKGROUND, bytes);
}

// Finds the class of pixels without an object.
static sr_status settle_background(sr_layout *layout) {
    if (layout->schema != SR_SCHEMA_OUTLINES)
        return SR_OK;
    const int named = sr_layout_find_class(layout, BACKGROUND, strlen(BACKGROUND));
    const int background = layout->options.class_map != NULL ? layout->class_map.ids[0] : named;
    layout->background = background >= 0 ? (uint8_t)background : SR_MASK_VOID;
    return layout->class_count <= SR_MASK_VOID
               ? SR_OK
               : SR_FAIL(SR_E_LIMIT, "%d classes; masks have %d at most", layout->class_count,
                         SR_MASK_VOID);
}

// Classes are the categories of the files of the first split that exists.
static sr_status settle_classes(coco_reading *r, const sr_source_file *const *files, size_t count) {
    sr_layout *layout = r->layout;
    category *categories = r->categories;
    sr_name_list classes = {0};
    uint32_t number;
    int first = SR_SPLIT_COUNT;
    for (size_t i = 0; i < count; i++)
        first =
            split_of_json(r->source, files[i]) < first ? split_of_json(r->source, files[i]) : first;
    if (r->category_count > 0)
        qsort(categories, r->category_count, sizeof *categories, by_file_and_id);
    r->class_of = sr_alloc_array((size_t)layout->class_count + r->category_count + 1,
                                 sizeof *r->class_of, "classes");
    if (r->class_of == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < layout->class_count; i++) { // names of the user, some of which may be equal
        const size_t before = r->names.count;
        SR_TRY(sr_name_table_get(&r->names, &layout->arena, layout->classes[i],
                                 strlen(layout->classes[i]), &number));
        if (r->names.count > before)
            r->class_of[number] = i;
    }
    sr_status status = add_background(r, &classes);
    for (size_t i = 0; i < r->category_count && status == SR_OK && !is_given(layout); i++) {
        const size_t before = r->names.count, bytes = strlen(categories[i].name);
        if (split_of_json(r->source, files[categories[i].file]) != first)
            continue;
        status = sr_name_table_get(&r->names, &layout->arena, categories[i].name, bytes, &number);
        if (status != SR_OK || r->names.count == before)
            continue;
        r->class_of[number] = (int)classes.count;
        status = sr_name_list_add(&classes, &layout->arena, categories[i].name, bytes);
    }
    r->class_names = r->names.count;
    if (!is_given(layout)) {
        layout->classes = classes.items;
        layout->class_count = (int)classes.count;
    }
    return status == SR_OK ? settle_background(layout) : status;
}

// The name of a label, and its class or -1.
static sr_status resolve(coco_reading *r, const label *of, const char **name, int *class_number) {
    char text[300];
    uint32_t number;
    const category wanted = {.file = of->file, .id = of->category};
    const category *found =
        r->category_count == 0
            ? NULL
            : bsearch(&wanted, r->categories, r->category_count, sizeof wanted, by_file_and_id);
    *class_number = -1;
    if (found != NULL && found->rival == NULL) {
        *name = found->name;
        SR_TRY(sr_name_table_get(&r->names, &r->layout->arena, *name, strlen(*name), &number));
        *class_number = number < r->class_names ? r->class_of[number] : -1;
        return SR_OK;
    }
    if (found != NULL)
        (void)snprintf(text, sizeof text, "category %lld, which is both %.100s and %.100s",
                       (long long)of->category, found->name, found->rival);
    else
        (void)snprintf(text, sizeof text, "category %lld, not defined", (long long)of->category);
    *name = sr_arena_strdup(&r->layout->arena, text);
    return *name != NULL ? SR_OK : SR_E_MEMORY;
}

// The class that the user's map gives a category.
static int mapped_class(const sr_layout *layout, int64_t id, int found) {
    const sr_class_map *map = &layout->class_map;
    if (layout->options.class_map == NULL)
        return found;
    return id >= 0 && id < 256 ? map->ids[id] : map->other;
}

// Passes the meanings of the labels to the layout.
static sr_status settle_labels(coco_reading *r) {
    for (size_t i = 0; i < r->label_count; i++) {
        const char *name;
        int class_number;
        const label *of = (const label *)r->labels + i;
        SR_TRY(resolve(r, of, &name, &class_number));
        class_number = mapped_class(r->layout, of->category, class_number);
        SR_TRY(sr_layout_map_label(r->layout, (int64_t)i, class_number, name));
    }
    return SR_OK;
}

static sr_status read_all(coco_reading *r) {
    const sr_source_file *files[PROBED];
    size_t count;
    SR_TRY(find_files(r->source, files, &count));
    qsort(files, count, sizeof *files, by_json_path);
    SR_TRY(sr_layout_begin(r->layout, r->source));
    SR_TRY(sr_picture_index_make(r->source, &r->index));
    r->namer = sr_alloc_array(r->layout->count, sizeof *r->namer, "pictures");
    if (r->namer == NULL)
        return SR_E_MEMORY;
    tell_doubts(r->source, files, count);
    for (size_t i = 0; i < count; i++) {
        r->file = (int)i;
        SR_TRY(read_file(r, files[i]));
    }
    for (size_t i = 0; i < r->layout->count; i++)
        r->layout->unlabelled += r->namer[i] == 0;
    SR_TRY(settle_classes(r, files, count));
    return settle_labels(r);
}

static sr_status lay_out_as(sr_source *source, sr_schema schema, sr_layout *out) {
    coco_reading r = {.source = source, .layout = out};
    out->schema = schema;
    sr_status status = read_all(&r);
    sr_picture_index_release(&r.index);
    sr_id_table_release(&r.ids);
    sr_id_table_release(&r.used);
    sr_id_table_release(&r.defined);
    sr_name_table_release(&r.names);
    sr_free(r.class_of);
    sr_free(r.labels);
    sr_free(r.images);
    sr_free(r.categories);
    sr_free(r.namer);
    return status;
}

static sr_status lay_out_objects(sr_source *source, sr_layout *out) {
    return lay_out_as(source, SR_SCHEMA_OBJECTS, out);
}

static sr_status lay_out_masks(sr_source *source, sr_layout *out) {
    SR_TRY(sr_layout_take_class_map(out));
    return lay_out_as(source, SR_SCHEMA_OUTLINES, out);
}

// The same source may be either, so masks are packed only if the user chooses them.
static sr_status recognises_masks(sr_source *source, sr_recognition *out) {
    SR_TRY(recognises(source, out));
    if (out->certainty != SR_FORMAT_NO)
        out->certainty = SR_FORMAT_POSSIBLE;
    return SR_OK;
}

extern const sr_format sr_format_coco, sr_format_coco_masks;
const sr_format sr_format_coco = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "coco",
    .help = "COCO's JSON of boxes and outlines",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out_objects,
};
const sr_format sr_format_coco_masks = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "coco-masks",
    .help = "COCO's outlines, drawn as masks",
    .wants = wants,
    .recognises = recognises_masks,
    .lay_out = lay_out_masks,
};
