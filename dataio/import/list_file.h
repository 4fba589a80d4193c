// SPDX-License-Identifier: Apache-2.0
// Lists of pictures: lines "path TAB label [TAB split]".
//
// Paths are normalised (path_text.h), so that "./a.jpg" and "a.jpg" are one picture; '\\' separates
// folders where there is no file of the name as it is written. A split has any name that means one
// (record/split.h). A label may be blank. Any field may be in quotes.
#ifndef SR_DATAIO_LIST_FILE_H
#define SR_DATAIO_LIST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/import/source.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_LIST_FILE_MAX_BYTES ((size_t)4 << 30)

typedef struct sr_listed_picture {
    char *path;
    const char *label;
    int8_t split; // SR_SPLIT_TRAIN, ... (record/split.h); -1: not given
    bool twice;   // another line gives the path another label or split
} sr_listed_picture;

// A list in memory; its strings point into a copy of the file.
typedef struct sr_list_file {
    void *text;
    void *entries; // sr_listed_picture, in the order of the file
    size_t count, capacity;
} sr_list_file;

// Reads the list of a source, with its paths as those of the source, sorted, and with one entry of
// each path. SR_E_DATA "path:line: what was expected".
SR_NODISCARD sr_status sr_list_file_open(const sr_source *source, sr_list_file *out);
// Parses 'bytes' bytes that were allocated with sr_alloc and are followed by a zero; the list takes
// them over, also on failure. name: for messages.
SR_NODISCARD sr_status sr_list_file_parse(const char *name, void *text, size_t bytes,
                                          sr_list_file *out);
void sr_list_file_release(sr_list_file *list);

#ifdef __cplusplus
}
#endif
#endif
