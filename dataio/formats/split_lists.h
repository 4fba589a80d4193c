// SPDX-License-Identifier: Apache-2.0
// Splits by lists of names, as VOC's ImageSets/Main/train.txt: the first word of every line is the
// name of a picture, or its path with or without the extension.
//
// trainval.txt stands for the one of train and val that has no list. A name in lists of several
// splits has none.
#ifndef SR_DATAIO_SPLIT_LISTS_H
#define SR_DATAIO_SPLIT_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/formats/picture_index.h"
#include "dataio/import/source.h"
#include "dataio/record/split.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a list may be of, beside a split.
#define SR_LIST_SEVERAL SR_SPLIT_COUNT        // a name: of several splits
#define SR_LIST_TRAINVAL (SR_SPLIT_COUNT + 1) // a list: trainval.txt
#define SR_LIST_MAX_BYTES ((uint64_t)256 << 20)

// A name that a list assigns to a split.
typedef struct sr_listed_name {
    const char *name;
    int8_t split; // or SR_LIST_SEVERAL, or -1
} sr_listed_name;

// Zero-initialised is empty.
typedef struct sr_split_lists {
    void *items; // sr_listed_name, sorted by name once settled
    size_t count, capacity;
    bool any, has[SR_LIST_TRAINVAL + 1]; // which lists there are
} sr_split_lists;

void sr_split_lists_release(sr_split_lists *lists);
// Adds the names of a list of a split or SR_LIST_TRAINVAL; names live in the arena.
SR_NODISCARD sr_status sr_split_lists_read(sr_split_lists *lists, sr_source *source,
                                           const sr_source_file *file, int split, sr_arena *arena);
// Ends reading.
void sr_split_lists_settle(sr_split_lists *lists);
// The split of a picture by its name: -1 where no list names it, SR_LIST_SEVERAL where several do.
int sr_split_lists_of(const sr_split_lists *lists, const char *path);
// Refuses names that no picture has.
SR_NODISCARD sr_status sr_split_lists_refuse_missing(const sr_split_lists *lists, sr_source *source,
                                                     const sr_picture_index *index);

#ifdef __cplusplus
}
#endif
#endif
