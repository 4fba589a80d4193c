// SPDX-License-Identifier: Apache-2.0
// Pictures of a source by the last component of their path, for annotations that name them.
#ifndef SR_DATAIO_PICTURE_INDEX_H
#define SR_DATAIO_PICTURE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/import/source.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sorted by name without extension. Immutable.
typedef struct sr_picture_index {
    const sr_source *source;
    uint32_t *files; // indices into source->files
    size_t count;
} sr_picture_index;

SR_NODISCARD sr_status sr_picture_index_make(const sr_source *source, sr_picture_index *out);
void sr_picture_index_release(sr_picture_index *index);
// The pictures with this name without extension: *first in index->files and their number.
size_t sr_picture_index_find(const sr_picture_index *index, const char *stem, size_t bytes,
                             size_t *first);

// How an annotation refers to its picture.
typedef struct sr_picture_wanted {
    const char *stem; // not terminated
    size_t stem_bytes;
    const char *name; // whole name, may begin with folders; "": unknown
    const char *near; // path of the annotation: prefers pictures with most folders in common
    int split;        // prefers pictures in a folder of this split; -1: unknown
} sr_picture_wanted;

// Finds the picture that the reference means, preferably one outside folders of masks. Returns
// false if no picture matches, or if several match equally well. In the second case 'rivals' has
// two of them; otherwise both entries are NULL.
bool sr_picture_index_choose(const sr_picture_index *index, const sr_picture_wanted *wanted,
                             uint32_t *out, const char *rivals[2]);

#ifdef __cplusplus
}
#endif
#endif
