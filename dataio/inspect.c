// SPDX-License-Identifier: Apache-2.0
// Looking at packed data (see inspect.h): the library side of serried verify, stat and show.
#include "dataio/inspect_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/picture.h"
#include "dataio/record.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

#define STAT_SAMPLES 256

// -- which splits ------------------------------------------------------------------------------

static int rank_of(const char *split) {
    static const char *const known[] = {"train", "val", "test"};
    for (int i = 0; i < 3; i++)
        if (strcmp(split, known[i]) == 0)
            return i;
    return 3;
}

static int by_rank(const void *a, const void *b) {
    int x = rank_of(a), y = rank_of(b);
    return x != y ? x - y : strcmp(a, b);
}

static void add_split(sr_split_list *list, const char *split) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->names[i], split) == 0)
            return;
    if (list->count < SR_INSPECT_MAX_SPLITS)
        (void)snprintf(list->names[list->count++], SR_SPLIT_MAX + 1, "%s", split);
}

static sr_status folder_splits(const char *path, sr_split_list *out) {
    DIR *dir = opendir(path);
    if (dir == NULL)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char split[SR_SPLIT_MAX + 1];
        uint32_t number;
        if (sr_shard_parse_name(entry->d_name, split, &number))
            add_split(out, split);
    }
    (void)closedir(dir);
    qsort(out->names, (size_t)out->count, sizeof out->names[0], by_rank);
    return SR_OK;
}

sr_status sr_inspect_splits(const char *path, sr_split_list *out) {
    *out = (sr_split_list){0};
    if (sr_path_is_folder(path))
        return folder_splits(path, out);
    sr_shard shard;
    SR_TRY(sr_shard_load(path, &shard));
    add_split(out, shard.split);
    sr_shard_release(&shard);
    return SR_OK;
}

bool sr_inspect_is(const char *path) {
    if (sr_path_is_folder(path)) {
        sr_split_list list = {0};
        return folder_splits(path, &list) == SR_OK && list.count > 0;
    }
    const char *dot = strrchr(path, '.');
    return sr_path_exists(path) && (sr_shard_is(path) || (dot && strcmp(dot, ".kpl") == 0));
}

// -- verify ------------------------------------------------------------------------------------

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct name_list {
    void *items; // char *
    size_t count, capacity;
} name_list;

static sr_status list_shards(const char *folder, sr_arena *arena, name_list *out) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", folder, strerror(errno));
    sr_status status = SR_OK;
    for (struct dirent *entry; status == SR_OK && (entry = readdir(dir)) != NULL;) {
        char split[SR_SPLIT_MAX + 1];
        uint32_t number;
        if (!sr_shard_parse_name(entry->d_name, split, &number))
            continue;
        status = sr_grow(&out->items, &out->capacity, out->count + 1, sizeof(char *), "shards");
        char *name = status == SR_OK ? sr_arena_strdup(arena, entry->d_name) : NULL;
        if (status == SR_OK && name == NULL)
            status = SR_E_MEMORY;
        if (status == SR_OK)
            ((char **)out->items)[out->count++] = name;
    }
    (void)closedir(dir);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof(char *), by_text);
    return status;
}

// Opening a split checks how its shards fit together; what single shards lack was told before.
static void verify_splits(const char *folder, sr_damage_fn damage, void *user,
                          sr_verify_result *result) {
    sr_split_list list = {0};
    if (folder_splits(folder, &list) != SR_OK)
        return;
    for (int i = 0; i < list.count; i++) {
        sr_dataset *dataset;
        if (sr_dataset_open(folder, list.names[i], &dataset) == SR_OK) {
            sr_dataset_free(dataset);
            continue;
        }
        damage(user, sr_error_message());
        result->damaged++;
    }
}

sr_status sr_inspect_verify(const char *path, sr_damage_fn damage, void *user,
                            sr_verify_result *result) {
    *result = (sr_verify_result){0};
    if (!sr_path_is_folder(path))
        return sr_shard_verify(path, damage, user, result);
    name_list list = {0};
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status = list_shards(path, &arena, &list);
    for (size_t i = 0; i < list.count && status == SR_OK; i++) {
        char *file = sr_path_join(path, ((char **)list.items)[i]);
        status = file ? sr_shard_verify(file, damage, user, result) : SR_E_MEMORY;
        sr_free(file);
    }
    if (status == SR_OK && result->damaged == 0)
        verify_splits(path, damage, user, result);
    sr_free(list.items);
    sr_arena_release(&arena);
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

// -- show --------------------------------------------------------------------------------------

static sr_status put_record(sr_dataset *dataset, int64_t index, sr_grid *grid, int cell) {
    sr_sample picture;
    sr_detection objects;
    bool has_objects;
    char label[64];
    SR_TRY(sr_inspect_read(dataset, index, &picture, &objects, &has_objects));
    bool known = picture.label >= 0 && picture.label < sr_dataset_class_count(dataset);
    const char *name = known ? sr_dataset_class_name(dataset, (int)picture.label) : NULL;
    if (name != NULL)
        (void)snprintf(label, sizeof label, "%s", name);
    else if (picture.label >= 0)
        (void)snprintf(label, sizeof label, "%lld", (long long)picture.label);
    else
        (void)snprintf(label, sizeof label, "%.*s",
                       picture.name_bytes > 60 ? 60 : (int)picture.name_bytes,
                       picture.name ? picture.name : "");
    return sr_grid_put_sample(grid, cell, &picture, has_objects ? &objects : NULL, label);
}

sr_status sr_inspect_grid(sr_dataset *dataset, int64_t first, int count, int columns, int cell,
                          sr_grid **out) {
    int64_t records = sr_dataset_count(dataset);
    if (first < 0 || first >= records || count < 1 || columns < 1)
        return SR_FAIL(SR_E_USAGE, "sample %lld: there are %lld", (long long)first,
                       (long long)records);
    if (count > records - first)
        count = (int)(records - first);
    if (columns > count)
        columns = count;
    sr_grid *grid;
    SR_TRY(sr_grid_create(columns, (count + columns - 1) / columns, cell, &grid));
    sr_status status = SR_OK;
    for (int i = 0; i < count && status == SR_OK; i++) {
        status = put_record(dataset, first + i, grid, i);
        if (status != SR_OK) {
            char name[300];
            sr_error_prefix("%s", sr_dataset_sample_name(dataset, first + i, name));
        }
    }
    if (status != SR_OK) {
        sr_grid_free(grid);
        return status;
    }
    *out = grid;
    return SR_OK;
}
