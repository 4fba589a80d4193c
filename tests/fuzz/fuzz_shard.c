// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of shards after their checksums pass: those of header, index and footer are
// corrected first, as an attacker who builds a shard would. Then all of the shard is read.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataio/record/dataset.h"
#include "dataio/record/shard_internal.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void repair(uint8_t *shard, size_t size) {
    uint32_t header = size >= SHARD_HEADER_FIXED + 8 ? get_u32(shard + 12) : 0;
    if (header < SHARD_HEADER_FIXED + 8 || header > size || size - header < SHARD_FOOTER_BYTES)
        return;
    memcpy(shard, sr_shard_magic, 8);
    put_u32(shard + 8, SR_SHARD_VERSION);
    put_u64(shard + 16, size);
    put_u64(shard + header - 8, sr_hash64(shard, header - 8));
    uint8_t *footer = shard + size - SHARD_FOOTER_BYTES;
    uint64_t records = get_u64(shard + 24), index = size - SHARD_FOOTER_BYTES;
    if (records <= (index - header) / SHARD_ENTRY_BYTES)
        index -= records * SHARD_ENTRY_BYTES;
    put_u64(footer, index);
    put_u64(footer + 8, records);
    put_u64(footer + 16, sr_hash64(shard + index, size - SHARD_FOOTER_BYTES - index));
    memcpy(footer + 24, sr_shard_end_magic, 8);
    put_u64(footer + 32, sr_hash64(footer, 32));
}

static void count_finding(void *user, const char *message) {
    *(size_t *)user += strlen(message) > 0;
}

static void read_all(const char *path) {
    sr_dataset *set;
    if (sr_dataset_open(path, NULL, &set) != SR_OK)
        return;
    double mean[3], std[3];
    char name[300];
    int64_t count = sr_dataset_count(set);
    for (int64_t i = 0; i < count; i++) {
        const void *record;
        size_t bytes;
        (void)!sr_dataset_read(set, i, &record, &bytes);
        (void)sr_dataset_sample_name(set, i, name);
    }
    for (int c = 0; c < sr_dataset_class_count(set); c++)
        if (sr_dataset_class_name(set, c) == NULL)
            abort();
    (void)sr_dataset_normalisation(set, mean, std);
    sr_dataset_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = sr_alloc(size, "shard");
    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    repair(copy, size);
    int fd = memfd_create("shard", MFD_CLOEXEC);
    char path[64];
    sr_verify_result result = {0};
    size_t findings = 0;
    if (fd < 0 || write(fd, copy, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (sr_shard_verify(path, count_finding, &findings, &result) == SR_OK &&
        findings != result.damaged)
        abort();
    read_all(path);
    (void)close(fd);
    sr_free(copy);
    return 0;
}
