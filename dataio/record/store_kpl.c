// SPDX-License-Identifier: Apache-2.0
// Writes a KPLRecord directory for each split (files: kpl_folder_internal.h).
//
// N.index becomes visible last, when all other files are durable; without it neither serried nor
// the original tools read the directory.
#include <string.h>
#include <unistd.h>

#include "dataio/record/kpl_folder_internal.h"
#include "dataio/record/store_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"

typedef struct kpl_state {
    char *folder;
    sr_atomic_file data;
} kpl_state;

static sr_status refuse_kpl(const sr_writer *writer) {
    char stem[KPL_STEM_MAX];
    char *folder = sr_store_split_folder(writer);
    if (folder == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (sr_kpl_find(folder, stem))
        status = SR_FAIL(SR_E_EXISTS,
                         "%s contains a KPLRecord directory; write to another folder or "
                         "remove it",
                         folder);
    sr_free(folder);
    return status;
}

static sr_status begin_kpl(sr_writer *writer) {
    kpl_state *state = writer->state;
    state->data = (sr_atomic_file){.fd = -1};
    SR_TRY(sr_store_make_folder(writer, &state->folder));
    char *path = sr_kpl_path(state->folder, KPL_USUAL_STEM, "data");
    sr_status status = path ? sr_atomic_open(&state->data, path) : SR_E_MEMORY;
    sr_free(path);
    writer->at = 0;
    return status;
}

static sr_status append_kpl(sr_writer *writer, const void *record, size_t bytes) {
    kpl_state *state = writer->state;
    return sr_atomic_write(&state->data, record, bytes);
}

// -- the side files ----------------------------------------------------------------------------

static sr_status make_index(const sr_writer *writer, sr_text *out) {
    const sr_index_entry *entries = writer->entries;
    size_t n = (size_t)writer->header.records;
    uint64_t *offsets = sr_alloc_array(n + 1, sizeof *offsets, "index of a KPLRecord directory");
    if (offsets == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        offsets[i] = entries[i].offset;
    offsets[n] = writer->at;
    sr_status status = sr_index_write(offsets, n, out);
    sr_free(offsets);
    return status;
}

static sr_status make_property(const sr_writer *writer, sr_text *out) {
    const shard_header *h = &writer->header;
    sr_property property = {.classes = h->classes,
                            .class_count = (int)h->class_count,
                            .split = h->split,
                            .median_side = h->median_side};
    property.has_mean = sr_channel_sums_get(&h->sums, property.mean, property.std);
    return sr_property_write(&property, out);
}

static sr_status put_file(const kpl_state *state, const char *extension, const void *data,
                          size_t bytes) {
    char *path = sr_kpl_path(state->folder, KPL_USUAL_STEM, extension);
    sr_status status = path ? sr_file_write_atomic(path, data, bytes) : SR_E_MEMORY;
    sr_free(path);
    return status;
}

static sr_status put_sums(sr_writer *writer, const sr_text *index, const sr_text *property) {
    uint8_t *data;
    size_t bytes;
    writer->header.file_bytes = writer->at;
    const kpl_folder sides = {
        .index.hash = sr_hash64(index->data, index->length),
        .meta.hash = sr_hash64(writer->meta.data, writer->meta.length),
        .prop.hash = sr_hash64(property->data, property->length),
    };
    SR_TRY(sr_kpl_sums_encode(&sides, &writer->header, writer->entries, &data, &bytes));
    sr_status status = put_file(writer->state, "sums", data, bytes);
    sr_free(data);
    return status;
}

static sr_status put_sides(sr_writer *writer, sr_text *index, sr_text *property) {
    const kpl_state *state = writer->state;
    SR_TRY(make_index(writer, index));
    SR_TRY(make_property(writer, property));
    SR_TRY(put_sums(writer, index, property));
    SR_TRY(put_file(state, "meta", writer->meta.data, writer->meta.length));
    SR_TRY(put_file(state, "prop", property->data, property->length));
    return put_file(state, "index", index->data, index->length);
}

static void release(kpl_state *state) {
    sr_atomic_abort(&state->data);
    sr_free(state->folder);
    state->folder = NULL;
}

static sr_status end_kpl(sr_writer *writer, bool last) {
    kpl_state *state = writer->state;
    sr_text index, property;
    (void)last; // there is one file only
    SR_TRY(sr_atomic_commit(&state->data));
    sr_text_init(&index);
    sr_text_init(&property);
    sr_status status = put_sides(writer, &index, &property);
    sr_text_release(&index);
    sr_text_release(&property);
    if (status == SR_OK)
        release(state);
    return status;
}

static sr_status sweep_kpl(const char *folder) {
    static const char *const names[] = {"root.index", "root.data", "root.meta", "root.prop",
                                        "root.sums"};
    return sr_store_remove_files(folder, names, sizeof names / sizeof *names);
}

static void abort_kpl(sr_writer *writer) {
    kpl_state *state = writer->state;
    if (state->folder != NULL)
        (void)sweep_kpl(state->folder); // leftovers are harmless: they have no index
    release(state);
}

const sr_store sr_store_kpl = {
    .struct_size = sizeof(sr_store),
    .abi = SR_STORE_ABI,
    .name = "kpl-dir",
    .help = "a KPLRecord directory for each split, for any protobuf tool",
    .state_bytes = sizeof(kpl_state),
    .one_file = true,
    .refuse = refuse_kpl,
    .begin = begin_kpl,
    .append = append_kpl,
    .end = end_kpl,
    .abort = abort_kpl,
    .sweep = sweep_kpl,
};
