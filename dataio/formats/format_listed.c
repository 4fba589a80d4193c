// SPDX-License-Identifier: Apache-2.0
// Format: a list of pictures written by the user (list_file.h), for data in any other format.
//
// Pictures of the source that are not in the list are left out and counted; a line whose file is
// missing is refused by name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/formats/format.h"
#include "dataio/formats/label_text.h"
#include "dataio/import/list_file.h"

static sr_status recognises(sr_source *source, sr_recognition *out) {
    out->certainty = source->list != NULL ? SR_FORMAT_YES : SR_FORMAT_NO;
    (void)snprintf(out->why, sizeof out->why, "%s", source->list ? source->list : "");
    return SR_OK;
}

static int by_path(const void *path, const void *entry) {
    return strcmp(path, ((const sr_listed_picture *)entry)->path);
}

static sr_status assign(sr_source *source, const sr_list_file *list, bool *met,
                        sr_label_texts *labels, sr_layout *out) {
    const sr_listed_picture *entries = list->entries;
    for (size_t i = 0; i < out->count; i++) {
        const char *path = source->files.items[i].path;
        const sr_listed_picture *found =
            bsearch(path, entries, list->count, sizeof *entries, by_path);
        if (found == NULL) {
            out->unlabelled++;
            continue;
        }
        met[found - entries] = true;
        if (found->twice) {
            SR_TRY(sr_source_refuse(source, path,
                                    "the list names it twice, with another class or split"));
            continue;
        }
        SR_TRY(sr_label_texts_assign(labels, source, out, i,
                                     found->split < 0 ? SR_SPLIT_TRAIN : found->split, found->label,
                                     strlen(found->label)));
    }
    // In a folder every path was opened before, and missing files are refused already.
    for (size_t i = 0; i < list->count && source->folder < 0; i++)
        if (!met[i])
            SR_TRY(sr_source_refuse(source, entries[i].path,
                                    "the list names it, but there is no such picture"));
    return sr_label_texts_settle(labels, source, out);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    sr_list_file list;
    sr_label_texts labels = {0};
    SR_TRY(sr_layout_begin(out, source));
    SR_TRY(sr_list_file_open(source, &list));
    bool *met = sr_alloc_array(list.count, sizeof *met, "list");
    sr_status status = met ? assign(source, &list, met, &labels, out) : SR_E_MEMORY;
    sr_free(met);
    sr_label_texts_release(&labels);
    sr_list_file_release(&list);
    return status;
}

extern const sr_format sr_format_listed;
const sr_format sr_format_listed = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "listed",
    .help = "a list of paths and labels",
    .recognises = recognises,
    .lay_out = lay_out,
};
