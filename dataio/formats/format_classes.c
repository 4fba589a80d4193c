// SPDX-License-Identifier: Apache-2.0
// Format: folders of classes (CLASS/picture or {train,val,test}/CLASS/picture), and everything that
// no other format accepts.
//
// Leading folders that all pictures share are skipped. The next level contains either the splits
// (train, val, test; where train and one of these exist, pictures in other folders are refused),
// with the classes below, or the classes themselves. Everything deeper belongs to the class.
// Classes are sorted by the bytes of their names; all splits use the list of train where it exists,
// and a class that only another split has is an error.
//
// The paths are in byte order, so equal folders of one level are adjacent; no files are read.
#include <string.h>

#include "dataio/formats/format.h"

#define MAX_LEVELS 64

typedef struct level {
    bool splits[SR_SPLIT_COUNT];
    int other_folders; // that differ from the one before; 2: at least two
    bool strays;       // pictures directly at this level
    bool deeper;       // some picture has a folder below
} level;

static level look_at(const sr_source *source, int number) {
    level l = {0};
    const char *last = NULL;
    size_t last_bytes = 0;
    for (size_t i = 0; i < source->files.count; i++) {
        const char *name, *below;
        size_t bytes, below_bytes;
        if (!sr_path_folder_at(source->files.items[i].path, number, &name, &bytes)) {
            l.strays = true;
            continue;
        }
        l.deeper = l.deeper ||
                   sr_path_folder_at(source->files.items[i].path, number + 1, &below, &below_bytes);
        int split = sr_split_find(name, bytes);
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

static bool contains_splits(const level *l) {
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
        *has_splits = contains_splits(&l);
        // A leading folder may itself be named "test" or "train".
        if (*has_splits && !(leading && contains_splits(&below) && below.splits[SR_SPLIT_TRAIN]))
            return number;
        if (!*has_splits && !leading)
            return number;
        l = below;
    }
}

// -- classes -----------------------------------------------------------------------------------

// Class names of the split that defines them.
static sr_status collect_classes(const sr_source *source, int level_number, bool has_splits,
                                 int split, sr_layout *out) {
    sr_name_list list = {0};
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->files.count && status == SR_OK; i++) {
        const char *path = source->files.items[i].path, *name;
        size_t bytes;
        if (has_splits && (!sr_path_folder_at(path, level_number, &name, &bytes) ||
                           sr_split_find(name, bytes) != split))
            continue;
        if (sr_path_folder_at(path, level_number + has_splits, &name, &bytes))
            status = sr_name_list_add(&list, &out->arena, name, bytes);
    }
    sr_status set = sr_layout_set_classes(out, &list);
    return status != SR_OK ? status : set;
}

// -- files -------------------------------------------------------------------------------------

static sr_status assign(sr_source *source, int level_number, bool has_splits, size_t i,
                        sr_layout *out) {
    const char *path = source->files.items[i].path, *name;
    size_t bytes;
    int split = SR_SPLIT_TRAIN;
    if (has_splits) {
        split =
            sr_path_folder_at(path, level_number, &name, &bytes) ? sr_split_find(name, bytes) : -1;
        if (split < 0)
            return sr_source_refuse(source, path, "is outside train, val and test");
    }
    if (!sr_path_folder_at(path, level_number + has_splits, &name, &bytes)) {
        out->unlabelled += split == SR_SPLIT_TEST;
        return split == SR_SPLIT_TEST ? SR_OK
                                      : sr_source_refuse(source, path, "is not in a class folder");
    }
    const int label = sr_layout_find_class(out, name, bytes);
    if (label < 0) {
        return SR_FAIL(
            SR_E_DATA, "%s: class '%.*s' of %s is not among the %d %s (%s); rename or remove it",
            source->path, bytes > 200 ? 200 : (int)bytes, name, sr_split_names[split],
            out->class_count, out->names_given ? "names of --classes" : "classes of train", path);
    }
    out->files[i].label = label;
    out->files[i].split = (int8_t)split;
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    bool has_splits;
    if (source->files.count == 0) {
        return SR_FAIL(
            SR_E_DATA,
            "%s: no picture (JPEG or PNG) found; %zu files were refused, %llu are not pictures",
            source->path, source->refused_count,
            (unsigned long long)(source->other + source->hidden + source->wanted.count));
    }
    SR_TRY(sr_layout_begin(out, source));
    int number = find_level(source, &has_splits);
    for (int split = 0; split < SR_SPLIT_COUNT && out->class_count == 0; split++)
        SR_TRY(collect_classes(source, number, has_splits, split, out));
    if (out->class_count == 0)
        return SR_FAIL(SR_E_DATA,
                       "%s: the pictures are not in class folders; expected CLASS/picture or "
                       "{train,val}/CLASS/picture",
                       source->path);
    for (size_t i = 0; i < source->files.count; i++)
        SR_TRY(assign(source, number, has_splits, i, out));
    return SR_OK;
}

static sr_status recognises(sr_source *source, bool *fits) {
    (void)source;
    *fits = true;
    return SR_OK;
}

extern const sr_format sr_format_classes;
const sr_format sr_format_classes = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "classes",
    .help = "folders CLASS/picture or {train,val,test}/CLASS/picture",
    .recognises = recognises,
    .lay_out = lay_out,
};
