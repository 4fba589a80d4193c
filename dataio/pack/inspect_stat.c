// SPDX-License-Identifier: Apache-2.0
// Statistics of a split (inspect.h): the library side of serried stat.
#include "dataio/image/picture.h"
#include "dataio/pack/inspect_internal.h"
#include "kernels/base/memory.h"

#define STAT_SAMPLES 256

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
                          .files = sr_dataset_file_count(dataset),
                          .class_count = sr_dataset_class_count(dataset)};
    stat.class_records =
        sr_alloc_array((size_t)stat.class_count, sizeof *stat.class_records, "class counts");
    if (stat.class_records == NULL)
        return SR_E_MEMORY;
    for (int s = 0; s < stat.files; s++) {
        const sr_data_file *shard = sr_dataset_file(dataset, s);
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
    sr_free(stat->class_pictures);
    sr_free(stat->class_weights);
    *stat = (sr_split_stat){0};
}
