// SPDX-License-Identifier: Apache-2.0
// Whether a split that is opened again is still the one that was opened before (dataset.h).
#include <stdio.h>
#include <string.h>

#include "dataio/record/dataset.h"
#include "dataio/record/shard.h"

sr_dataset_stamp sr_dataset_get_stamp(const sr_dataset *dataset) {
    sr_dataset_stamp stamp = {.count = sr_dataset_count(dataset)};
    bool hashed = true;
    for (int f = 0; f < sr_dataset_file_count(dataset); f++) {
        const sr_data_file *file = sr_dataset_file(dataset, f);
        hashed = hashed && file->check == NULL;
        stamp.files = sr_hash64_seed(&file->stamp, sizeof file->stamp, stamp.files);
        for (int64_t i = 0; i < file->count; i++) {
            const sr_index_entry *e = &file->entries[i];
            const uint64_t place[] = {e->offset, e->bytes};
            stamp.layout = sr_hash64_seed(place, sizeof place, stamp.layout);
            stamp.content = sr_hash64_seed(&e->hash, sizeof e->hash, stamp.content);
        }
    }
    stamp.content = hashed ? stamp.content : 0;
    return stamp;
}

static sr_status fail_changed(const char *path) {
    return SR_FAIL(SR_E_DATA,
                   "%s was replaced while this job uses it: its records are not those of the "
                   "start; put the data set back and run the same command again to resume, or "
                   "start a new run with the new one",
                   path);
}

sr_status sr_dataset_check_stamp(const sr_dataset *dataset, const char *path,
                                 const sr_dataset_stamp *expected) {
    const sr_dataset_stamp now = sr_dataset_get_stamp(dataset);
    const bool hashed = now.content != 0 && expected->content != 0;
    const bool same = now.count == expected->count && now.layout == expected->layout &&
                      (hashed ? now.content == expected->content : now.files == expected->files);
    return same ? SR_OK : fail_changed(path);
}

sr_status sr_dataset_check_identity(const sr_dataset *dataset, const char *path,
                                    const char *identity) {
    if (identity == NULL || strcmp(sr_dataset_identity(dataset), identity) == 0)
        return SR_OK;
    return fail_changed(path);
}

sr_status sr_dataset_fail_reopen(sr_status status, const char *path) {
    char cause[512];
    if (status < SR_E_ARGUMENT || status >= SR_E_PEER)
        return status; // memory or the machine
    (void)snprintf(cause, sizeof cause, "%s", sr_error_message());
    return SR_FAIL(SR_E_DATA,
                   "%s was removed or changed while this job uses it (%s); put the data set back "
                   "and run the same command again to resume",
                   path, cause);
}
