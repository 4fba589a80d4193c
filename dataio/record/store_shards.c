// SPDX-License-Identifier: Apache-2.0
// Writes shards (format and durability: shard.h).
//
// Records go straight to the temporary file; index and footer follow at the end; then the header,
// whose length was fixed at the start, is put in front.
#include <string.h>

#include "dataio/record/store_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"

typedef struct shards_state {
    sr_atomic_file file;
    uint32_t header_bytes;
} shards_state;

static char *shard_path(const sr_writer *writer, uint32_t number) {
    char name[SR_SHARD_NAME_MAX];
    return sr_path_join(writer->folder, sr_shard_file_name(writer->header.split, number, name));
}

static sr_status refuse_shards(const sr_writer *writer) {
    char *path = shard_path(writer, writer->header.number);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (sr_path_exists(path))
        status = SR_FAIL(SR_E_EXISTS, "%s exists; write to another folder or remove it", path);
    sr_free(path);
    return status;
}

static sr_status begin_shard(sr_writer *writer) {
    static const uint8_t zeros[4096];
    shards_state *state = writer->state;
    state->file = (sr_atomic_file){.fd = -1};
    char *path = shard_path(writer, writer->header.number);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_atomic_open(&state->file, path);
    sr_free(path);
    SR_TRY(status);
    state->header_bytes = sr_shard_header_bytes(&writer->header);
    for (uint32_t left = state->header_bytes; left > 0;) {
        uint32_t n = left < sizeof zeros ? left : (uint32_t)sizeof zeros;
        SR_TRY(sr_atomic_write(&state->file, zeros, n));
        left -= n;
    }
    writer->at = state->header_bytes;
    return SR_OK;
}

static sr_status append_shard(sr_writer *writer, const void *record, size_t bytes) {
    shards_state *state = writer->state;
    return sr_atomic_write(&state->file, record, bytes);
}

static sr_status write_index(sr_writer *writer) {
    shards_state *state = writer->state;
    size_t n = (size_t)writer->header.records, bytes = n * SHARD_ENTRY_BYTES + SHARD_FOOTER_BYTES;
    uint8_t *index = sr_alloc(bytes, "shard index");
    if (index == NULL)
        return SR_E_MEMORY;
    sr_shard_index_encode(writer->entries, n, writer->at, index);
    sr_status status = sr_atomic_write(&state->file, index, bytes);
    writer->header.file_bytes = writer->at + bytes;
    sr_free(index);
    return status;
}

static sr_status write_header(sr_writer *writer) {
    shards_state *state = writer->state;
    uint8_t *bytes = sr_alloc(state->header_bytes, "shard header");
    if (bytes == NULL)
        return SR_E_MEMORY;
    sr_shard_header_encode(&writer->header, bytes);
    sr_status status = sr_atomic_write_at(&state->file, 0, bytes, state->header_bytes);
    sr_free(bytes);
    return status;
}

static void abort_shard(sr_writer *writer) {
    shards_state *state = writer->state;
    sr_atomic_abort(&state->file);
}

static sr_status end_shard(sr_writer *writer, bool last) {
    shards_state *state = writer->state;
    (void)last; // it is a flag of the header
    SR_TRY(write_index(writer));
    SR_TRY(write_header(writer));
    SR_TRY(sr_atomic_commit(&state->file));
    sr_atomic_abort(&state->file);
    return SR_OK;
}

const sr_store sr_store_shards = {
    .struct_size = sizeof(sr_store),
    .abi = SR_STORE_ABI,
    .name = "shards",
    .help = "SPLIT-NNNNN.kpl of a target size",
    .state_bytes = sizeof(shards_state),
    .refuse = refuse_shards,
    .begin = begin_shard,
    .append = append_shard,
    .end = end_shard,
    .abort = abort_shard,
};
