// SPDX-License-Identifier: Apache-2.0
// Looking at packed data (see inspect.h): the library side of serried verify and stat.
#include "dataio/pack/inspect_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/image/picture.h"
#include "dataio/pack/pack_state.h"
#include "dataio/record/links.h"
#include "dataio/record/record.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

#define STAT_SAMPLES 256

// -- which splits, and are they whole ----------------------------------------------------------

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

// A split whose files are all gone leaves no trace but in pack.txt.
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
    result->part = result->shards == 1 ? container->part : container->parts;
    return status;
}

// -- stat --------------------------------------------------------------------------------------

sr_status sr_inspect_read(sr_dataset *dataset, int64_t index, sr_sample *picture,
                          sr_detection *objects, bool *has_objects) {
    const void *data;
    size_t bytes;
    SR_TRY(sr_dataset_read(dataset, index, &data, &bytes));
    *has_objects = strstr(sr_dataset_shard(dataset, 0)->meta, "\"content\"") != NULL;
    if (!*has_objects)
        return sr_sample_read(data, bytes, picture);
    SR_TRY(sr_detection_read(data, bytes, objects));
    *picture = objects->picture;
    return SR_OK;
}

static sr_status sum_samples(sr_dataset *dataset, sr_channel_sums *sums) {
    sr_picture_worker *worker;
    SR_TRY(sr_picture_worker_create(&worker));
    int64_t count = sr_dataset_count(dataset), step = (count + STAT_SAMPLES - 1) / STAT_SAMPLES;
    sr_status status = SR_OK;
    for (int64_t i = 0; i < count && status == SR_OK; i += step) {
        sr_sample picture;
        sr_detection objects;
        bool has_objects;
        status = sr_inspect_read(dataset, i, &picture, &objects, &has_objects);
        if (status == SR_OK)
            status = sr_picture_sum(worker, &picture, sums);
        if (status != SR_OK) {
            char name[300];
            sr_error_prefix("%s", sr_dataset_sample_name(dataset, i, name));
        }
    }
    sr_picture_worker_free(worker);
    return status;
}

sr_status sr_inspect_stat(sr_dataset *dataset, sr_split_stat *out) {
    sr_split_stat stat = {.records = sr_dataset_count(dataset),
                          .shards = sr_dataset_shard_count(dataset),
                          .class_count = sr_dataset_class_count(dataset)};
    stat.class_records =
        sr_alloc_array((size_t)stat.class_count, sizeof *stat.class_records, "class counts");
    if (stat.class_records == NULL)
        return SR_E_MEMORY;
    for (int s = 0; s < stat.shards; s++) {
        const sr_shard *shard = sr_dataset_shard(dataset, s);
        stat.bytes += shard->file_bytes;
        for (int c = 0; c < stat.class_count; c++)
            stat.class_records[c] += (int64_t)shard->class_records[c];
    }
    sr_status status = SR_OK;
    stat.has_mean = sr_dataset_normalisation(dataset, stat.mean, stat.std);
    if (!stat.has_mean) {
        sr_channel_sums sums = {0};
        status = sum_samples(dataset, &sums);
        stat.has_mean = status == SR_OK && sr_channel_sums_get(&sums, stat.mean, stat.std);
    }
    if (status == SR_OK)
        status = sr_inspect_objects(dataset, &stat);
    if (status != SR_OK) {
        sr_split_stat_release(&stat);
        return status;
    }
    *out = stat;
    return SR_OK;
}

void sr_split_stat_release(sr_split_stat *stat) {
    sr_free(stat->class_records);
    sr_free(stat->class_boxes);
    sr_free(stat->class_pixels);
    *stat = (sr_split_stat){0};
}
