// SPDX-License-Identifier: Apache-2.0
// A split of a data set as samples by number, in any container (dataset.h).
//
// The container finds and checks the data files (container.h); records are read with pread and
// checked each time. File descriptors are opened at first use and only a few stay open, so a data
// set of a thousand shards needs only a few. Not here: order (sampler.h) and decoding (decode.h).
#include "dataio/record/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/record/container.h"
#include "dataio/record/file_stamp_internal.h"
#include "dataio/record/links.h"
#include "dataio/record/protocol.h"
#include "dataio/record/record_facts_internal.h"
#include "dataio/record/shard_internal.h"
#include "kernels/base/file.h"

#define OPEN_FILES 8

struct sr_dataset {
    const sr_container *container;
    sr_data_files files;
    uint64_t *first; // [files.count] number of each file's first sample
    int64_t count;
    int64_t median_side;
    char identity[SR_SHA256_HEX];
    uint8_t *buffer;
    size_t capacity;
    struct {
        int fd; // -1: free
        int shard;
        uint64_t used; // larger is more recent
    } open_files[OPEN_FILES];
    uint64_t clock;
    bool changed; // a file that was read
};

// -- opening -----------------------------------------------------------------------------------

static sr_status find_container(const char *path, const sr_container **out) {
    struct stat info;
    if (stat(path, &info) != 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    *out = sr_container_find(path);
    if (*out != NULL)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE,
                   "%s is not packed: no shard (*.kpl), KPLRecord directory or LMDB store of "
                   "serried; run: serried pack %s %s.packed",
                   path, path, path);
}

static sr_status count_samples(sr_dataset *dataset) {
    dataset->first = sr_alloc_array(dataset->files.count, sizeof *dataset->first, "data files");
    if (dataset->first == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < dataset->files.count; i++) {
        dataset->first[i] = (uint64_t)dataset->count;
        dataset->count += dataset->files.items[i].count;
    }
    return SR_OK;
}

static sr_status hash_identity(sr_dataset *dataset) {
    sr_sha256 *sha;
    uint8_t digest[SR_SHA256_BYTES];
    SR_TRY(sr_sha256_create(&sha));
    sr_status status = SR_OK;
    for (size_t s = 0; s < dataset->files.count && status == SR_OK; s++) {
        for (int64_t i = 0; i < dataset->files.items[s].count && status == SR_OK; i++) {
            uint8_t hash[8];
            put_u64(hash, dataset->files.items[s].entries[i].hash);
            status = sr_sha256_update(sha, hash, sizeof hash);
        }
    }
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, dataset->identity);
    sr_sha256_free(sha);
    return status;
}

static int by_side(const void *a, const void *b) {
    const sr_data_file *const *x = a, *const *y = b;
    return ((*x)->median_side > (*y)->median_side) - ((*x)->median_side < (*y)->median_side);
}

// The median of the shards' medians, each weighted by its number of records. Records are in
// shuffled order (pack.h), so a shard is a fair sample of the split.
static sr_status find_median(sr_dataset *dataset) {
    const sr_data_file **order = sr_alloc_array(dataset->files.count, sizeof *order, "medians");
    if (order == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < dataset->files.count; i++)
        order[i] = &dataset->files.items[i];
    qsort(order, dataset->files.count, sizeof *order, by_side);
    int64_t seen = 0;
    for (size_t i = 0; i < dataset->files.count && 2 * seen <= dataset->count; i++) {
        dataset->median_side = order[i]->median_side;
        seen += order[i]->count;
    }
    sr_free(order);
    return SR_OK;
}

static sr_status open_all(sr_dataset *dataset, const char *path, const char *split,
                          bool records_only) {
    SR_TRY(sr_links_check(path));
    SR_TRY(find_container(path, &dataset->container));
    SR_TRY(dataset->container->load(path, split, records_only, &dataset->files));
    SR_TRY(count_samples(dataset));
    return records_only ? SR_OK : hash_identity(dataset);
}

static sr_status open_split(const char *path, const char *split, bool records_only,
                            sr_dataset **out) {
    sr_dataset *dataset = sr_alloc(sizeof *dataset, "data set");
    if (dataset == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < OPEN_FILES; i++)
        dataset->open_files[i].fd = -1;
    sr_status status = open_all(dataset, path, split, records_only);
    if (status == SR_OK)
        status = find_median(dataset);
    if (status != SR_OK) {
        sr_dataset_free(dataset);
        return status;
    }
    *out = dataset;
    return SR_OK;
}

sr_status sr_dataset_open(const char *path, const char *split, sr_dataset **out) {
    return open_split(path, split, false, out);
}

sr_status sr_dataset_open_records(const char *path, const char *split, sr_dataset **out) {
    return open_split(path, split, true, out);
}

void sr_dataset_free(sr_dataset *dataset) {
    if (dataset == NULL)
        return;
    for (int i = 0; i < OPEN_FILES; i++)
        if (dataset->open_files[i].fd >= 0)
            (void)close(dataset->open_files[i].fd);
    sr_data_files_release(&dataset->files);
    sr_free(dataset->first);
    sr_free(dataset->buffer);
    sr_free(dataset);
}

void sr_dataset_class_sizes(const sr_dataset *dataset, int64_t *out) {
    for (int c = 0; c < sr_dataset_class_count(dataset); c++)
        out[c] = 0;
    for (int f = 0; f < sr_dataset_file_count(dataset); f++) {
        const sr_data_file *file = sr_dataset_file(dataset, f);
        for (int c = 0; c < file->class_count; c++)
            out[c] += (int64_t)file->class_records[c];
    }
}

sr_status sr_dataset_read_labels(sr_dataset *dataset, int64_t first, int64_t count, int32_t *out) {
    for (int64_t i = first; i < first + count; i++) {
        const void *record = NULL;
        size_t bytes = 0;
        sr_record_facts facts;
        char name[300];
        SR_TRY(sr_dataset_read(dataset, i, &record, &bytes));
        SR_TRY(sr_record_facts_read(record, bytes, &facts));
        if (!facts.has_label || facts.label < 0 || facts.label > INT32_MAX)
            return SR_FAIL(SR_E_DATA, "%s has no class", sr_dataset_sample_name(dataset, i, name));
        out[i - first] = (int32_t)facts.label;
    }
    return SR_OK;
}

bool sr_dataset_has_split(const char *path, const char *split) {
    sr_split_list list = {0};
    const sr_container *container = sr_path_exists(path) ? sr_container_find(path) : NULL;
    if (container == NULL || container->splits(path, &list) != SR_OK)
        return false;
    for (int i = 0; i < list.count; i++)
        if (strcmp(list.names[i], split) == 0)
            return true;
    return false;
}

// -- contents ----------------------------------------------------------------------------------

int64_t sr_dataset_count(const sr_dataset *dataset) {
    return dataset->count;
}

int sr_dataset_class_count(const sr_dataset *dataset) {
    return dataset->files.items[0].class_count;
}

const char *sr_dataset_class_name(const sr_dataset *dataset, int index) {
    const sr_data_file *shard = &dataset->files.items[0];
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
    for (size_t i = 0; i < dataset->files.count; i++)
        sr_channel_sums_add(&sums, &dataset->files.items[i].sums);
    return sr_channel_sums_get(&sums, mean, std);
}

const char *sr_dataset_file_noun(const sr_dataset *dataset) {
    return dataset->files.count == 1 ? dataset->container->singular : dataset->container->plural;
}

int sr_dataset_file_count(const sr_dataset *dataset) {
    return (int)dataset->files.count;
}

const sr_data_file *sr_dataset_file(const sr_dataset *dataset, int index) {
    return &dataset->files.items[index];
}

// -- reading -----------------------------------------------------------------------------------

// Finds the file of a sample by bisection; *index becomes its number in the file.
static int find_file(const sr_dataset *dataset, int64_t *index) {
    size_t low = 0, high = dataset->files.count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (dataset->first[middle] <= (uint64_t)*index)
            low = middle;
        else
            high = middle;
    }
    *index -= (int64_t)dataset->first[low];
    return (int)low;
}

static sr_status check_index(const sr_dataset *dataset, int64_t index) {
    if (index < 0 || index >= dataset->count)
        return SR_FAIL(SR_E_ARGUMENT, "sample %lld of a data set of %lld", (long long)index,
                       (long long)dataset->count);
    return SR_OK;
}

static sr_status fail_changed(sr_dataset *dataset, const sr_data_file *file) {
    dataset->changed = true;
    return SR_FAIL(SR_E_DATA,
                   "%s was replaced or written to while this job reads it; put the data set back "
                   "and run the same command again to resume",
                   file->path);
}

static sr_status open_file(sr_dataset *dataset, int shard, int *fd) {
    int oldest = 0;
    for (int i = 0; i < OPEN_FILES; i++) {
        if (dataset->open_files[i].fd >= 0 && dataset->open_files[i].shard == shard) {
            dataset->open_files[i].used = ++dataset->clock;
            *fd = dataset->open_files[i].fd;
            return SR_OK;
        }
        if (dataset->open_files[i].used < dataset->open_files[oldest].used)
            oldest = i;
    }
    int opened = open(dataset->files.items[shard].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return SR_FAIL(errno == ENOENT ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s",
                       dataset->files.items[shard].path, strerror(errno));
    // Records with hashes tell by themselves whether they are the same.
    if (dataset->files.items[shard].check != NULL &&
        !sr_file_stamp_is(&dataset->files.items[shard].stamp, opened)) {
        (void)close(opened);
        return fail_changed(dataset, &dataset->files.items[shard]);
    }
    if (dataset->open_files[oldest].fd >= 0)
        (void)close(dataset->open_files[oldest].fd);
    dataset->open_files[oldest].fd = opened;
    dataset->open_files[oldest].shard = shard;
    dataset->open_files[oldest].used = ++dataset->clock;
    *fd = opened;
    return SR_OK;
}

// Compares the record with its hash or, where there is none, with the protocol.
static sr_status check_record(const sr_data_file *file, int64_t record, const void *data,
                              size_t bytes) {
    if (file->check == NULL) {
        if (sr_hash64(data, bytes) == file->entries[record].hash)
            return SR_OK;
        return SR_FAIL(SR_E_CHECKSUM,
                       "%s record %lld: bits have changed (serried verify names them); restore the "
                       "file or pack again",
                       file->path, (long long)record);
    }
    sr_status status = sr_protocol_check(file->check, data, bytes);
    if (status != SR_OK)
        sr_error_prefix("%s record %lld", file->path, (long long)record);
    return status;
}

// Reads a record into the buffer and checks it.
static sr_status read_record(sr_dataset *dataset, const sr_data_file *file, int fd,
                             int64_t record) {
    const size_t length = (size_t)file->entries[record].bytes;
    uint64_t offset = file->entries[record].offset;
    if (dataset->container->locate != NULL)
        SR_TRY(dataset->container->locate(file, fd, record, &offset));
    SR_TRY(sr_file_read_at(fd, file->path, offset, dataset->buffer, length));
    return check_record(file, record, dataset->buffer, length);
}

sr_status sr_dataset_read(sr_dataset *dataset, int64_t index, const void **data, size_t *bytes) {
    SR_TRY(check_index(dataset, index));
    int64_t record = index;
    int number = find_file(dataset, &record), fd = -1;
    const sr_data_file *file = &dataset->files.items[number];
    const size_t length = (size_t)file->entries[record].bytes;
    SR_TRY(open_file(dataset, number, &fd));
    void *buffer = dataset->buffer;
    SR_TRY(sr_grow(&buffer, &dataset->capacity, length + 1, 1, "record"));
    dataset->buffer = buffer;
    const sr_status status = read_record(dataset, file, fd, record);
    if (status == SR_E_DATA || status == SR_E_CHECKSUM)
        return sr_file_stamp_is(&file->stamp, fd) ? status : fail_changed(dataset, file);
    SR_TRY(status);
    *data = buffer;
    *bytes = length;
    return SR_OK;
}

bool sr_dataset_has_changed(const sr_dataset *dataset) {
    return dataset->changed;
}

sr_status sr_dataset_locate(const sr_dataset *dataset, int64_t index, int *shard, uint64_t *offset,
                            uint64_t *bytes) {
    SR_TRY(check_index(dataset, index));
    int64_t record = index;
    *shard = find_file(dataset, &record);
    *offset = dataset->files.items[*shard].entries[record].offset;
    *bytes = dataset->files.items[*shard].entries[record].bytes;
    return SR_OK;
}

// Consecutive samples are adjacent within a file.
void sr_dataset_advise(sr_dataset *dataset, int64_t first, int64_t count,
                       sr_dataset_advice advice) {
    const int64_t end = first + count;
    if (dataset->container->locate != NULL)
        return; // offsets are known only when records are read
    for (int64_t i = first; i < end;) {
        int shard, fd, at;
        uint64_t begin, offset, bytes;
        if (sr_dataset_locate(dataset, i, &shard, &begin, &bytes) != SR_OK ||
            open_file(dataset, shard, &fd) != SR_OK)
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
    int shard = find_file(dataset, &record);
    (void)snprintf(out, 300, "%.250s record %lld", dataset->files.items[shard].name,
                   (long long)record);
    return out;
}
