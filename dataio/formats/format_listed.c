// SPDX-License-Identifier: Apache-2.0
// Format: a list of pictures written by the user (list_file.h), for data in any other format.
//
// Pictures of the source that are not in the list are left out and counted; a line whose file is
// missing is refused by name.
#include <stdlib.h>
#include <string.h>

#include "dataio/formats/format.h"
#include "dataio/formats/label_text.h"
#include "dataio/import/list_file.h"

static sr_status recognises(sr_source *source, bool *fits) {
    *fits = source->list != NULL;
    return SR_OK;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const sr_listed_picture *)a)->path, ((const sr_listed_picture *)b)->path);
}

static sr_status assign(sr_source *source, const sr_list_file *list, bool *met,
                        sr_label_texts *labels, sr_layout *out) {
    const sr_listed_picture *entries = list->entries;
    for (size_t i = 0; i < out->count; i++) {
        const sr_listed_picture wanted = {.path = source->files.items[i].path};
        const sr_listed_picture *found =
            bsearch(&wanted, entries, list->count, sizeof *entries, by_path);
        if (found == NULL) {
            out->unlabelled++;
            continue;
        }
        met[found - entries] = true;
        if (found->twice) {
            SR_TRY(sr_source_refuse(source, wanted.path,
                                    "the list names it twice, with another class or split"));
            continue;
        }
        SR_TRY(sr_label_texts_assign(labels, out, &out->files[i],
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
    SR_TRY(sr_list_file_read(source->list, &list));
    sr_list_file_sort(&list);
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
