// SPDX-License-Identifier: Apache-2.0
// Lists of pictures: lines "path TAB label [TAB split]".
#ifndef SR_DATAIO_LIST_FILE_H
#define SR_DATAIO_LIST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_PICTURE_LIST_MAX_BYTES ((size_t)4 << 30)

typedef struct sr_listed_picture {
    const char *path, *label;
    int8_t split; // SR_SPLIT_TRAIN, ... (record/split.h); -1: not given
    bool twice;   // another line gives the path another label or split
} sr_listed_picture;

// A list in memory; its strings point into a copy of the file.
typedef struct sr_picture_list {
    void *text;
    void *entries; // sr_listed_picture, in the order of the file
    size_t count, capacity;
} sr_picture_list;

// SR_E_DATA "path:line: what was expected".
SR_NODISCARD sr_status sr_picture_list_read(const char *path, sr_picture_list *out);
// Parses 'bytes' bytes that were allocated with sr_alloc and are followed by a zero; the list takes
// them over, also on failure. name: for messages.
SR_NODISCARD sr_status sr_picture_list_parse(const char *name, void *text, size_t bytes,
                                             sr_picture_list *out);
// Sorts by path and keeps one entry of each path.
void sr_picture_list_sort(sr_picture_list *list);
void sr_picture_list_release(sr_picture_list *list);

#ifdef __cplusplus
}
#endif
#endif
