// SPDX-License-Identifier: Apache-2.0
// Splits of packed data, their verification and their records (inspect.h): the library side of
// serried verify.
#include "dataio/pack/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dataio/pack/pack_state.h"
#include "dataio/record/links.h"
#include "dataio/record/record.h"
#include "kernels/base/file.h"

// -- splits and their verification -------------------------------------------------------------

bool sr_inspect_is(const char *path) {
    return sr_container_find(path) != NULL;
}

static sr_status find_container(const char *path, const sr_container **out) {
    *out = sr_container_find(path);
    if (*out == NULL)
        return SR_FAIL(SR_E_USAGE, "%s is not a serried data set", path);
    return sr_links_check(path);
}

sr_status sr_inspect_splits(const char *path, sr_split_list *out) {
    const sr_container *container;
    *out = (sr_split_list){0};
    SR_TRY(find_container(path, &container));
    SR_TRY(container->splits(path, out));
    sr_split_list_sort(out);
    return SR_OK;
}

// A split without any file is recorded in pack.txt only.
static sr_status verify_splits(const char *path, sr_damage_fn damage, void *user,
                               sr_verify_result *result) {
    sr_pack_report report;
    bool found;
    char message[512];
    SR_TRY(sr_pack_report_read(path, &report, &found));
    const int split = found ? sr_pack_find_missing(path, &report) : -1;
    if (split < 0)
        return SR_OK;
    (void)snprintf(message, sizeof message,
                   "%s: the split %s is missing or incomplete: pack.txt lists %" PRId64
                   " records; pack again",
                   path, sr_split_names[split], report.records[split]);
    damage(user, message);
    result->damaged++;
    return SR_OK;
}

sr_status sr_inspect_verify(const char *path, sr_damage_fn damage, void *user,
                            sr_verify_result *result) {
    const sr_container *container;
    *result = (sr_verify_result){0};
    SR_TRY(find_container(path, &container));
    sr_status status = container->verify(path, damage, user, result);
    if (status == SR_OK && result->damaged == 0 && sr_path_is_folder(path))
        status = verify_splits(path, damage, user, result);
    result->noun = result->files == 1 ? container->singular : container->plural;
    return status;
}

// -- records -----------------------------------------------------------------------------------

sr_status sr_inspect_read(sr_dataset *dataset, int64_t index, sr_sample *picture,
                          sr_detection *objects, bool *has_objects) {
    const void *data;
    size_t bytes;
    SR_TRY(sr_dataset_read(dataset, index, &data, &bytes));
    *has_objects = strstr(sr_dataset_file(dataset, 0)->meta, "\"content\"") != NULL;
    if (!*has_objects)
        return sr_sample_read(data, bytes, picture);
    SR_TRY(sr_detection_read(data, bytes, objects));
    *picture = objects->picture;
    return SR_OK;
}
