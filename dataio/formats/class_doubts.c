// SPDX-License-Identifier: Apache-2.0
// Warnings where class folders might have been meant as something else (class_doubts.h).
#include "dataio/formats/class_doubts.h"

#include <stdlib.h>
#include <string.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/mask_folders.h"
#include "dataio/formats/name_table.h"
#include "dataio/record/split.h"
#include "kernels/base/log.h"

// Warns of class folders, and of folders of splits, that contain no picture.
static void tell_empty(const sr_source *source, const sr_class_folders *folders) {
    const sr_file_list *all = &source->folders;
    const char *leading = source->files.items[0].path, *name, *last = "";
    sr_few_names names = {0};
    size_t bytes, first;
    size_t shared =
        sr_path_folder_at(leading, folders->level, &name, &bytes) ? (size_t)(name - leading) : 0;
    for (size_t i = 0; i < all->count; i++) {
        const char *path = all->items[i].path;
        int depth = 1;
        for (const char *at = path; (at = strchr(at, '/')) != NULL; at++)
            depth++;
        const bool of_class = depth == folders->level + folders->has_splits + 1;
        if ((!of_class && !(folders->has_splits && depth == folders->level + 1)) ||
            strncmp(path, leading, shared) != 0 || strcmp(path, last) == 0 ||
            sr_pictures_below(source, path, &first) > 0)
            continue;
        last = path;
        if (folders->has_splits && sr_split_word(path + shared, strcspn(path + shared, "/")) < 0)
            continue;
        sr_few_names_add(&names, path, strlen(path));
    }
    if (names.count > 0)
        SR_WARN("%s: %zu folder%s without a picture: %s; classes are numbered without %s",
                source->path, names.count, names.count == 1 ? "" : "s", names.text,
                names.count == 1 ? "it" : "them");
}

// Warns of names that resemble splits but are not treated as such.
static void tell_doubts(const sr_source *source, const sr_class_folders *folders) {
    const int classes = folders->level + folders->has_splits;
    sr_few_names doubts = {0}, inside = {0};
    const char *name;
    size_t bytes;
    for (size_t i = 0; i < source->files.count; i++) {
        const char *path = source->files.items[i].path;
        if (sr_path_folder_at(path, folders->level, &name, &bytes) &&
            (sr_split_resembles(name, bytes) ||
             (!folders->has_splits && sr_split_word(name, bytes) >= 0)))
            sr_few_names_add(&doubts, name, bytes);
        if (sr_path_folder_at(path, classes + 1, &name, &bytes) && sr_split_named(name, bytes) >= 0)
            sr_few_names_add(&inside, path, (size_t)(name - path) + bytes);
    }
    sr_folder_splits_doubt(source, &doubts,
                           folders->has_splits ? "not treated as splits"
                           : doubts.count == 1 ? "treated as a class, not as a split"
                                               : "treated as classes, not as splits");
    sr_folder_splits_doubt(source, &inside, "inside a class, not treated as a split");
}

// Folders inside those of the classes.
typedef struct inner_folders {
    sr_name_table names;
    void *owners; // int: the class in which a name was met; -1: in several
    size_t capacity;
    sr_few_names repeated; // names in several
    sr_arena arena;
} inner_folders;

static sr_status add_inner(inner_folders *f, const char *name, size_t bytes, int label) {
    uint32_t at;
    const size_t before = f->names.count;
    SR_TRY(sr_name_table_get(&f->names, &f->arena, name, bytes, &at));
    SR_TRY(sr_grow(&f->owners, &f->capacity, f->names.count, sizeof(int), "folders"));
    int *owner = (int *)f->owners + at;
    if (f->names.count > before)
        *owner = label;
    if (*owner >= 0 && *owner != label) {
        *owner = -1;
        sr_few_names_add(&f->repeated, name, bytes);
    }
    return SR_OK;
}

// Warns of folders that repeat inside those of the classes, and so may be the classes.
static sr_status tell_repeated(const sr_source *source, const sr_class_folders *folders,
                               const sr_layout *layout) {
    const int level = folders->level + folders->has_splits;
    inner_folders f = {0};
    sr_status status = SR_OK;
    bool all = layout->class_count > 1; // pictures are in such folders
    sr_arena_init(&f.arena);
    for (size_t i = 0; i < source->files.count && status == SR_OK && all; i++) {
        const char *path = source->files.items[i].path, *name, *inner;
        size_t bytes, inner_bytes;
        if (!sr_path_folder_at(path, level, &name, &bytes))
            continue;
        const int label = sr_layout_find_class(layout, name, bytes);
        all = sr_path_folder_at(path, level + 1, &inner, &inner_bytes);
        if (all && label >= 0 && sr_split_named(inner, inner_bytes) < 0)
            status = add_inner(&f, inner, inner_bytes, label);
    }
    if (status == SR_OK && all && f.repeated.count > 1)
        SR_WARN("%s: the classes are %s, %s%s, and inside them are folders of equal names (%s); if "
                "these are the classes, state the class of each picture in a list (--list)",
                source->path, layout->classes[0], layout->classes[1],
                layout->class_count > 2 ? ", ..." : "", f.repeated.text);
    sr_name_table_release(&f.names);
    sr_arena_release(&f.arena);
    sr_free(f.owners);
    return status;
}

// Whether the names are equal except for numbers, which follow each other.
static bool are_numbered(const char *const *names, int count) {
    for (int i = 1; i < count; i++) {
        const char *last = names[i - 1], *name = names[i];
        size_t same = 0;
        while (name[same] != '\0' && name[same] == last[same])
            same++;
        while (same > 0 && strchr("0123456789", name[same - 1]) != NULL)
            same--;
        const size_t digits = strspn(name + same, "0123456789");
        if (digits == 0 || digits > 9 || strspn(last + same, "0123456789") != digits ||
            strcmp(last + same + digits, name + same + digits) != 0 ||
            strtol(name + same, NULL, 10) != strtol(last + same, NULL, 10) + 1)
            return false;
    }
    return count > 1;
}

// Warns of archives that are classes but have the names of shards.
static void tell_shards(const sr_source *source, const sr_class_folders *folders,
                        const sr_layout *layout) {
    const sr_source_file *first = &source->files.items[0];
    const char *name;
    size_t bytes;
    if (sr_class_folders_class(folders, first->path, &name, &bytes) &&
        (size_t)(name - first->path) + bytes <= first->archive_bytes &&
        are_numbered(layout->classes, layout->class_count))
        SR_WARN("%s: the classes are the archives %s to %s; if these are shards, their pictures "
                "have no labels (KEY.cls or KEY.json)",
                source->path, layout->classes[0], layout->classes[layout->class_count - 1]);
}

// Warns of classes that rather are pictures and their masks, and of numbers in another order.
static void tell_names(const sr_source *source, const sr_layout *layout) {
    const char *of_kind[SR_FOLDER_MASKS + 1] = {0};
    int numbers = 0, later = 0;
    for (int i = 0; i < layout->class_count; i++) {
        const char *name = layout->classes[i];
        of_kind[sr_folder_kind_named(name, strlen(name))] = name;
        numbers += strspn(name, "0123456789") == strlen(name);
        if (later == 0 && i > 0 && strtod(layout->classes[i - 1], NULL) > strtod(name, NULL))
            later = i;
    }
    if (of_kind[SR_FOLDER_PICTURES] != NULL && of_kind[SR_FOLDER_MASKS] != NULL)
        SR_WARN("%s: %s, %s: treated as classes, not as pictures and masks; masks are "
                "PNGs and have the names of their pictures",
                source->path, of_kind[SR_FOLDER_PICTURES], of_kind[SR_FOLDER_MASKS]);
    if (numbers == layout->class_count && later > 0)
        SR_WARN("%s: the class folders are numbers, and are sorted as names: class %d is '%s'",
                source->path, later, layout->classes[later]);
}

sr_status sr_class_doubts_tell(const sr_source *source, const sr_class_folders *folders,
                               const sr_layout *layout) {
    tell_empty(source, folders);
    tell_doubts(source, folders);
    tell_names(source, layout);
    tell_shards(source, folders, layout);
    return tell_repeated(source, folders, layout);
}
