// SPDX-License-Identifier: Apache-2.0
// Which level of folders are the classes (class_folders.h).
//
// A level contains splits where all of its folders are named like splits, as train and valid; or
// where train and another split are there, since what else is there cannot be a class; or where
// words of all names mean splits, as in train_images and val_images, and the folders below have
// names in common, as the splits of one data set have. So train_station and test_tube are classes.
// Beside the latter there may be folders with nothing but pictures, as those to be predicted.
//
// A folder that contains nothing but one of its own name or split does not count, as unpacking
// train.zip makes train/train.
//
// The paths are in byte order, so equal folders of one level are adjacent; no files are read.
#include "dataio/formats/class_folders.h"

#include <stdio.h>
#include <string.h>

#include "dataio/formats/layout.h"
#include "dataio/formats/name_table.h"
#include "dataio/record/split.h"

#define MAX_LEVELS 64

typedef struct level {
    bool whole[SR_SPLIT_COUNT], word[SR_SPLIT_COUNT]; // splits that names or words of names mean
    bool all_alike;                                   // they do, or resemble splits
    bool all_whole, all_words;                        // of the folders of this level
    bool joint, alone; // a folder of train and val; one of train or val
    size_t folders;    // that differ from the one before
    bool strays;       // pictures directly at this level
    bool deeper;       // some picture has a folder below
    bool repeated;     // all have one of the same name or split
    bool flat_train;   // a picture of train has none
    bool flat_others;  // no picture outside splits has one
} level;

static level look_at(const sr_source *source, int number) {
    level l = {.all_whole = true,
               .all_words = true,
               .all_alike = true,
               .repeated = true,
               .flat_others = true};
    const char *last = NULL;
    size_t last_bytes = 0;
    int word = -1;
    for (size_t i = 0; i < source->files.count; i++) {
        const char *path = source->files.items[i].path, *name, *below;
        size_t bytes, below_bytes;
        if (!sr_path_folder_at(path, number, &name, &bytes)) {
            l.strays = true;
            continue;
        }
        if (last == NULL || bytes != last_bytes || memcmp(name, last, bytes) != 0) {
            const int whole = sr_split_named(name, bytes);
            word = sr_split_word(name, bytes);
            if (whole >= 0)
                l.whole[whole] = true;
            if (word >= 0)
                l.word[word] = true;
            const bool joint = sr_split_is_union(name, bytes);
            l.joint = l.joint || joint;
            l.alone = l.alone || (!joint && (word == SR_SPLIT_TRAIN || word == SR_SPLIT_VAL));
            l.all_whole = l.all_whole && whole >= 0;
            l.all_words = l.all_words && word >= 0;
            l.all_alike = l.all_alike && (word >= 0 || sr_split_resembles(name, bytes));
            l.folders++;
            last = name;
            last_bytes = bytes;
        }
        const bool deeper = sr_path_folder_at(path, number + 1, &below, &below_bytes);
        l.deeper = l.deeper || deeper;
        l.repeated = l.repeated && deeper &&
                     ((below_bytes == bytes && memcmp(below, name, bytes) == 0) ||
                      (word >= 0 && sr_split_word(below, below_bytes) == word));
        l.flat_others = l.flat_others && (word >= 0 || !deeper);
        l.flat_train = l.flat_train || (word == SR_SPLIT_TRAIN && !deeper);
    }
    return l;
}

// Whether folders of other splits have none below, or one that train has, too.
static sr_status share_names(const sr_source *source, int number, bool *out) {
    sr_name_table names = {0};
    sr_arena arena;
    sr_status status = SR_OK;
    bool others = false;
    size_t of_train = 0;
    sr_arena_init(&arena);
    *out = false;
    for (int pass = 0; pass < 2; pass++) { // train, then the others
        for (size_t i = 0; i < source->files.count && status == SR_OK && !*out; i++) {
            const char *path = source->files.items[i].path, *name, *below;
            size_t bytes, below_bytes;
            uint32_t at;
            if (!sr_path_folder_at(path, number, &name, &bytes) ||
                (sr_split_word(name, bytes) == SR_SPLIT_TRAIN) != (pass == 0) ||
                !sr_path_folder_at(path, number + 1, &below, &below_bytes))
                continue;
            status = sr_name_table_get(&names, &arena, below, below_bytes, &at);
            others = others || pass == 1;
            *out = status == SR_OK && pass == 1 && at < of_train;
        }
        of_train = pass == 0 ? names.count : of_train;
    }
    *out = *out || !others;
    sr_name_table_release(&names);
    sr_arena_release(&arena);
    return status;
}

static sr_status contains_splits(const sr_source *source, int number, const level *l, bool *out) {
    const bool train = l->whole[SR_SPLIT_TRAIN];
    const bool pair = train && (l->whole[SR_SPLIT_VAL] || l->whole[SR_SPLIT_TEST]);
    const bool words = l->word[SR_SPLIT_TRAIN] && (l->word[SR_SPLIT_VAL] || l->word[SR_SPLIT_TEST]);
    *out = (l->folders > 0 && l->all_whole) || pair;
    if (*out || !words || l->flat_train || (!l->all_words && !l->flat_others))
        return SR_OK;
    return share_names(source, number, out);
}

// Whether the level of classes rather contains splits, of which one has a name that is not known.
static sr_status find_doubts(const sr_source *source, const level *l, sr_class_folders *out) {
    if (out->has_splits || !l->all_alike || l->all_words || !l->whole[SR_SPLIT_TRAIN] ||
        l->flat_train)
        return SR_OK;
    for (size_t i = 0; i < source->files.count; i++) {
        const char *name;
        size_t bytes;
        if (sr_path_folder_at(source->files.items[i].path, out->level, &name, &bytes) &&
            sr_split_word(name, bytes) < 0)
            sr_few_names_add(&out->doubts, name, bytes);
    }
    return share_names(source, out->level, &out->unclear);
}

static sr_status find_level(const sr_source *source, sr_class_folders *out) {
    level l = look_at(source, 0);
    for (int number = 0;; number++) {
        const bool leading =
            (l.folders == 1 || l.repeated) && !l.strays && l.deeper && number < MAX_LEVELS;
        const level below = leading ? look_at(source, number + 1) : l;
        bool splits, splits_below = false;
        SR_TRY(contains_splits(source, number, &l, &splits));
        if (splits && leading && below.word[SR_SPLIT_TRAIN])
            SR_TRY(contains_splits(source, number + 1, &below, &splits_below));
        // A leading folder may itself be named "test" or "train".
        if (splits ? !splits_below : !leading) {
            out->level = number;
            out->has_splits = splits;
            out->mixed = splits && l.joint && l.alone;
            return find_doubts(source, &l, out);
        }
        l = below;
    }
}

int sr_class_folders_split(const sr_class_folders *folders, const char *path) {
    const char *name;
    size_t bytes;
    if (!folders->has_splits)
        return SR_SPLIT_TRAIN;
    return sr_path_folder_at(path, folders->level, &name, &bytes) ? sr_split_word(name, bytes) : -1;
}

bool sr_class_folders_class(const sr_class_folders *folders, const char *path, const char **name,
                            size_t *bytes) {
    return sr_path_folder_at(path, folders->level + folders->has_splits, name, bytes);
}

// Counts the classes of the first split that has some.
static sr_status count_classes(const sr_source *source, sr_class_folders *out) {
    sr_name_table table = {0};
    sr_arena arena;
    sr_status status = SR_OK;
    sr_arena_init(&arena);
    for (int split = 0; split < SR_SPLIT_COUNT && out->names.count == 0; split++) {
        for (size_t i = 0; i < source->files.count && status == SR_OK; i++) {
            const char *path = source->files.items[i].path, *name;
            size_t bytes;
            uint32_t at;
            if (sr_class_folders_split(out, path) != split ||
                !sr_class_folders_class(out, path, &name, &bytes))
                continue;
            const size_t before = table.count;
            status = sr_name_table_get(&table, &arena, name, bytes, &at);
            if (status == SR_OK && table.count > before)
                sr_few_names_add(&out->names, name, bytes);
        }
    }
    sr_name_table_release(&table);
    sr_arena_release(&arena);
    return status;
}

static void name_splits(const sr_source *source, sr_class_folders *out) {
    for (size_t i = 0; i < source->files.count && out->has_splits; i++) {
        const char *name;
        size_t bytes;
        if (sr_path_folder_at(source->files.items[i].path, out->level, &name, &bytes) &&
            sr_split_word(name, bytes) >= 0)
            sr_few_names_add(&out->splits, name, bytes);
    }
}

sr_status sr_class_folders_find(const sr_source *source, sr_class_folders *out) {
    *out = (sr_class_folders){0};
    SR_TRY(find_level(source, out));
    SR_TRY(count_classes(source, out));
    name_splits(source, out);
    return SR_OK;
}
