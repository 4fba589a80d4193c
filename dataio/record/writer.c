// SPDX-License-Identifier: Apache-2.0
// The writer of data sets (interface: shard.h): checks each record, collects the contents of
// headers, and passes the bytes to a store (store_internal.h), file by file.
//
// The index is kept in memory, 24 bytes per record. The bytes of the result are a function of the
// records and options alone: they contain no time, host or process.
#include <stdlib.h>
#include <string.h>

#include "dataio/record/record.h"
#include "dataio/record/record_facts_internal.h"
#include "dataio/record/store_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"

// -- opening -----------------------------------------------------------------------------------

static sr_status find_store(const char *name, const sr_store **out) {
    sr_text known;
    sr_text_init(&known);
    for (size_t i = 0; (*out = sr_store_at(i)) != NULL; i++) {
        if (name == NULL || strcmp(name, (*out)->name) == 0)
            break;
        sr_text_add(&known, "%s%s", i ? ", " : "", (*out)->name);
    }
    sr_status status = SR_OK;
    if (*out == NULL)
        status =
            SR_FAIL(SR_E_USAGE, "format '%s' cannot be written; supported: %s", name, known.data);
    sr_text_release(&known);
    return status;
}

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

static sr_status prepare(sr_writer *writer, const sr_writer_options *options) {
    const char *split = options->split ? options->split : "train";
    if (strlen(split) == 0 || strlen(split) > SR_SPLIT_MAX || strpbrk(split, "/-") != NULL ||
        split[0] == '.')
        return SR_FAIL(
            SR_E_USAGE,
            "'%s' is not a valid split name: 1 to %d characters without / and -, no dot first",
            split, SR_SPLIT_MAX);
    SR_TRY(find_store(options->format, &writer->store));
    writer->state = sr_arena_alloc(&writer->arena, writer->store->state_bytes);
    writer->folder = sr_arena_strdup(&writer->arena, options->folder);
    writer->header.split = sr_arena_strdup(&writer->arena, split);
    if (writer->state == NULL || writer->folder == NULL || writer->header.split == NULL)
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
    if (sr_shard_header_bytes(&writer->header) == 0)
        return SR_FAIL(SR_E_LIMIT, "protocol and class names need more than %u MiB",
                       SHARD_HEADER_MAX >> 20);
    return writer->store->refuse(writer);
}

sr_status sr_writer_open(const sr_writer_options *options, sr_writer **out) {
    sr_writer *writer = sr_alloc(sizeof *writer, "writer of a data set");
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

// -- one data file ------------------------------------------------------------------------------

static sr_status begin_file(sr_writer *writer) {
    writer->header.records = 0;
    writer->header.sums = (sr_channel_sums){0};
    writer->side_count = 0;
    memset(writer->class_records, 0, sizeof *writer->class_records * writer->header.class_count);
    writer->open = true; // also on failure: there may be something to remove
    return writer->store->begin(writer);
}

static int compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static sr_status finish_file(sr_writer *writer, bool last) {
    if (writer->side_count > 0)
        qsort(writer->sides, writer->side_count, sizeof(uint32_t), compare_u32);
    writer->header.median_side =
        writer->side_count ? ((uint32_t *)writer->sides)[writer->side_count / 2] : 0;
    writer->header.flags = last ? SHARD_FLAG_LAST : 0;
    SR_TRY(writer->store->end(writer, last));
    writer->open = false;
    writer->header.first_record += writer->header.records;
    writer->header.number++;
    return SR_OK;
}

// -- records -----------------------------------------------------------------------------------

static sr_status take_facts(sr_writer *writer, const sr_record_facts *facts) {
    if (facts->side > 0) {
        SR_TRY(sr_grow(&writer->sides, &writer->side_capacity, writer->side_count + 1,
                       sizeof(uint32_t), "sides"));
        ((uint32_t *)writer->sides)[writer->side_count++] = facts->side;
    }
    if (facts->has_label && writer->header.class_count > 0)
        writer->class_records[facts->label]++;
    return SR_OK;
}

static sr_status write_record(sr_writer *writer, const void *record, size_t bytes,
                              const sr_record_facts *facts) {
    if (writer->open && !writer->store->one_file && writer->header.records > 0 &&
        writer->at + bytes > writer->target)
        SR_TRY(finish_file(writer, false));
    if (!writer->open)
        SR_TRY(begin_file(writer));
    size_t n = (size_t)writer->header.records;
    SR_TRY(sr_grow(&writer->entries, &writer->entry_capacity, n + 1, sizeof(sr_index_entry),
                   "shard index"));
    SR_TRY(take_facts(writer, facts));
    SR_TRY(writer->store->append(writer, record, bytes));
    ((sr_index_entry *)writer->entries)[n] =
        (sr_index_entry){.offset = writer->at, .bytes = bytes, .hash = sr_hash64(record, bytes)};
    writer->at += bytes;
    writer->header.records++;
    return SR_OK;
}

sr_status sr_writer_append(sr_writer *writer, const void *record, size_t bytes) {
    sr_record_facts facts = {0};
    SR_TRY(sr_protocol_check(writer->protocol, record, bytes));
    SR_TRY(sr_record_facts_read(record, bytes, &facts));
    if (writer->header.class_count > 0)
        SR_TRY(sr_record_facts_check(&facts, writer->header.class_count));
    if (writer->broken != SR_OK)
        return SR_FAIL(writer->broken, "%s: the writer failed earlier", writer->folder);
    writer->broken = write_record(writer, record, bytes, &facts);
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
        status = SR_FAIL(writer->broken, "%s: the writer failed earlier", writer->folder);
    else if (!writer->open)
        status = SR_FAIL(SR_E_DATA, "%s: no record was written to split '%s'", writer->folder,
                         writer->header.split);
    else
        status = finish_file(writer, true);
    sr_writer_abort(writer);
    return status;
}

void sr_writer_abort(sr_writer *writer) {
    if (writer == NULL)
        return;
    if (writer->open)
        writer->store->abort(writer);
    sr_free(writer->entries);
    sr_free(writer->sides);
    sr_text_release(&writer->meta);
    sr_arena_release(&writer->arena);
    sr_free(writer);
}
