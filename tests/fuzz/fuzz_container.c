// SPDX-License-Identifier: Apache-2.0
// Fuzzes the files of containers other than shards. The first byte selects: N.prop, a table of
// contents, an LMDB file. Checksums of tables are corrected first, as an attacker who builds one
// would. What parses must be the same after it was written and parsed again. N.index, N.meta and
// records are fuzzed in fuzz_record.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataio/record/dataset.h"
#include "dataio/record/lmdb_file_internal.h"
#include "dataio/record/property.h"
#include "dataio/record/shard_internal.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool fine) {
    if (!fine)
        abort();
}

// -- N.prop ------------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_number(double a, double b) {
    return a == b || (a != a && b != b);
}

static void fuzz_property(const uint8_t *data, size_t size) {
    sr_arena arena;
    sr_property first, second;
    sr_text text;
    sr_arena_init(&arena);
    sr_text_init(&text);
    if (sr_property_parse(data, size, &arena, &first) == SR_OK) {
        require(sr_property_write(&first, &text) == SR_OK);
        require(sr_property_parse(text.data, text.length, &arena, &second) == SR_OK);
        require(first.class_count == second.class_count && first.has_mean == second.has_mean);
        require(first.median_side == second.median_side && same_text(first.split, second.split));
        for (int i = 0; i < first.class_count; i++)
            require(same_text(first.classes[i], second.classes[i]));
        for (int i = 0; i < 3 && first.has_mean; i++)
            require(same_number(first.mean[i], second.mean[i]) &&
                    same_number(first.std[i], second.std[i]));
    }
    sr_text_release(&text);
    sr_arena_release(&arena);
}

// -- tables of contents ------------------------------------------------------------------------

static void repair(uint8_t *table, size_t size) {
    uint32_t header = size >= SHARD_HEADER_FIXED + 8 ? get_u32(table + 12) : 0;
    if (header < SHARD_HEADER_FIXED + 8 || header > size || size - header < SHARD_FOOTER_BYTES)
        return;
    memcpy(table, sr_shard_magic, 8);
    put_u32(table + 8, SR_SHARD_VERSION);
    put_u64(table + header - 8, sr_hash64(table, header - 8));
    uint64_t records = get_u64(table + 24);
    if (records > (size - header - SHARD_FOOTER_BYTES) / SHARD_ENTRY_BYTES)
        return;
    size_t bytes = (size_t)records * SHARD_ENTRY_BYTES;
    uint8_t *footer = table + header + bytes;
    put_u64(footer, get_u64(table + 16));
    put_u64(footer + 8, records);
    put_u64(footer + 16, sr_hash64(table + header, bytes));
    memcpy(footer + 24, sr_shard_end_magic, 8);
    put_u64(footer + 32, sr_hash64(footer, 32));
}

static void check_again(const sr_data_file *part) {
    const shard_header header = {.file_bytes = part->file_bytes,
                                 .records = (uint64_t)part->count,
                                 .first_record = part->first_record,
                                 .number = part->number,
                                 .flags = part->last ? SHARD_FLAG_LAST : 0,
                                 .split = part->split,
                                 .classes = part->classes,
                                 .class_count = (uint32_t)part->class_count,
                                 .class_records = part->class_records,
                                 .meta = part->meta,
                                 .meta_bytes = strlen(part->meta),
                                 .median_side = (uint32_t)part->median_side,
                                 .sums = part->sums};
    uint8_t *bytes;
    size_t n, used;
    sr_data_file again;
    require(sr_contents_encode(&header, part->entries, &bytes, &n) == SR_OK);
    require(sr_contents_decode("again", bytes, n, &again, &used) == SR_OK && used == n);
    require(again.count == part->count && again.file_bytes == part->file_bytes);
    require(again.class_count == part->class_count && strcmp(again.split, part->split) == 0);
    require(part->count == 0 ||
            memcmp(again.entries, part->entries, (size_t)part->count * sizeof *part->entries) == 0);
    sr_data_file_release(&again);
    sr_free(bytes);
}

static void fuzz_contents(uint8_t *data, size_t size) {
    sr_data_file part;
    size_t used;
    repair(data, size);
    if (sr_contents_decode("table", data, size, &part, &used) != SR_OK)
        return;
    require(used <= size);
    check_again(&part);
    sr_data_file_release(&part);
}

// -- LMDB files --------------------------------------------------------------------------------

static void repair_contents(int fd, const char *path, uint8_t *data, size_t size) {
    sr_lmdb file;
    uint64_t offset, bytes;
    if (sr_lmdb_open(fd, path, &file) != SR_OK ||
        sr_lmdb_find(&file, SR_LMDB_CONTENTS, strlen(SR_LMDB_CONTENTS), &offset, &bytes) != SR_OK)
        return;
    require(offset <= size && bytes <= size - offset); // a value lies within its file
    repair(data + offset, (size_t)bytes);
    require(pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void read_all(const char *path) {
    sr_dataset *set;
    if (sr_dataset_open(path, NULL, &set) != SR_OK)
        return;
    for (int64_t i = 0; i < sr_dataset_count(set); i++) {
        const void *record;
        size_t bytes;
        (void)!sr_dataset_read(set, i, &record, &bytes);
    }
    sr_dataset_free(set);
}

static void fuzz_lmdb(uint8_t *data, size_t size) {
    char path[64];
    int fd = memfd_create("store", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    repair_contents(fd, path, data, size);
    read_all(path);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    uint8_t *copy = sr_alloc(size, "input");
    require(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    if (data[0] % 3 == 0)
        fuzz_property(copy, size - 1);
    else if (data[0] % 3 == 1)
        fuzz_contents(copy, size - 1);
    else
        fuzz_lmdb(copy, size - 1);
    sr_free(copy);
    return 0;
}
