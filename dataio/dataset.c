// SPDX-License-Identifier: Apache-2.0
// A split of a folder of shards, or one shard, as samples by number (see dataset.h).
//
// Opening reads and checks every header and index and that the shards are exactly those of one
// complete split; records are read with pread and checked each time. Descriptors are opened at
// first use and a few are kept, so that a data set of a thousand shards costs a handful.
// Not here: order (sampler.h) and decoding (decode.h).
#include "dataio/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/shard_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"

#define OPEN_FILES 8

struct sr_dataset {
    sr_shard *shards;
    size_t shard_count, shard_capacity;
    int64_t count;
    int64_t median_side;
    char identity[SR_SHA256_HEX];
    uint8_t *buffer;
    size_t capacity;
    struct {
        int fd; // -1: free
        int shard;
        uint64_t used; // larger is more recent
    } files[OPEN_FILES];
    uint64_t clock;
};

// -- opening -----------------------------------------------------------------------------------

static sr_status no_data_set(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    return SR_FAIL(SR_E_USAGE,
                   "%s is not packed: no shard (*.kpl) of serried; run: serried pack %s %s.packed",
                   path, path, path);
}

// Highest number + 1 of the split's shards in the folder; 0 when there is none.
static sr_status count_shards(const char *folder, const char *split, uint32_t *count,
                              bool *any_split) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", folder, strerror(errno));
    *count = 0;
    *any_split = false;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char name[SR_SPLIT_MAX + 1];
        uint32_t number;
        if (!sr_shard_parse_name(entry->d_name, name, &number))
            continue;
        *any_split = true;
        if (strcmp(name, split) == 0 && number >= *count)
            *count = number + 1;
    }
    (void)closedir(dir);
    return SR_OK;
}

static sr_status add_shard(sr_dataset *dataset, const char *path) {
    void *shards = dataset->shards;
    SR_TRY(sr_grow(&shards, &dataset->shard_capacity, dataset->shard_count + 1,
                   sizeof *dataset->shards, "shards"));
    dataset->shards = shards;
    SR_TRY(sr_shard_load(path, &dataset->shards[dataset->shard_count]));
    dataset->count += dataset->shards[dataset->shard_count++].count;
    return SR_OK;
}

static bool same_classes(const sr_shard *a, const sr_shard *b) {
    if (a->class_count != b->class_count || strcmp(a->meta, b->meta) != 0)
        return false;
    for (int i = 0; i < a->class_count; i++)
        if (strcmp(a->classes[i], b->classes[i]) != 0)
            return false;
    return true;
}

// That shard i continues the shards before it.
static sr_status check_place(const sr_dataset *dataset, size_t i, const char *split) {
    const sr_shard *shard = &dataset->shards[i];
    uint64_t before =
        i ? dataset->shards[i - 1].first_record + (uint64_t)dataset->shards[i - 1].count : 0;
    bool last = i + 1 == dataset->shard_count;
    if (shard->number != i || strcmp(shard->split, split) != 0)
        return SR_FAIL(SR_E_DATA, "%s was renamed: its header says split %s, shard %u", shard->path,
                       shard->split, shard->number);
    if (shard->first_record != before || !same_classes(shard, &dataset->shards[0]))
        return SR_FAIL(SR_E_DATA, "%s belongs to another data set than the shards before it",
                       shard->path);
    if (shard->last && !last)
        return SR_FAIL(SR_E_DATA, "%s is the last shard of its split, but %s follows", shard->path,
                       dataset->shards[i + 1].file);
    if (last && !shard->last)
        return SR_FAIL(SR_E_DATA,
                       "the shards after %s are missing: packing was interrupted (run the same "
                       "pack command again) or they were removed",
                       shard->path);
    return SR_OK;
}

static sr_status open_folder(sr_dataset *dataset, const char *folder, const char *split) {
    uint32_t count;
    bool any_split;
    SR_TRY(count_shards(folder, split, &count, &any_split));
    if (!any_split)
        return no_data_set(folder);
    if (count == 0)
        return SR_FAIL(SR_E_NOT_FOUND,
                       "%s has no split '%s': no %s-*.kpl is there; copy it again, or pack again",
                       folder, split, split);
    for (uint32_t i = 0; i < count; i++) {
        char name[SR_SHARD_NAME_MAX];
        char *path = sr_path_join(folder, sr_shard_file_name(split, i, name));
        if (path == NULL)
            return SR_E_MEMORY;
        sr_status status = add_shard(dataset, path);
        sr_free(path);
        SR_TRY(status);
    }
    for (size_t i = 0; i < dataset->shard_count; i++)
        SR_TRY(check_place(dataset, i, split));
    return SR_OK;
}

static sr_status open_path(sr_dataset *dataset, const char *path, const char *split) {
    struct stat info;
    if (stat(path, &info) != 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return open_folder(dataset, path, split ? split : "train");
    const char *dot = strrchr(path, '.');
    if (!sr_shard_is(path) && (dot == NULL || strcmp(dot, ".kpl") != 0))
        return no_data_set(path);
    SR_TRY(add_shard(dataset, path));
    if (split != NULL && strcmp(dataset->shards[0].split, split) != 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s is a shard of split '%s', not '%s'", path,
                       dataset->shards[0].split, split);
    return SR_OK;
}

static sr_status hash_identity(sr_dataset *dataset) {
    sr_sha256 *sha;
    uint8_t digest[SR_SHA256_BYTES];
    SR_TRY(sr_sha256_create(&sha));
    sr_status status = SR_OK;
    for (size_t s = 0; s < dataset->shard_count && status == SR_OK; s++) {
        for (int64_t i = 0; i < dataset->shards[s].count && status == SR_OK; i++) {
            uint8_t hash[8];
            put_u64(hash, dataset->shards[s].entries[i].hash);
            status = sr_sha256_update(sha, hash, sizeof hash);
        }
    }
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, dataset->identity);
    sr_sha256_free(sha);
    return status;
}

static int by_side(const void *a, const void *b) {
    const sr_shard *const *x = a, *const *y = b;
    return ((*x)->median_side > (*y)->median_side) - ((*x)->median_side < (*y)->median_side);
}

// Median over the shards' medians, each counted with its records. Records are in mixed order
// (pack.h), so that a shard is a fair sample of the split.
static sr_status find_median(sr_dataset *dataset) {
    const sr_shard **order = sr_alloc_array(dataset->shard_count, sizeof *order, "medians");
    if (order == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < dataset->shard_count; i++)
        order[i] = &dataset->shards[i];
    qsort(order, dataset->shard_count, sizeof *order, by_side);
    int64_t seen = 0;
    for (size_t i = 0; i < dataset->shard_count && 2 * seen <= dataset->count; i++) {
        dataset->median_side = order[i]->median_side;
        seen += order[i]->count;
    }
    sr_free(order);
    return SR_OK;
}

sr_status sr_dataset_open(const char *path, const char *split, sr_dataset **out) {
    sr_dataset *dataset = sr_alloc(sizeof *dataset, "data set");
    if (dataset == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < OPEN_FILES; i++)
        dataset->files[i].fd = -1;
    sr_status status = open_path(dataset, path, split);
    if (status == SR_OK)
        status = hash_identity(dataset);
    if (status == SR_OK)
        status = find_median(dataset);
    if (status != SR_OK) {
        sr_dataset_free(dataset);
        return status;
    }
    *out = dataset;
    return SR_OK;
}

void sr_dataset_free(sr_dataset *dataset) {
    if (dataset == NULL)
        return;
    for (int i = 0; i < OPEN_FILES; i++)
        if (dataset->files[i].fd >= 0)
            (void)close(dataset->files[i].fd);
    for (size_t i = 0; i < dataset->shard_count; i++)
        sr_shard_release(&dataset->shards[i]);
    sr_free(dataset->shards);
    sr_free(dataset->buffer);
    sr_free(dataset);
}

bool sr_dataset_has_split(const char *path, const char *split) {
    struct stat info;
    if (stat(path, &info) != 0)
        return false;
    if (S_ISDIR(info.st_mode)) {
        uint32_t count = 0;
        bool any_split = false;
        return count_shards(path, split, &count, &any_split) == SR_OK && count > 0;
    }
    sr_shard shard;
    if (!sr_shard_is(path) || sr_shard_load(path, &shard) != SR_OK)
        return false;
    bool same = strcmp(shard.split, split) == 0;
    sr_shard_release(&shard);
    return same;
}

// -- what it holds -----------------------------------------------------------------------------

int64_t sr_dataset_count(const sr_dataset *dataset) {
    return dataset->count;
}

int sr_dataset_class_count(const sr_dataset *dataset) {
    return dataset->shards[0].class_count;
}

const char *sr_dataset_class_name(const sr_dataset *dataset, int index) {
    const sr_shard *shard = &dataset->shards[0];
    return index >= 0 && index < shard->class_count ? shard->classes[index] : NULL;
}

const char *sr_dataset_identity(const sr_dataset *dataset) {
    return dataset->identity;
}

int64_t sr_dataset_median_side(const sr_dataset *dataset) {
    return dataset->median_side;
}

bool sr_dataset_normalisation(const sr_dataset *dataset, double mean[3], double std[3]) {
    sr_channel_sums sums = {0};
    for (size_t i = 0; i < dataset->shard_count; i++)
        sr_channel_sums_add(&sums, &dataset->shards[i].sums);
    return sr_channel_sums_get(&sums, mean, std);
}

int sr_dataset_shard_count(const sr_dataset *dataset) {
    return (int)dataset->shard_count;
}

const sr_shard *sr_dataset_shard(const sr_dataset *dataset, int index) {
    return &dataset->shards[index];
}

// -- reading -----------------------------------------------------------------------------------

// The shard of a sample by bisection; *index becomes its number inside.
static int find_shard(const sr_dataset *dataset, int64_t *index) {
    uint64_t base = dataset->shards[0].first_record, wanted = base + (uint64_t)*index;
    size_t low = 0, high = dataset->shard_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (dataset->shards[middle].first_record <= wanted)
            low = middle;
        else
            high = middle;
    }
    *index = (int64_t)(wanted - dataset->shards[low].first_record);
    return (int)low;
}

static sr_status check_index(const sr_dataset *dataset, int64_t index) {
    if (index < 0 || index >= dataset->count)
        return SR_FAIL(SR_E_ARGUMENT, "sample %lld of a data set of %lld", (long long)index,
                       (long long)dataset->count);
    return SR_OK;
}

static sr_status get_file(sr_dataset *dataset, int shard, int *fd) {
    int oldest = 0;
    for (int i = 0; i < OPEN_FILES; i++) {
        if (dataset->files[i].fd >= 0 && dataset->files[i].shard == shard) {
            dataset->files[i].used = ++dataset->clock;
            *fd = dataset->files[i].fd;
            return SR_OK;
        }
        if (dataset->files[i].used < dataset->files[oldest].used)
            oldest = i;
    }
    int opened = open(dataset->shards[shard].path, O_RDONLY | O_CLOEXEC);
    if (opened < 0)
        return SR_FAIL(errno == ENOENT ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s",
                       dataset->shards[shard].path, strerror(errno));
    if (dataset->files[oldest].fd >= 0)
        (void)close(dataset->files[oldest].fd);
    dataset->files[oldest].fd = opened;
    dataset->files[oldest].shard = shard;
    dataset->files[oldest].used = ++dataset->clock;
    *fd = opened;
    return SR_OK;
}

sr_status sr_dataset_read(sr_dataset *dataset, int64_t index, const void **data, size_t *bytes) {
    SR_TRY(check_index(dataset, index));
    int64_t record = index;
    int number = find_shard(dataset, &record), fd = -1;
    const sr_shard *shard = &dataset->shards[number];
    const sr_shard_entry *entry = &shard->entries[record];
    SR_TRY(get_file(dataset, number, &fd));
    void *buffer = dataset->buffer;
    SR_TRY(sr_grow(&buffer, &dataset->capacity, (size_t)entry->bytes + 1, 1, "record"));
    dataset->buffer = buffer;
    SR_TRY(sr_file_read_at(fd, shard->path, entry->offset, buffer, (size_t)entry->bytes));
    if (sr_hash64(buffer, (size_t)entry->bytes) != entry->hash)
        return SR_FAIL(SR_E_CHECKSUM,
                       "%s record %lld: bits have changed (serried verify names them); restore the "
                       "shard or pack again",
                       shard->path, (long long)record);
    *data = buffer;
    *bytes = (size_t)entry->bytes;
    return SR_OK;
}

sr_status sr_dataset_locate(const sr_dataset *dataset, int64_t index, int *shard, uint64_t *offset,
                            uint64_t *bytes) {
    SR_TRY(check_index(dataset, index));
    int64_t record = index;
    *shard = find_shard(dataset, &record);
    *offset = dataset->shards[*shard].entries[record].offset;
    *bytes = dataset->shards[*shard].entries[record].bytes;
    return SR_OK;
}

// Consecutive samples lie one behind the other, shard by shard.
void sr_dataset_advise(sr_dataset *dataset, int64_t first, int64_t count,
                       sr_dataset_advice advice) {
    const int64_t end = first + count;
    for (int64_t i = first; i < end;) {
        int shard, fd, at;
        uint64_t begin, offset, bytes;
        if (sr_dataset_locate(dataset, i, &shard, &begin, &bytes) != SR_OK ||
            get_file(dataset, shard, &fd) != SR_OK)
            return;
        offset = begin;
        for (i++; i < end; i++) {
            uint64_t next, more;
            if (sr_dataset_locate(dataset, i, &at, &next, &more) != SR_OK || at != shard)
                break;
            offset = next;
            bytes = more;
        }
        (void)posix_fadvise(fd, (off_t)begin, (off_t)(offset + bytes - begin),
                            advice == SR_DATASET_SOON ? POSIX_FADV_WILLNEED : POSIX_FADV_DONTNEED);
    }
}

char *sr_dataset_sample_name(const sr_dataset *dataset, int64_t index, char *out) {
    if (index < 0 || index >= dataset->count) {
        (void)snprintf(out, 300, "sample %lld", (long long)index);
        return out;
    }
    int64_t record = index;
    int shard = find_shard(dataset, &record);
    (void)snprintf(out, 300, "%.250s record %lld", dataset->shards[shard].file, (long long)record);
    return out;
}
