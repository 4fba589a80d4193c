// SPDX-License-Identifier: Apache-2.0
// Format: YOLO as Ultralytics reads it, pictures below folders named images and a text file of
// boxes or outlines for each, at the same path below labels: images/train/1.jpg and
// labels/train/1.txt, or train/images/1.jpg and train/labels/1.txt. Where that file is missing, and
// for pictures elsewhere, the text file beside the picture is used, as labelImg and Darknet write
// it.
//
// data.yaml states the classes (names: a list or a map, or only nc) and the pictures of train, val
// and test: folders, lists of pictures, or several of these. Its paths are resolved below its
// folder, then below the source, if necessary without the leading folders of 'path' or of an
// absolute path, which are those of the data set's original location. Without data.yaml,
// classes.txt names the classes, one per line, or they are numbers; without paths of splits,
// folders are the splits (folder_splits.h), else everything is train.
//
// A picture without a label file is background. A split without any label file is left out and
// counted, as are pictures that no split names and, where labels are below folders named labels and
// no paths are given, those that are not below one named images, such as masks. Coordinates are
// fractions of the upright picture's width and height. Key points of pose data sets are not kept.
//
// Refused by name: a picture in several splits, or with an invalid label line (file and line are
// reported); a label file below labels without a picture; a path in data.yaml or a line of a list
// without a picture. Source: https://docs.ultralytics.com/datasets/detect/;
// ultralytics/data/utils.py (img2label_paths, verify_image_label), 8.3.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"
#include "dataio/formats/yolo_text.h"
#include "dataio/import/path_text.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"

#define LIST_MAX_BYTES ((uint64_t)256 << 20)
#define PROBED 8
#define MAX_PATH SR_PATH_TEXT_MAX
#define UNNAMED (-1) // in no split; SR_SPLIT_COUNT: in several

typedef struct yolo_reading {
    sr_source *source;
    sr_layout *layout;
    const sr_source_file *yaml, *classes; // data.yaml, classes.txt, or NULL
    sr_yolo_data data;
    bool has_paths;
    int8_t *splits; // [files]
    bool *used;     // [wanted]: a picture's labels
    bool labelled[SR_SPLIT_COUNT];
    bool in_folders; // label files are below folders named labels
    int32_t most;    // largest class number seen
    sr_yolo_object object;
    void *text;
    size_t capacity;
} yolo_reading;

// -- recognition -------------------------------------------------------------------------------

static bool is_yaml(const char *path) {
    return sr_text_ends_with(path, ".yaml") || sr_text_ends_with(path, ".yml");
}

static bool is_classes(const char *path) {
    return strcmp(sr_path_name(path), "classes.txt") == 0;
}

// The last folder of this name in the path, or NULL.
static const char *find_folder(const char *path, const char *name) {
    const size_t n = strlen(name);
    const char *found = NULL, *folder;
    size_t bytes;
    for (int level = 0; sr_path_folder_at(path, level, &folder, &bytes); level++)
        if (bytes == n && memcmp(folder, name, n) == 0)
            found = folder;
    return found;
}

// Whether the file is a text below a folder named labels.
static bool is_label_file(const char *path) {
    return sr_text_ends_with(path, ".txt") && find_folder(path, "labels") != NULL &&
           !is_classes(path);
}

// The length of a byte order mark at the beginning of a text, as Windows programs write it.
static size_t mark_bytes(const void *text, size_t bytes) {
    return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

// Whether a text begins like labels, with two numbers: label files may be beside pictures.
static bool begins_as_labels(const uint8_t *head, size_t bytes) {
    size_t at = mark_bytes(head, bytes), first = at, begin;
    while (at < bytes && head[at] >= '0' && head[at] <= '9')
        at++;
    begin = at;
    while (at < bytes && (head[at] == ' ' || head[at] == '\t'))
        at++;
    return begin > first && at > begin && at < bytes && head[at] != '\0' &&
           strchr("0123456789.+-", head[at]) != NULL;
}

static bool is_list(const char *path) {
    const char *name = sr_path_name(path);
    return sr_text_ends_with(path, ".txt") && !is_label_file(path) &&
           sr_split_word(name, strlen(name)) >= 0;
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    if (is_label_file(path)) // also one that is too long: its picture is not background
        return true;
    if (sr_text_ends_with(path, ".txt") && begins_as_labels(head, head_bytes))
        return true;
    if (is_list(path))
        return bytes <= LIST_MAX_BYTES;
    return (is_yaml(path) || is_classes(path)) && bytes <= SR_YOLO_MAX_BYTES;
}

// Whether the label file is empty or its first line is valid.
static bool is_valid(const sr_source *source, const sr_source_file *file) {
    char head[SR_SOURCE_HEAD + 1] = {0};
    sr_yolo_object object = {0};
    const size_t bytes = file->bytes < SR_SOURCE_HEAD ? (size_t)file->bytes : SR_SOURCE_HEAD;
    if (sr_source_read_part(source, file, 0, head, bytes) != SR_OK)
        return false;
    const size_t mark = mark_bytes(head, bytes), line = strcspn(head, "\n");
    const bool whole = line < bytes || bytes == file->bytes; // the line of an outline may be longer
    const sr_status status = sr_yolo_line_parse(head + mark, line - mark, false, &object);
    sr_free(object.points);
    return status == SR_OK || (!whole && object.point_count > 4) || bytes == 0;
}

// Finds data.yaml and classes.txt.
static sr_status find_tables(yolo_reading *r) {
    const sr_file_list *wanted = &r->source->wanted;
    const sr_source_file *others = NULL;
    for (size_t i = 0; i < wanted->count; i++) {
        const sr_source_file *file = &wanted->items[i];
        if (is_classes(file->path) && r->classes == NULL)
            r->classes = file;
        if (!is_yaml(file->path) || file->bytes > SR_YOLO_MAX_BYTES)
            continue;
        SR_TRY(sr_source_read(r->source, file, &r->text, &r->capacity));
        if (!sr_yolo_data_is(r->text))
            continue;
        const bool named = strcmp(sr_path_name(file->path), "data.yaml") == 0;
        if (r->yaml != NULL && strcmp(sr_path_name(r->yaml->path), "data.yaml") == 0)
            others = named ? file : others;
        else if (r->yaml != NULL && !named)
            others = file;
        else
            r->yaml = file, others = NULL;
    }
    if (others == NULL)
        return SR_OK;
    return SR_FAIL(SR_E_DATA,
                   "%s: %s and %s both describe the pictures; name the folder that one of "
                   "them describes, or keep only one",
                   r->source->path, r->yaml->path, others->path);
}

// Appends the path of a picture without its extension, from 'rest' on, and ".txt".
static bool finish_path(const char *path, const char *rest, int length, char out[MAX_PATH]) {
    const int stem = (int)(sr_path_stem_bytes(path) - (size_t)(rest - path));
    return length >= 0 && length < MAX_PATH &&
           snprintf(out + length, (size_t)(MAX_PATH - length), "%.*s.txt", stem, rest) <
               MAX_PATH - length;
}

// The path of a picture's label file: below labels or, with 'beside' or without a folder named
// images, beside it.
static bool label_path(const char *path, bool beside, char out[MAX_PATH]) {
    const char *images = beside ? NULL : find_folder(path, "images");
    if (images == NULL)
        return finish_path(path, path, 0, out);
    const int n = snprintf(out, MAX_PATH, "%.*slabels", (int)(images - path), path);
    return finish_path(path, images + strlen("images"), n, out);
}

// The label file of a picture, or NULL.
static const sr_source_file *find_labels(const sr_source *source, const char *picture) {
    char path[MAX_PATH];
    for (int beside = 0; beside < 2; beside++) {
        if (!label_path(picture, beside == 1, path))
            continue;
        const sr_source_file *found = sr_file_list_find(&source->wanted, path);
        if (found == NULL) { // or from a Windows camera
            memcpy(path + strlen(path) - 4, ".TXT", 4);
            found = sr_file_list_find(&source->wanted, path);
        }
        if (found != NULL)
            return found;
    }
    return NULL;
}

// Counts pictures with labels beside them, up to a few.
static size_t count_labelled(const sr_source *source) {
    size_t found = 0;
    for (size_t i = 0; i < source->files.count && found < PROBED; i++) {
        const sr_source_file *labels = find_labels(source, source->files.items[i].path);
        found += labels != NULL && is_valid(source, labels);
    }
    return found;
}

// Whether there are label files and a file of classes; or valid label files without other
// annotations. Labels beside pictures are not told from other texts there by classes.txt alone.
static sr_status recognises(sr_source *source, sr_recognition *out) {
    size_t found = 0, valid = 0, others = 0;
    yolo_reading r = {.source = source};
    bool described = false, beside = false;
    const char *label = NULL;
    for (size_t i = 0; i < source->wanted.count; i++) {
        const sr_source_file *file = &source->wanted.items[i];
        described = described || is_yaml(file->path) || is_classes(file->path);
        others += !is_yaml(file->path) && !sr_text_ends_with(file->path, ".txt");
        if (is_label_file(file->path) && found++ < PROBED) {
            valid += is_valid(source, file);
            label = file->path;
        }
    }
    if (described && found == 0) {
        found = valid = count_labelled(source);
        beside = true;
    }
    if (found == 0 || source->files.count == 0)
        return SR_OK;
    if (described) {
        const sr_status status = find_tables(&r);
        sr_free(r.text);
        if (status != SR_OK && valid == 0)
            return SR_OK;
        SR_TRY(status);
    }
    const sr_source_file *table = r.yaml != NULL ? r.yaml : r.classes;
    if (table == NULL && (valid == 0 || others > 0))
        return SR_OK;
    out->certainty = beside && r.yaml == NULL ? SR_FORMAT_BESIDE : SR_FORMAT_YES;
    (void)snprintf(out->why, sizeof out->why, "%s", table ? table->path : label);
    return SR_OK;
}

// -- paths -------------------------------------------------------------------------------------

// The folder of a file, without its last '/'.
static void folder_of(const sr_source_file *file, char out[MAX_PATH]) {
    const char *name = sr_path_name(file->path);
    const size_t n = name == file->path ? 0 : (size_t)(name - file->path) - 1;
    (void)snprintf(out, MAX_PATH, "%.*s", (int)n, file->path);
}

// What a path refers to: pictures first..first+count, or a list.
typedef struct target {
    size_t first, count;
    const sr_source_file *list;
} target;

static bool look_up(const sr_source *source, const char *path, target *out) {
    const sr_source_file *picture = sr_file_list_find(&source->files, path);
    *out = (target){0};
    if (picture != NULL)
        *out = (target){.first = (size_t)(picture - source->files.items), .count = 1};
    else if ((out->list = sr_file_list_find(&source->wanted, path)) == NULL)
        out->count = sr_pictures_below(source, path, &out->first);
    return out->count > 0 || out->list != NULL;
}

// Looks for 'path', of which the first 'optional' bytes may no longer exist, below 'near' and then
// below the source.
static bool find_target(const sr_source *source, const char *near, const char *path,
                        size_t optional, target *out) {
    char full[MAX_PATH];
    for (const char *at = path;;) {
        for (int where = 0; where < (*near != '\0' ? 2 : 1); where++)
            if (sr_path_below(where == 0 ? near : "", at, full) &&
                look_up(source, sr_path_inside(full), out))
                return true;
        const char *slash = strpbrk(at, "/\\");
        if (slash == NULL || (size_t)(slash + 1 - path) > optional)
            return false;
        at = slash + 1;
    }
}

static bool find_entry(const yolo_reading *r, const char *entry, target *out) {
    char near[MAX_PATH], whole[MAX_PATH];
    const char *root = r->data.root.text ? r->data.root.text : "";
    const bool absolute = *entry == '/' || (*entry != '\0' && entry[1] == ':');
    folder_of(r->yaml, near);
    if (absolute)
        return find_target(r->source, near, entry, strlen(entry), out);
    // As it is written, with all ".."; then without the path to the data set.
    char data[MAX_PATH];
    if (*root != '/' && sr_path_below(near, root, data) && sr_path_below(data, entry, whole) &&
        look_up(r->source, sr_path_inside(whole), out))
        return true;
    while (strncmp(entry, "../", 3) == 0 || strncmp(entry, "./", 2) == 0)
        entry += *(entry + 1) == '.' ? 3 : 2;
    if (snprintf(whole, sizeof whole, "%s/%s", root, entry) >= (int)sizeof whole)
        return false;
    return find_target(r->source, near, whole, strlen(root) + 1, out);
}

// -- splits ------------------------------------------------------------------------------------

static void name_pictures(yolo_reading *r, const target *t, int split) {
    for (size_t i = t->first; i < t->first + t->count; i++)
        r->splits[i] =
            (int8_t)(r->splits[i] == UNNAMED || r->splits[i] == split ? split : SR_SPLIT_COUNT);
}

// One picture per line; paths are relative to the folder of the list.
static sr_status read_list(yolo_reading *r, const sr_source_file *list, int split) {
    char near[MAX_PATH];
    int line = 0;
    folder_of(list, near);
    if (list->bytes > LIST_MAX_BYTES)
        return sr_source_refuse(r->source, list->path, "a list of more than 256 MiB");
    SR_TRY(sr_source_read(r->source, list, &r->text, &r->capacity));
    for (char *at = r->text; *at != '\0';) {
        size_t n = strcspn(at, "\n"), length = n;
        target t;
        char *next = at + n + (at[n] == '\n');
        line++;
        while (length > 0 && strchr(" \t\r", at[length - 1]) != NULL)
            length--;
        at[length] = '\0';
        if (length > 0 && find_target(r->source, near, at, length, &t) && t.count == 1)
            name_pictures(r, &t, split);
        else if (length > 0)
            SR_TRY(sr_source_refuse_for(r->source, list->path,
                                        "line %d: there is no picture %.300s", line, at));
        at = next;
    }
    r->source->read++;
    return SR_OK;
}

static sr_status read_path(yolo_reading *r, const sr_yolo_value *path, int split) {
    target t;
    r->has_paths = true;
    if (!find_entry(r, path->text, &t))
        return sr_source_refuse_for(r->source, r->yaml->path,
                                    "line %d: %s: no picture and no list of pictures at %.300s",
                                    path->line, sr_split_names[split], path->text);
    if (t.list != NULL)
        return read_list(r, t.list, split);
    name_pictures(r, &t, split);
    return SR_OK;
}

static sr_status read_paths(yolo_reading *r) {
    for (int split = 0; split < SR_SPLIT_COUNT; split++)
        for (size_t i = 0; i < r->data.path_count[split]; i++)
            SR_TRY(read_path(r, (const sr_yolo_value *)r->data.paths[split] + i, split));
    return SR_OK;
}

// Without paths in data.yaml: folders, or everything is train.
static sr_status read_folders(yolo_reading *r) {
    sr_folder_splits splits;
    SR_TRY(sr_folder_splits_find(r->source, &splits));
    for (size_t i = 0; i < r->layout->count; i++) {
        const sr_source_file *file = &r->source->files.items[i];
        r->splits[i] = (int8_t)(splits.any ? sr_folder_splits_of(&splits, file) : SR_SPLIT_TRAIN);
        if (r->splits[i] < 0)
            SR_TRY(sr_source_refuse(r->source, file->path, "is outside train, val and test"));
    }
    return SR_OK;
}

// -- labels ------------------------------------------------------------------------------------

static sr_status add_object(yolo_reading *r, sr_layout_file *file) {
    const sr_yolo_object *o = &r->object;
    const uint32_t size = (uint32_t)o->point_count;
    const sr_annotation annotation = {.label = o->label,
                                      .box = {o->box[0], o->box[1], o->box[2], o->box[3]},
                                      .polygon_count = size > 0,
                                      .polygon_sizes = &size,
                                      .points = o->points,
                                      .point_count = size};
    r->most = o->label > r->most ? o->label : r->most;
    return sr_annotations_add(&r->layout->annotations, file->annotation, &annotation,
                              &file->annotation);
}

static sr_status take_line(yolo_reading *r, const char *line, size_t bytes, sr_layout_file *file) {
    const int count = r->layout->names_given ? r->layout->class_count : r->data.class_count;
    SR_TRY(sr_yolo_line_parse(line, bytes, r->data.key_points, &r->object));
    if (count > 0 && r->object.label >= count)
        return SR_FAIL(SR_E_DATA, "class %d, but there are %d, numbered from 0", r->object.label,
                       count);
    return add_object(r, file);
}

static bool is_blank(const char *line, size_t bytes) {
    while (bytes > 0 && strchr(" \t\r", line[bytes - 1]) != NULL)
        bytes--;
    return bytes == 0;
}

static sr_status read_lines(yolo_reading *r, const sr_source_file *labels, sr_layout_file *file) {
    if (labels->bytes > SR_YOLO_MAX_BYTES)
        return SR_FAIL(SR_E_DATA, "%s: labels of more than 16 MiB", labels->path);
    SR_TRY(sr_source_read(r->source, labels, &r->text, &r->capacity));
    const char *at = r->text, *end = at + labels->bytes;
    at += mark_bytes(at, labels->bytes);
    for (int line = 1; at < end; line++) {
        const char *found = memchr(at, '\n', (size_t)(end - at)), *stop = found ? found : end;
        const sr_status status =
            is_blank(at, (size_t)(stop - at)) ? SR_OK : take_line(r, at, (size_t)(stop - at), file);
        if (status == SR_E_DATA)
            sr_error_prefix("%s:%d", labels->path, line);
        SR_TRY(status);
        at = stop + (found != NULL);
    }
    return SR_OK;
}

static sr_status read_labels(yolo_reading *r, sr_layout_file *file, int split) {
    const char *picture = r->source->files.items[file->source].path;
    const sr_source_file *labels = find_labels(r->source, picture);
    file->split = (int8_t)split;
    if (labels == NULL && r->in_folders && !r->has_paths &&
        find_folder(picture, "images") == NULL) {
        file->split = -1;
        r->layout->unlabelled++;
    }
    if (labels == NULL)
        return SR_OK; // background
    bool *used = &r->used[labels - r->source->wanted.items];
    r->source->read += !*used; // two pictures may differ only in their extension
    *used = r->labelled[split] = true;
    const sr_status status = read_lines(r, labels, file);
    if (status != SR_E_DATA && status != SR_E_IO)
        return status;
    file->split = -1;
    return sr_source_refuse(r->source, picture, sr_error_message());
}

static sr_status fail_unlabelled(const yolo_reading *r, const char *picture) {
    char path[MAX_PATH] = "";
    (void)label_path(picture, false, path);
    return SR_FAIL(SR_E_DATA,
                   "%s: no picture of train has labels; of %s they were looked for in %s",
                   r->source->path, picture, path);
}

static sr_status read_pictures(yolo_reading *r) {
    for (size_t i = 0; i < r->source->wanted.count; i++)
        r->in_folders = r->in_folders || is_label_file(r->source->wanted.items[i].path);
    for (size_t i = 0; i < r->layout->count; i++) {
        const char *path = r->source->files.items[i].path;
        if (r->splits[i] == SR_SPLIT_COUNT)
            SR_TRY(sr_source_refuse(r->source, path,
                                    "data.yaml names it for several splits; where val is train, "
                                    "remove val and hold out with --val-fraction"));
        else if (r->splits[i] >= 0)
            SR_TRY(read_labels(r, &r->layout->files[i], r->splits[i]));
        else
            r->layout->unlabelled += r->has_paths;
    }
    for (size_t i = 0; i < r->layout->count; i++) { // those of splits without labels
        sr_layout_file *file = &r->layout->files[i];
        if (file->split < 0 || r->labelled[file->split])
            continue;
        if (file->split == SR_SPLIT_TRAIN)
            return fail_unlabelled(r, r->source->files.items[i].path);
        file->split = -1;
        r->layout->unlabelled++;
    }
    return SR_OK;
}

// Whether the label file belongs to a picture that exists but was refused or left out.
static bool has_picture(const yolo_reading *r, const char *path) {
    char images[MAX_PATH];
    const char *labels = find_folder(path, "labels");
    const char *rest = labels + strlen("labels");
    size_t low = 0, high = r->source->files.count;
    const int n = snprintf(images, sizeof images, "%.*simages%.*s.", (int)(labels - path), path,
                           (int)(sr_path_stem_bytes(path) - (size_t)(rest - path)), rest);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(r->source->files.items[middle].path, images) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return n < MAX_PATH && low < r->source->files.count &&
           strncmp(r->source->files.items[low].path, images, (size_t)n) == 0;
}

static sr_status refuse_strays(yolo_reading *r) {
    for (size_t i = 0; i < r->source->wanted.count; i++) {
        const char *path = r->source->wanted.items[i].path;
        if (r->used[i] || !is_label_file(path))
            continue;
        r->source->wanted_refused++; // it or its picture was refused
        if (!has_picture(r, path))
            SR_TRY(sr_source_refuse(r->source, path, "labels without a picture"));
    }
    return SR_OK;
}

// -- layout ------------------------------------------------------------------------------------

static sr_status read_data(yolo_reading *r) {
    char path[2 * MAX_PATH];
    if (r->yaml == NULL)
        return SR_OK;
    (void)snprintf(path, sizeof path, "%s%s%s", r->source->path,
                   r->source->folder >= 0 ? "/" : ": ", r->yaml->path);
    SR_TRY(sr_source_read(r->source, r->yaml, &r->text, &r->capacity));
    r->source->read++;
    return sr_yolo_data_parse(path, r->text, (size_t)r->yaml->bytes, &r->layout->arena, &r->data);
}

static sr_status settle_classes(yolo_reading *r) {
    sr_layout *layout = r->layout;
    const int count = r->data.class_count > 0 ? r->data.class_count : r->most + 1;
    if (!layout->names_given && r->data.names != NULL) {
        layout->classes = sr_alloc_array((size_t)count, sizeof *layout->classes, "classes");
        if (layout->classes == NULL)
            return SR_E_MEMORY;
        memcpy(layout->classes, r->data.names, (size_t)count * sizeof *layout->classes);
        layout->class_count = count;
    } else if (!layout->names_given && layout->class_count == 0) {
        if (r->yaml == NULL)
            SR_WARN("%s: neither data.yaml nor classes.txt names the classes: they are numbers",
                    r->source->path);
        SR_TRY(sr_layout_number_classes(layout, count));
    }
    for (int i = 0; i < layout->class_count; i++)
        SR_TRY(sr_layout_map_label(layout, i, i, layout->classes[i]));
    return SR_OK;
}

static sr_status read_classes(yolo_reading *r) {
    if (r->yaml != NULL || r->classes == NULL || r->layout->names_given)
        return SR_OK;
    SR_TRY(sr_source_read(r->source, r->classes, &r->text, &r->capacity));
    SR_TRY(sr_layout_take_names(r->layout, r->text));
    r->data.class_count = r->layout->class_count;
    r->source->read++;
    return SR_OK;
}

static sr_status read_all(yolo_reading *r) {
    SR_TRY(sr_layout_begin(r->layout, r->source));
    r->splits = sr_alloc_array(r->layout->count, sizeof *r->splits, "pictures");
    r->used = sr_alloc_array(r->source->wanted.count, sizeof *r->used, "label files");
    if (r->splits == NULL || r->used == NULL)
        return SR_E_MEMORY;
    memset(r->splits, UNNAMED, r->layout->count);
    SR_TRY(find_tables(r));
    SR_TRY(read_data(r));
    SR_TRY(read_classes(r));
    SR_TRY(read_paths(r));
    if (!r->has_paths)
        SR_TRY(read_folders(r));
    SR_TRY(read_pictures(r));
    SR_TRY(refuse_strays(r));
    return settle_classes(r);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    yolo_reading r = {.source = source, .layout = out, .most = 0};
    out->schema = SR_SCHEMA_OBJECTS;
    out->normalised = true;
    const sr_status status = read_all(&r);
    sr_yolo_data_release(&r.data);
    sr_free(r.splits);
    sr_free(r.used);
    sr_free(r.object.points);
    sr_free(r.text);
    return status;
}

extern const sr_format sr_format_yolo;
const sr_format sr_format_yolo = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "yolo",
    .help = "YOLO's images and labels, with data.yaml",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
