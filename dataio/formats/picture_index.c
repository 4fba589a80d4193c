// SPDX-License-Identifier: Apache-2.0
// Finds the picture that an annotation refers to (picture_index.h). Four bytes per picture.
#include "dataio/formats/picture_index.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dataio/formats/layout.h"
#include "dataio/formats/mask_folders.h"

static int compare_stems(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    const size_t n = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int order = memcmp(a, b, n);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

// The name without its extension; its length.
static size_t stem_of(const char *path, const char **stem) {
    *stem = sr_path_name(path);
    return sr_path_stem_bytes(path) - (size_t)(*stem - path);
}

static int by_stem(const void *a, const void *b, void *user) {
    const sr_source_file *files = user;
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const char *x, *y;
    const size_t x_bytes = stem_of(files[i].path, &x), y_bytes = stem_of(files[j].path, &y);
    const int order = compare_stems(x, x_bytes, y, y_bytes);
    return order ? order : (i > j) - (i < j);
}

sr_status sr_picture_index_make(const sr_source *source, sr_picture_index *out) {
    sr_picture_index index = {.source = source, .count = source->files.count};
    index.files = sr_alloc_array(index.count, sizeof *index.files, "index of pictures");
    if (index.files == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < index.count; i++)
        index.files[i] = (uint32_t)i;
    if (index.count > 0)
        qsort_r(index.files, index.count, sizeof *index.files, by_stem, source->files.items);
    *out = index;
    return SR_OK;
}

void sr_picture_index_release(sr_picture_index *index) {
    sr_free(index->files);
    *index = (sr_picture_index){0};
}

size_t sr_picture_index_find(const sr_picture_index *index, const char *stem, size_t bytes,
                             size_t *first) {
    const sr_source_file *files = index->source->files.items;
    size_t low = 0, high = index->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const char *there;
        const size_t there_bytes = stem_of(files[index->files[middle]].path, &there);
        if (compare_stems(there, there_bytes, stem, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *first = low;
    for (high = low; high < index->count; high++) {
        const char *there;
        const size_t there_bytes = stem_of(files[index->files[high]].path, &there);
        if (compare_stems(there, there_bytes, stem, bytes) != 0)
            break;
    }
    return high - low;
}

// Folders that both paths begin with.
static int common_folders(const char *a, const char *b) {
    int folders = 0;
    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
        folders += a[i] == '/';
    return folders;
}

// Whether a picture is in a folder of masks, as VOC's SegmentationClass and SegmentationObject.
static bool is_mask(const char *path) {
    static const char start[] = "Segmentation";
    const char *name;
    size_t bytes;
    for (int level = 0; sr_path_folder_at(path, level, &name, &bytes); level++)
        if (sr_folder_kind_named(name, bytes) == SR_FOLDER_MASKS ||
            strncasecmp(name, start, sizeof start - 1) == 0)
            return true;
    return false;
}

bool sr_picture_index_choose(const sr_picture_index *index, const sr_picture_wanted *wanted,
                             uint32_t *out, const char *rivals[2]) {
    const sr_source_file *files = index->source->files.items;
    size_t first, count = sr_picture_index_find(index, wanted->stem, wanted->stem_bytes, &first);
    int best = -1;
    bool unique = false;
    rivals[0] = rivals[1] = NULL;
    for (size_t i = first; i < first + count; i++) {
        const char *path = files[index->files[i]].path;
        // Most significant first: the whole name, the split, no mask, the folders.
        int score = sr_path_ends_with(path, wanted->name) ? 2048 : 0;
        score += wanted->split >= 0 && sr_path_split(path) == wanted->split ? 1024 : 0;
        score += is_mask(path) ? 0 : 512;
        score += common_folders(path, wanted->near);
        unique = score != best && (score > best || unique);
        if (score > best) {
            best = score;
            *out = index->files[i];
        } else if (score == best) {
            rivals[0] = files[*out].path;
            rivals[1] = path;
        }
    }
    if (unique)
        rivals[0] = rivals[1] = NULL;
    return unique;
}
