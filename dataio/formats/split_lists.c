// SPDX-License-Identifier: Apache-2.0
// Splits by lists of names (split_lists.h).
#include "dataio/formats/split_lists.h"

#include <stdlib.h>
#include <string.h>

#include "dataio/formats/layout.h"
#include "dataio/image/picture.h"
#include "dataio/import/path_text.h"

void sr_split_lists_release(sr_split_lists *lists) {
    sr_free(lists->items);
    *lists = (sr_split_lists){0};
}

static int by_listed_name(const void *a, const void *b) {
    const sr_listed_name *x = a, *y = b;
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

static sr_status add_words(sr_split_lists *lists, char *at, int split, sr_arena *arena) {
    at += strncmp(at, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; // a byte order mark
    while (*at != '\0') {
        const size_t line = strcspn(at, "\n"), word = strcspn(at, " \t\r\n");
        const bool more = at[line] == '\n';
        if (word > 0) {
            at[word < line ? word : line] = '\0';
            SR_TRY(sr_grow(&lists->items, &lists->capacity, lists->count + 1,
                           sizeof(sr_listed_name), "lists of pictures"));
            const char *name = listed_name(at, arena);
            if (name == NULL)
                return SR_E_MEMORY;
            ((sr_listed_name *)lists->items)[lists->count++] =
                (sr_listed_name){.name = name, .split = (int8_t)split};
        }
        at += line + more;
    }
    return SR_OK;
}

sr_status sr_split_lists_read(sr_split_lists *lists, sr_source *source, const sr_source_file *file,
                              int split, sr_arena *arena) {
    void *text = NULL;
    size_t capacity = 0;
    sr_status status = sr_source_read(source, file, &text, &capacity);
    if (status == SR_OK)
        status = add_words(lists, text, split, arena);
    sr_free(text);
    SR_TRY(status);
    lists->any = lists->has[split] = true;
    source->read++;
    return SR_OK;
}

// What a name that only trainval lists is of: no split where train and val are both listed.
static int split_of_trainval(const sr_split_lists *lists) {
    return !lists->has[SR_SPLIT_TRAIN] ? SR_SPLIT_TRAIN
           : !lists->has[SR_SPLIT_VAL] ? SR_SPLIT_VAL
                                       : -1;
}

void sr_split_lists_settle(sr_split_lists *lists) {
    sr_listed_name *items = lists->items;
    if (lists->count > 0)
        qsort(items, lists->count, sizeof *items, by_listed_name);
    size_t kept = 0;
    for (size_t i = 0; i < lists->count; i++) {
        if (kept == 0 || strcmp(items[kept - 1].name, items[i].name) != 0)
            items[kept++] = items[i];
        else if (items[kept - 1].split != items[i].split && items[i].split != SR_LIST_TRAINVAL)
            items[kept - 1].split = SR_LIST_SEVERAL;
    }
    lists->count = kept;
    for (size_t i = 0; i < kept; i++)
        if (items[i].split == SR_LIST_TRAINVAL)
            items[i].split = (int8_t)split_of_trainval(lists);
}

int sr_split_lists_of(const sr_split_lists *lists, const char *path) {
    const sr_listed_name *items = lists->items;
    const char *name = sr_path_name(path);
    const size_t bytes = sr_path_stem_bytes(path) - (size_t)(name - path);
    size_t low = 0, high = lists->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        int order = strncmp(items[middle].name, name, bytes);
        if (order == 0 && items[middle].name[bytes] != '\0')
            order = 1;
        if (order == 0)
            return items[middle].split;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

sr_status sr_split_lists_refuse_missing(const sr_split_lists *lists, sr_source *source,
                                        const sr_picture_index *index) {
    const sr_listed_name *items = lists->items;
    for (size_t i = 0; i < lists->count; i++) {
        size_t first;
        if (sr_picture_index_find(index, items[i].name, strlen(items[i].name), &first) == 0)
            SR_TRY(sr_source_refuse(source, items[i].name,
                                    "is listed in ImageSets, but there is no such picture"));
    }
    return SR_OK;
}
