// SPDX-License-Identifier: Apache-2.0
// Splits by the names of folders and archives (folder_splits.h).
#include "dataio/formats/folder_splits.h"

#include <stdio.h>
#include <string.h>

#include "dataio/formats/layout.h"
#include "dataio/record/split.h"
#include "kernels/base/log.h"

// What the folders of a path mean.
typedef struct meaning {
    int whole, archive, word; // splits, or -1
    const char *name;         // the folder that decides
    size_t bytes;
} meaning;

static meaning look_at(const sr_source *source, const sr_source_file *file) {
    meaning m = {.whole = -1, .archive = -1, .word = -1};
    const char *name;
    size_t bytes;
    int best = -1;
    for (int level = 0; sr_path_folder_at(file->path, level, &name, &bytes); level++) {
        const size_t begin = (size_t)(name - file->path);
        const int whole = sr_split_named(name, bytes), word = sr_split_word(name, bytes);
        const bool of_archive = begin + bytes <= file->archive_bytes;
        const int kind = whole >= 0                                 ? 2
                         : word >= 0 && of_archive                  ? 1
                         : word >= 0 && begin >= source->root_bytes ? 0
                                                                    : -1;
        if (kind < 0)
            continue;
        *(kind == 2 ? &m.whole : kind == 1 ? &m.archive : &m.word) = whole >= 0 ? whole : word;
        if (kind >= best) {
            best = kind;
            m.name = name;
            m.bytes = bytes;
        }
    }
    return m;
}

// -- what is said ------------------------------------------------------------------------------

void sr_folder_splits_doubt(const sr_source *source, const sr_few_names *names, const char *as) {
    if (names->count > 0)
        SR_WARN("%s: %s: %s; splits have whole names such as train, val (or valid, validation) and "
                "test",
                source->path, names->text, as);
}

// Notes the folders of a path, and its archive, that resemble splits.
static void find_doubts(const sr_folder_splits *splits, const sr_source_file *file,
                        sr_few_names *doubts) {
    const char *name;
    size_t bytes;
    for (int level = 0; sr_path_folder_at(file->path, level, &name, &bytes); level++) {
        const bool shared = (size_t)(name - file->path) < splits->source->root_bytes;
        const bool of_archive = (size_t)(name - file->path) + bytes <= file->archive_bytes;
        if (sr_split_resembles(name, bytes)
                ? !shared
                : sr_split_named(name, bytes) < 0 && !shared && !of_archive && !splits->words &&
                      sr_split_word(name, bytes) >= 0)
            sr_few_names_add(doubts, name, bytes);
    }
}

// -- splits ------------------------------------------------------------------------------------

sr_status sr_folder_splits_find(const sr_source *source, sr_folder_splits *out) {
    bool met[2] = {false, false};
    sr_folder_splits splits = {.source = source, .words = true};
    sr_few_names doubts = {0};
    for (size_t i = 0; i < source->files.count; i++) {
        const meaning m = look_at(source, &source->files.items[i]);
        splits.words = splits.words && (m.whole >= 0 || m.archive >= 0 || m.word >= 0);
    }
    for (size_t i = 0; i < source->files.count; i++) {
        const sr_source_file *file = &source->files.items[i];
        const meaning m = look_at(source, file);
        const int split = sr_folder_splits_of(&splits, file);
        splits.any = splits.any || split >= 0;
        if (split >= 0 && sr_split_is_union(m.name, m.bytes))
            met[0] = true;
        else
            met[1] = met[1] || split == SR_SPLIT_TRAIN || split == SR_SPLIT_VAL;
        find_doubts(&splits, file, &doubts);
    }
    *out = splits;
    if (met[0] && met[1]) {
        return SR_FAIL(SR_E_DATA,
                       "%s: there is a trainval folder beside train or val; as trainval repeats "
                       "both, keep one or the other",
                       source->path);
    }
    sr_folder_splits_doubt(source, &doubts, "not treated as splits");
    return SR_OK;
}

int sr_folder_splits_of(const sr_folder_splits *splits, const sr_source_file *file) {
    const meaning m = look_at(splits->source, file);
    if (m.whole >= 0)
        return m.whole;
    return m.archive >= 0 ? m.archive : splits->words ? m.word : -1;
}

int sr_folder_splits_or_train(const sr_folder_splits *splits, const sr_source_file *file) {
    const int split = sr_folder_splits_of(splits, file);
    return split < 0 ? SR_SPLIT_TRAIN : split;
}
