// SPDX-License-Identifier: Apache-2.0
// Format: COCO's object annotations, JSON files beside folders of pictures.
//
// Every JSON file with COCO's lists counts, but where some are called instances_... only those, as
// the others (captions, key points) speak of the same pictures. A file's split is told by a word of
// its name or, failing that, of its folders that begins with train, val or test; else it is train.
// file_name is the end of a path in the source, of several that which lies in a folder called as
// the end of the JSON's name (train2017), in its split, or next to it.
//
// Classes are the categories of train in the order of their ids; other files are matched by name.
// Boxes x, y, width, height become corners; iscrowd is kept and makes an object difficult too.
// Polygons are kept as they are, run lengths as COCO's compressed string.
//
// Refused by name: an image without a picture, of two pictures or named twice, and one with an
// object of a category that is not defined or that train does not have. Left out and counted:
// pictures that no file names, annotations of images that are not defined. A broken file ends the
// whole with its line and column.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/coco_json.h"
#include "dataio/format.h"
#include "dataio/id_table.h"
#include "dataio/picture_index.h"

#define PROBED 32 // of the largest JSON files

// An image of the file that is read.
typedef struct image {
    uint64_t note;    // its last annotation
    uint32_t picture; // 1 + index into the source's files; 0: not defined yet
    uint32_t objects;
    bool refused;
} image;

typedef struct category {
    int file; // that defines it
    int64_t id;
    const char *name;
} category;

// What the label of a note stands for.
typedef struct label {
    int file;
    int64_t category;
} label;

typedef struct reading {
    sr_source *source;
    sr_layout *layout;
    sr_picture_index index;
    const sr_source_file *paper; // the file that is read
    int split, file;             // its split; which one it is
    sr_id_table ids;             // of its images
    void *images;                // image
    size_t image_capacity;
    void *categories; // category
    size_t category_count, category_capacity;
    sr_id_table used; // category ids that the file's annotations have
    void *labels;     // label, of notes: those of a file behind those of the one before
    size_t label_count, label_capacity, first_label;
    bool *named;     // [files]: some image is this picture
    char path[4096]; // for messages
} reading;

// -- recognition -------------------------------------------------------------------------------

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    (void)path, (void)bytes;
    size_t at = head_bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < head_bytes && strchr(" \t\r\n", head[at]) != NULL && head[at] != '\0')
        at++;
    return at < head_bytes && head[at] == '{';
}

static sr_status read_paper(void *user, uint64_t offset, void *out, size_t bytes) {
    const reading *r = user;
    return sr_source_read_part(r->source, r->paper, offset, out, bytes);
}

static sr_coco_verdict probe(sr_source *source, const sr_source_file *paper) {
    uint8_t head[64];
    const size_t n = paper->bytes < sizeof head ? (size_t)paper->bytes : sizeof head;
    reading r = {.source = source, .paper = paper};
    if (sr_source_read_part(source, paper, 0, head, n) != SR_OK ||
        !wants(paper->path, head, n, paper->bytes))
        return SR_COCO_NO;
    return sr_coco_probe(&(sr_coco_reading){
        .path = paper->path, .bytes = paper->bytes, .user = &r, .read = read_paper});
}

static int by_paper_path(const void *a, const void *b) {
    const sr_source_file *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

// The files that are read. Only a few of the largest are looked into, as a source may have a JSON
// file for each picture.
static sr_status find_papers(sr_source *source, const sr_source_file **papers, size_t *out) {
    const sr_source_file *largest[PROBED];
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < source->papers.count; i++) {
        const sr_source_file *paper = &source->papers.items[i];
        size_t at = count;
        while (at > 0 && largest[at - 1]->bytes < paper->bytes)
            at--;
        if (at == PROBED)
            continue;
        count += count < PROBED;
        memmove(largest + at + 1, largest + at, (count - at - 1) * sizeof *largest);
        largest[at] = paper;
    }
    bool instances = false;
    for (size_t i = 0; i < count; i++)
        if (probe(source, largest[i]) != SR_COCO_NO) {
            papers[kept++] = largest[i];
            instances = instances || strncmp(sr_path_name(largest[i]->path), "instances_", 10) == 0;
        }
    *out = 0; // in place: never ahead of i
    for (size_t i = 0; i < kept; i++)
        if (!instances || strncmp(sr_path_name(papers[i]->path), "instances_", 10) == 0)
            papers[(*out)++] = papers[i];
    return SR_OK;
}

static sr_status recognises(sr_source *source, bool *fits) {
    const sr_source_file *papers[PROBED];
    size_t count;
    SR_TRY(find_papers(source, papers, &count));
    *fits = count > 0;
    return SR_OK;
}

// -- places ------------------------------------------------------------------------------------

// The path of a JSON that was named itself, which knows more than that below its folder.
static const char *full_path(const sr_source *source, const sr_source_file *paper) {
    const bool itself = source->folder >= 0 && source->store_count > 0 && paper->in < 0;
    return itself ? source->path : paper->path;
}

static int split_of_paper(const sr_source *source, const sr_source_file *paper) {
    const char *path = full_path(source, paper), *name = sr_path_name(path);
    int split = sr_split_word(name, strlen(name));
    if (split < 0)
        split = sr_path_split_word(path);
    return split < 0 ? SR_SPLIT_TRAIN : split;
}

// What follows the last '_' of the JSON's name, as "train2017", as a folder before the name.
static void join_tail(const char *paper, const char *file_name, char *out, size_t capacity) {
    const char *name = sr_path_name(paper), *tail = strrchr(name, '_');
    tail = tail ? tail + 1 : name;
    (void)snprintf(out, capacity, "%.*s/%s", (int)strcspn(tail, "."), tail, file_name);
}

static bool find_picture(reading *r, const char *file_name, uint32_t *out, const char *rivals[2]) {
    char longer[4200];
    const char *name = sr_path_name(file_name);
    sr_picture_wanted wanted = {.stem = name,
                                .stem_bytes = sr_path_stem_bytes(name),
                                .near = r->paper->path,
                                .split = r->split};
    join_tail(r->paper->path, file_name, longer, sizeof longer);
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

// -- events ------------------------------------------------------------------------------------

static sr_status image_of(reading *r, int64_t id, image **out) {
    uint32_t number;
    const size_t before = r->ids.count;
    SR_TRY(sr_id_table_get(&r->ids, id, &number));
    SR_TRY(sr_grow(&r->images, &r->image_capacity, r->ids.count, sizeof(image), "images"));
    *out = (image *)r->images + number;
    if (r->ids.count > before)
        **out = (image){0};
    return SR_OK;
}

static sr_status on_image(void *user, const sr_coco_image *from) {
    reading *r = user;
    image *to;
    uint32_t picture;
    const char *rivals[2];
    SR_TRY(image_of(r, from->id, &to));
    if (to->picture != 0 || to->refused)
        return SR_FAIL(SR_E_DATA, "image id %lld stands twice", (long long)from->id);
    if (!find_picture(r, from->file_name, &picture, rivals)) {
        to->refused = true;
        if (rivals[0] != NULL)
            return sr_source_refuse_for(r->source, from->file_name,
                                        "an image of %s that may be %s or %s", r->paper->path,
                                        rivals[0], rivals[1]);
        return sr_source_refuse_for(r->source, from->file_name,
                                    "an image of %s, but there is no such picture", r->paper->path);
    }
    if (r->named[picture]) {
        to->refused = true;
        return sr_source_refuse_for(r->source, from->file_name,
                                    "image id %lld of %s is a picture that was named before",
                                    (long long)from->id, r->paper->path);
    }
    r->named[picture] = true;
    to->picture = picture + 1;
    r->layout->files[picture].split = (int8_t)r->split;
    r->layout->files[picture].width = from->width;
    r->layout->files[picture].height = from->height;
    return SR_OK;
}

static sr_status on_annotation(void *user, const sr_coco_annotation *from) {
    reading *r = user;
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
    sr_note note = from->note;
    note.label = (int64_t)(r->first_label + number);
    to->objects++;
    return sr_notes_add(&r->layout->notes, to->note, &note, &to->note);
}

static sr_status on_category(void *user, int64_t id, const char *name) {
    reading *r = user;
    const category *categories = r->categories;
    for (size_t i = 0; i < r->category_count; i++)
        if (categories[i].file == r->file && categories[i].id == id)
            return SR_FAIL(SR_E_DATA, "category id %lld stands twice", (long long)id);
    SR_TRY(sr_grow(&r->categories, &r->category_capacity, r->category_count + 1, sizeof(category),
                   "categories"));
    const char *copy = sr_arena_strdup(&r->layout->arena, name);
    if (copy == NULL)
        return SR_E_MEMORY;
    ((category *)r->categories)[r->category_count++] =
        (category){.file = r->file, .id = id, .name = copy};
    return SR_OK;
}

// -- files -------------------------------------------------------------------------------------

// Gives the pictures their annotations.
static void settle_images(reading *r) {
    const image *images = r->images;
    for (size_t i = 0; i < r->ids.count; i++) {
        if (images[i].picture != 0)
            r->layout->files[images[i].picture - 1].note = images[i].note;
        else if (!images[i].refused)
            r->layout->strays += images[i].objects;
    }
    sr_id_table_clear(&r->ids);
    sr_id_table_clear(&r->used);
    r->first_label = r->label_count;
}

static sr_status read_file(reading *r, const sr_source_file *paper) {
    r->paper = paper;
    r->split = split_of_paper(r->source, paper);
    const bool itself = full_path(r->source, paper) == r->source->path;
    (void)snprintf(r->path, sizeof r->path, "%s%s%s", r->source->path,
                   itself                   ? ""
                   : r->source->folder >= 0 ? "/"
                                            : ": ",
                   itself ? "" : paper->path);
    SR_TRY(sr_coco_read(&(sr_coco_reading){.path = r->path,
                                           .bytes = paper->bytes,
                                           .user = r,
                                           .read = read_paper,
                                           .image = on_image,
                                           .annotation = on_annotation,
                                           .category = on_category}));
    settle_images(r);
    r->source->read++;
    return SR_OK;
}

static int by_file_and_id(const void *a, const void *b) {
    const category *x = a, *y = b;
    const int order = (x->id > y->id) - (x->id < y->id);
    return x->file != y->file ? x->file - y->file : order;
}

static bool has_class(const sr_name_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(((const char **)list->items)[i], name) == 0)
            return true;
    return false;
}

// Classes are the categories of the files of the first split that there is.
static sr_status settle_classes(reading *r, const sr_source_file *const *papers, size_t count) {
    sr_layout *layout = r->layout;
    category *categories = r->categories;
    sr_name_list classes = {0};
    int first = SR_SPLIT_COUNT;
    for (size_t i = 0; i < count; i++)
        first = split_of_paper(r->source, papers[i]) < first ? split_of_paper(r->source, papers[i])
                                                             : first;
    if (r->category_count > 0)
        qsort(categories, r->category_count, sizeof *categories, by_file_and_id);
    sr_status status = SR_OK;
    for (size_t i = 0; i < r->category_count && status == SR_OK && !layout->names_given; i++)
        if (split_of_paper(r->source, papers[categories[i].file]) == first &&
            !has_class(&classes, categories[i].name))
            status = sr_name_list_add(&classes, &layout->arena, categories[i].name,
                                      strlen(categories[i].name));
    if (!layout->names_given) {
        layout->classes = classes.items;
        layout->class_count = (int)classes.count;
    }
    return status;
}

// What the notes' labels mean.
static sr_status settle_labels(reading *r) {
    const category *categories = r->categories;
    for (size_t i = 0; i < r->label_count; i++) {
        const label *of = (const label *)r->labels + i;
        const char *name = NULL;
        for (size_t c = 0; c < r->category_count && name == NULL; c++)
            if (categories[c].file == of->file && categories[c].id == of->category)
                name = categories[c].name;
        int class_number = -1;
        char unknown[64];
        (void)snprintf(unknown, sizeof unknown, "category %lld, not defined",
                       (long long)of->category);
        if (name != NULL)
            class_number = sr_layout_find_class(r->layout, name, strlen(name));
        else if ((name = sr_arena_strdup(&r->layout->arena, unknown)) == NULL)
            return SR_E_MEMORY;
        SR_TRY(sr_layout_map_label(r->layout, (int64_t)i, class_number, name));
    }
    return SR_OK;
}

static sr_status read_all(reading *r) {
    const sr_source_file *papers[PROBED];
    size_t count;
    SR_TRY(find_papers(r->source, papers, &count));
    qsort(papers, count, sizeof *papers, by_paper_path);
    SR_TRY(sr_layout_begin(r->layout, r->source));
    SR_TRY(sr_picture_index_make(r->source, &r->index));
    r->named = sr_alloc_array(r->layout->count, sizeof *r->named, "pictures");
    if (r->named == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < count; i++) {
        r->file = (int)i;
        SR_TRY(read_file(r, papers[i]));
    }
    for (size_t i = 0; i < r->layout->count; i++)
        r->layout->unlabelled += !r->named[i];
    SR_TRY(settle_classes(r, papers, count));
    return settle_labels(r);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    reading r = {.source = source, .layout = out};
    out->schema = SR_SCHEMA_OBJECTS;
    sr_status status = read_all(&r);
    sr_picture_index_release(&r.index);
    sr_id_table_release(&r.ids);
    sr_id_table_release(&r.used);
    sr_free(r.labels);
    sr_free(r.images);
    sr_free(r.categories);
    sr_free(r.named);
    return status;
}

extern const sr_format sr_format_coco;
const sr_format sr_format_coco = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "coco",
    .help = "COCO's JSON of boxes and outlines",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
