// SPDX-License-Identifier: Apache-2.0
// Splits and classes of a list of paths (rules: layout.h).
//
// The paths are in byte order, so folders of one level come in runs; nothing here reads files.
#include "dataio/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LEVELS 64

const char *const sr_split_names[SR_SPLIT_COUNT] = {"train", "val", "test"};

// The folder of a path at a level, or false when the path has no folder there.
static bool folder_at(const char *path, int level, const char **name, size_t *bytes) {
    for (int i = 0;; i++) {
        const char *slash = strchr(path, '/');
        if (slash == NULL)
            return false;
        if (i == level) {
            *name = path;
            *bytes = (size_t)(slash - path);
            return true;
        }
        path = slash + 1;
    }
}

static int split_of(const char *name, size_t bytes) {
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        if (strlen(sr_split_names[s]) == bytes && memcmp(name, sr_split_names[s], bytes) == 0)
            return s;
    return -1;
}

typedef struct level {
    bool splits[SR_SPLIT_COUNT];
    int other_folders; // distinct in a row; 2 stands for more
    bool strays;       // pictures that lie directly here
    bool deeper;       // some picture has a folder below
} level;

static level look_at(const sr_source *source, int number) {
    level l = {0};
    const char *last = NULL;
    size_t last_bytes = 0;
    for (size_t i = 0; i < source->count; i++) {
        const char *name, *below;
        size_t bytes, below_bytes;
        if (!folder_at(source->files[i].path, number, &name, &bytes)) {
            l.strays = true;
            continue;
        }
        l.deeper = l.deeper || folder_at(source->files[i].path, number + 1, &below, &below_bytes);
        int split = split_of(name, bytes);
        if (split >= 0) {
            l.splits[split] = true;
        } else if (last == NULL || bytes != last_bytes || memcmp(name, last, bytes) != 0) {
            l.other_folders += l.other_folders < 2;
            last = name;
            last_bytes = bytes;
        }
    }
    return l;
}

static bool holds_splits(const level *l) {
    bool any = l->splits[SR_SPLIT_TRAIN] || l->splits[SR_SPLIT_VAL] || l->splits[SR_SPLIT_TEST];
    bool pair = l->splits[SR_SPLIT_TRAIN] && (l->splits[SR_SPLIT_VAL] || l->splits[SR_SPLIT_TEST]);
    return (any && l->other_folders == 0) || pair;
}

// The level of the splits (*has_splits) or of the classes.
static int find_level(const sr_source *source, bool *has_splits) {
    level l = look_at(source, 0);
    for (int number = 0;; number++) {
        int folders = l.splits[0] + l.splits[1] + l.splits[2] + l.other_folders;
        bool leading = folders == 1 && !l.strays && l.deeper && number < MAX_LEVELS;
        level below = leading ? look_at(source, number + 1) : l;
        *has_splits = holds_splits(&l);
        // A leading folder may itself be called "test" or "train".
        if (*has_splits && !(leading && holds_splits(&below) && below.splits[SR_SPLIT_TRAIN]))
            return number;
        if (!*has_splits && !leading)
            return number;
        l = below;
    }
}

// -- classes -----------------------------------------------------------------------------------

typedef struct name_list {
    void *items; // const char *
    size_t count, capacity;
} name_list;

static sr_status add_name(name_list *list, sr_arena *arena, const char *name, size_t bytes) {
    if (list->count > 0) { // paths are sorted: equal names come in runs
        const char *last = ((const char **)list->items)[list->count - 1];
        if (strlen(last) == bytes && memcmp(last, name, bytes) == 0)
            return SR_OK;
    }
    SR_TRY(sr_grow(&list->items, &list->capacity, list->count + 1, sizeof(char *), "classes"));
    char *copy = sr_arena_alloc(arena, bytes + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    memcpy(copy, name, bytes);
    ((const char **)list->items)[list->count++] = copy;
    return SR_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int find_class(const sr_layout *layout, const char *name, size_t bytes) {
    int low = 0, high = layout->class_count;
    while (low < high) {
        int middle = (low + high) / 2;
        const char *candidate = layout->classes[middle];
        int order = strncmp(candidate, name, bytes);
        if (order == 0 && candidate[bytes] != '\0')
            order = 1;
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

// Class names of the split that gives them, sorted, each once ("a/" sorts after "a-/" in paths).
static sr_status collect_classes(const sr_source *source, int level_number, bool has_splits,
                                 int split, sr_layout *out) {
    name_list list = {0};
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->count && status == SR_OK; i++) {
        const char *name;
        size_t bytes;
        if (has_splits && (!folder_at(source->files[i].path, level_number, &name, &bytes) ||
                           split_of(name, bytes) != split))
            continue;
        if (folder_at(source->files[i].path, level_number + has_splits, &name, &bytes))
            status = add_name(&list, &out->arena, name, bytes);
    }
    out->classes = list.items;
    SR_TRY(status);
    if (list.count > 0)
        qsort(out->classes, list.count, sizeof *out->classes, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < list.count; i++)
        if (kept == 0 || strcmp(out->classes[kept - 1], out->classes[i]) != 0)
            out->classes[kept++] = out->classes[i];
    if (kept > INT32_MAX)
        return SR_FAIL(SR_E_LIMIT, "%s: too many classes", source->path);
    out->class_count = (int)kept;
    return SR_OK;
}

// -- files -------------------------------------------------------------------------------------

static sr_status place(sr_source *source, int level_number, bool has_splits, size_t i,
                       sr_layout *out) {
    const char *path = source->files[i].path, *name;
    size_t bytes;
    sr_layout_file *file = &out->files[i];
    *file = (sr_layout_file){.source = (uint32_t)i, .label = -1, .split = SR_SPLIT_TRAIN};
    if (has_splits) {
        int split = folder_at(path, level_number, &name, &bytes) ? split_of(name, bytes) : -1;
        if (split < 0)
            return sr_source_refuse(source, path, "lies outside of train, val and test");
        file->split = (int8_t)split;
    }
    if (!folder_at(path, level_number + has_splits, &name, &bytes)) {
        out->unlabelled += file->split == SR_SPLIT_TEST;
        return file->split == SR_SPLIT_TEST
                   ? SR_OK
                   : sr_source_refuse(source, path, "lies in no class folder");
    }
    file->label = find_class(out, name, bytes);
    if (file->label < 0) {
        return SR_FAIL(SR_E_DATA,
                       "%s: class '%.*s' of %s is not among the %d classes of train (%s); rename "
                       "or remove it",
                       source->path, bytes > 200 ? 200 : (int)bytes, name,
                       sr_split_names[file->split], out->class_count, path);
    }
    out->split_count[file->split]++;
    return SR_OK;
}

static sr_status make(sr_source *source, sr_layout *out) {
    bool has_splits;
    if (source->count == 0) {
        return SR_FAIL(SR_E_DATA,
                       "%s: no picture (JPEG or PNG) found; %zu files were refused, %llu are no "
                       "pictures",
                       source->path, source->refused_count,
                       (unsigned long long)(source->other + source->hidden));
    }
    if (source->count > UINT32_MAX)
        return SR_FAIL(SR_E_LIMIT, "%s: more than 2^32 pictures", source->path);
    int number = find_level(source, &has_splits);
    for (int split = 0; split < SR_SPLIT_COUNT && out->class_count == 0; split++) {
        sr_free(out->classes);
        out->classes = NULL;
        SR_TRY(collect_classes(source, number, has_splits, split, out));
    }
    if (out->class_count == 0)
        return SR_FAIL(SR_E_DATA,
                       "%s: pictures lie in no class folders; expected CLASS/picture or "
                       "{train,val}/CLASS/picture",
                       source->path);
    for (size_t i = 0; i < source->count; i++)
        SR_TRY(place(source, number, has_splits, i, out));
    return SR_OK;
}

sr_status sr_layout_make(sr_source *source, sr_layout *out) {
    sr_layout layout = {.count = source->count};
    sr_arena_init(&layout.arena);
    layout.files = sr_alloc_array(source->count, sizeof *layout.files, "layout");
    sr_status status = layout.files ? make(source, &layout) : SR_E_MEMORY;
    if (status != SR_OK) {
        sr_layout_release(&layout);
        return status;
    }
    *out = layout;
    return SR_OK;
}

void sr_layout_release(sr_layout *layout) {
    sr_free(layout->files);
    sr_free(layout->classes);
    sr_arena_release(&layout->arena);
    *layout = (sr_layout){0};
}
