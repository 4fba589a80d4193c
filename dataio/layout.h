// SPDX-License-Identifier: Apache-2.0
// From paths to splits and classes.
//
// Leading folders that all pictures share are passed over. Then comes either a level whose folders
// are splits (train, val, test; of other folders beside train and one of these the pictures are
// refused) and below it the classes, or the level of the classes itself. Everything deeper belongs
// to the class. The order of classes is the byte order of their names; all splits take the list of
// train where there is one, and a class that only another split has is an error.
#ifndef SR_DATAIO_LAYOUT_H
#define SR_DATAIO_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/format.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_SPLIT_TRAIN = 0, SR_SPLIT_VAL, SR_SPLIT_TEST, SR_SPLIT_COUNT };
extern const char *const sr_split_names[SR_SPLIT_COUNT];

typedef struct sr_layout_file {
    uint32_t source; // index into the source's files
    int32_t label;   // -1: in no split (refused or ignored)
    int8_t split;
} sr_layout_file;

typedef struct sr_layout {
    sr_layout_file *files; // in the source's order
    size_t count;
    const char **classes;
    int class_count;
    uint64_t unlabelled; // pictures of test without a class folder, left out
    uint64_t split_count[SR_SPLIT_COUNT];
    sr_arena arena;
} sr_layout;

// Refuses single files through the source; SR_E_DATA where nothing is left or classes do not agree.
SR_NODISCARD sr_status sr_layout_make(sr_source *source, sr_layout *out);
void sr_layout_release(sr_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
