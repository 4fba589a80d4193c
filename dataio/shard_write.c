// SPDX-License-Identifier: Apache-2.0
// The writer of shards (format and durability: shard.h).
//
// Records go straight to the temporary file; the index is kept in memory (24 bytes a record) and
// follows at the end; then the header, whose length was fixed at the start, is put in front. The
// bytes are a function of the records and options alone: no time, host or process is in them.
#include <stdlib.h>
#include <string.h>

#include "dataio/protocol.h"
#include "dataio/record.h"
#include "dataio/shard_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"

struct sr_writer {
    sr_arena arena; // names, protocol
    sr_text meta;
    const sr_type *protocol;
    char *folder;
    uint64_t target;
    shard_header header; // of the shard that is being written
    uint64_t *class_records;
    uint32_t header_bytes;

    sr_atomic_file file;
    bool open;
    sr_status broken; // of the first failed write; nothing is finished after it
    uint64_t at;      // next record's offset
    void *entries, *sides;
    size_t entry_capacity, side_count, side_capacity;
};

// -- opening -----------------------------------------------------------------------------------

static sr_status copy_classes(sr_writer *writer, const sr_writer_options *options) {
    size_t n = (size_t)options->class_count;
    const char **names = sr_arena_alloc(&writer->arena, n * sizeof *names);
    writer->class_records = sr_arena_alloc(&writer->arena, n * sizeof *writer->class_records);
    if (names == NULL || writer->class_records == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        if ((names[i] = sr_arena_strdup(&writer->arena, options->classes[i])) == NULL)
            return SR_E_MEMORY;
    writer->header.classes = names;
    writer->header.class_count = (uint32_t)n;
    writer->header.class_records = writer->class_records;
    return SR_OK;
}

static sr_status refuse_existing(const sr_writer *writer) {
    char name[SR_SHARD_NAME_MAX];
    char *path = sr_path_join(
        writer->folder, sr_shard_file_name(writer->header.split, writer->header.number, name));
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (sr_path_exists(path))
        status = SR_FAIL(SR_E_EXISTS, "%s exists; write to another folder or remove it", path);
    sr_free(path);
    return status;
}

static sr_status prepare(sr_writer *writer, const sr_writer_options *options) {
    const char *split = options->split ? options->split : "train";
    if (strlen(split) == 0 || strlen(split) > SR_SPLIT_MAX || strpbrk(split, "/-") != NULL)
        return SR_FAIL(SR_E_USAGE, "'%s' is no name of a split: 1 to %d characters without / and -",
                       split, SR_SPLIT_MAX);
    writer->folder = sr_arena_strdup(&writer->arena, options->folder);
    writer->header.split = sr_arena_strdup(&writer->arena, split);
    if (writer->folder == NULL || writer->header.split == NULL)
        return SR_E_MEMORY;
    writer->header.number = options->first_shard;
    writer->header.first_record = options->first_record;
    writer->target = options->target_bytes ? options->target_bytes : SR_SHARD_TARGET_BYTES;
    SR_TRY(sr_protocol_parse(options->protocol ? options->protocol : SR_SAMPLE_PROTOCOL,
                             &writer->arena, &writer->protocol));
    sr_meta_print(writer->protocol, "root", &writer->meta);
    SR_TRY(sr_text_check(&writer->meta));
    writer->header.meta = writer->meta.data;
    writer->header.meta_bytes = writer->meta.length;
    SR_TRY(copy_classes(writer, options));
    writer->header_bytes = sr_shard_header_bytes(&writer->header);
    if (writer->header_bytes == 0)
        return SR_FAIL(SR_E_LIMIT, "protocol and class names need more than %u MiB",
                       SHARD_HEADER_MAX >> 20);
    return refuse_existing(writer);
}

sr_status sr_writer_open(const sr_writer_options *options, sr_writer **out) {
    sr_writer *writer = sr_alloc(sizeof *writer, "shard writer");
    if (writer == NULL)
        return SR_E_MEMORY;
    sr_arena_init(&writer->arena);
    sr_text_init(&writer->meta);
    sr_status status = prepare(writer, options);
    if (status != SR_OK) {
        sr_writer_abort(writer);
        return status;
    }
    *out = writer;
    return SR_OK;
}

// -- one shard ---------------------------------------------------------------------------------

static sr_status begin_shard(sr_writer *writer) {
    static const uint8_t zeros[4096];
    char name[SR_SHARD_NAME_MAX];
    char *path = sr_path_join(
        writer->folder, sr_shard_file_name(writer->header.split, writer->header.number, name));
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_atomic_open(&writer->file, path);
    sr_free(path);
    if (status != SR_OK)
        return status;
    writer->open = true;
    for (uint32_t left = writer->header_bytes; left > 0;) {
        uint32_t n = left < sizeof zeros ? left : (uint32_t)sizeof zeros;
        SR_TRY(sr_atomic_write(&writer->file, zeros, n));
        left -= n;
    }
    writer->at = writer->header_bytes;
    writer->header.records = 0;
    writer->header.sums = (sr_channel_sums){0};
    writer->side_count = 0;
    memset(writer->class_records, 0, sizeof *writer->class_records * writer->header.class_count);
    return SR_OK;
}

static int compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static sr_status write_header(sr_writer *writer) {
    uint8_t *bytes = sr_alloc(writer->header_bytes, "shard header");
    if (bytes == NULL)
        return SR_E_MEMORY;
    if (writer->side_count > 0)
        qsort(writer->sides, writer->side_count, sizeof(uint32_t), compare_u32);
    writer->header.median_side =
        writer->side_count ? ((uint32_t *)writer->sides)[writer->side_count / 2] : 0;
    sr_shard_header_encode(&writer->header, bytes);
    sr_status status = sr_atomic_write_at(&writer->file, 0, bytes, writer->header_bytes);
    sr_free(bytes);
    return status;
}

static sr_status write_index(sr_writer *writer) {
    size_t n = writer->header.records, bytes = n * SHARD_ENTRY_BYTES;
    const sr_shard_entry *entries = writer->entries;
    uint8_t *index = sr_alloc(bytes + SHARD_FOOTER_BYTES, "shard index");
    if (index == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < n; i++) {
        put_u64(index + i * SHARD_ENTRY_BYTES, entries[i].offset);
        put_u64(index + i * SHARD_ENTRY_BYTES + 8, entries[i].bytes);
        put_u64(index + i * SHARD_ENTRY_BYTES + 16, entries[i].hash);
    }
    uint8_t *footer = index + bytes;
    put_u64(footer, writer->at);
    put_u64(footer + 8, n);
    put_u64(footer + 16, sr_hash64(index, bytes));
    memcpy(footer + 24, sr_shard_end_magic, 8);
    put_u64(footer + 32, sr_hash64(footer, 32));
    sr_status status = sr_atomic_write(&writer->file, index, bytes + SHARD_FOOTER_BYTES);
    writer->header.file_bytes = writer->at + bytes + SHARD_FOOTER_BYTES;
    sr_free(index);
    return status;
}

static sr_status finish_shard(sr_writer *writer, bool last) {
    writer->header.flags = last ? SHARD_FLAG_LAST : 0;
    SR_TRY(write_index(writer));
    SR_TRY(write_header(writer));
    SR_TRY(sr_atomic_commit(&writer->file));
    sr_atomic_abort(&writer->file);
    writer->open = false;
    writer->header.first_record += writer->header.records;
    writer->header.number++;
    return SR_OK;
}

// -- records -----------------------------------------------------------------------------------

// Shorter side and label, where the record's keys say them (schemas of record.h).
static sr_status take_facts(sr_writer *writer, const void *record, size_t bytes) {
    sr_record_cursor entries = sr_record_entries(record, bytes);
    sr_feature shape, height, width, label;
    int64_t sides[2] = {0, 0}, number = -1;
    size_t count = 0;
    SR_TRY(sr_record_find(entries, "shape", &shape));
    SR_TRY(sr_record_find(entries, "height", &height));
    SR_TRY(sr_record_find(entries, "width", &width));
    SR_TRY(sr_record_find(entries, "label", &label));
    if (shape.kind == SR_FEATURE_LIST) {
        SR_TRY(sr_feature_int64s(&shape, sides, 2, &count));
    } else {
        sides[0] = height.i64;
        sides[1] = width.i64;
    }
    int64_t side = sides[0] < sides[1] ? sides[0] : sides[1];
    if (side > 0 && side <= UINT32_MAX) {
        SR_TRY(sr_grow(&writer->sides, &writer->side_capacity, writer->side_count + 1,
                       sizeof(uint32_t), "sides"));
        ((uint32_t *)writer->sides)[writer->side_count++] = (uint32_t)side;
    }
    if (label.kind != SR_FEATURE_LIST || writer->header.class_count == 0)
        return SR_OK;
    SR_TRY(sr_feature_int64s(&label, &number, 1, &count));
    if (count > 0)
        writer->class_records[number]++;
    return SR_OK;
}

static sr_status check_label(const sr_writer *writer, const void *record, size_t bytes) {
    sr_feature label;
    int64_t number = 0;
    size_t count = 0;
    SR_TRY(sr_record_find(sr_record_entries(record, bytes), "label", &label));
    if (label.kind != SR_FEATURE_LIST || writer->header.class_count == 0)
        return SR_OK;
    SR_TRY(sr_feature_int64s(&label, &number, 1, &count));
    if (count > 0 && (number < 0 || number >= writer->header.class_count))
        return SR_FAIL(SR_E_DATA, "label %lld is none of the %u classes", (long long)number,
                       writer->header.class_count);
    return SR_OK;
}

static sr_status write_record(sr_writer *writer, const void *record, size_t bytes) {
    if (writer->open && writer->header.records > 0 && writer->at + bytes > writer->target)
        SR_TRY(finish_shard(writer, false));
    if (!writer->open)
        SR_TRY(begin_shard(writer));
    size_t n = writer->header.records;
    SR_TRY(sr_grow(&writer->entries, &writer->entry_capacity, n + 1, sizeof(sr_shard_entry),
                   "shard index"));
    SR_TRY(take_facts(writer, record, bytes));
    SR_TRY(sr_atomic_write(&writer->file, record, bytes));
    ((sr_shard_entry *)writer->entries)[n] =
        (sr_shard_entry){.offset = writer->at, .bytes = bytes, .hash = sr_hash64(record, bytes)};
    writer->at += bytes;
    writer->header.records++;
    return SR_OK;
}

sr_status sr_writer_append(sr_writer *writer, const void *record, size_t bytes) {
    SR_TRY(sr_protocol_check(writer->protocol, record, bytes));
    SR_TRY(check_label(writer, record, bytes));
    if (writer->broken != SR_OK)
        return SR_FAIL(writer->broken, "%s: the writer has failed before", writer->folder);
    writer->broken = write_record(writer, record, bytes);
    return writer->broken;
}

uint32_t sr_writer_shard(const sr_writer *writer) {
    return writer->header.number;
}

void sr_writer_add_sums(sr_writer *writer, const sr_channel_sums *sums) {
    sr_channel_sums_add(&writer->header.sums, sums);
}

sr_status sr_writer_close(sr_writer *writer) {
    sr_status status;
    if (writer->broken != SR_OK)
        status = SR_FAIL(writer->broken, "%s: the writer has failed before", writer->folder);
    else if (!writer->open)
        status = SR_FAIL(SR_E_DATA, "%s: no record was written to split '%s'", writer->folder,
                         writer->header.split);
    else
        status = finish_shard(writer, true);
    sr_writer_abort(writer);
    return status;
}

void sr_writer_abort(sr_writer *writer) {
    if (writer == NULL)
        return;
    if (writer->open)
        sr_atomic_abort(&writer->file);
    sr_free(writer->entries);
    sr_free(writer->sides);
    sr_text_release(&writer->meta);
    sr_arena_release(&writer->arena);
    sr_free(writer);
}
