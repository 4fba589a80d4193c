// SPDX-License-Identifier: Apache-2.0
// Tables of contents: header, index and footer of a shard without the records (shard_internal.h).
//
// With them the other containers give the same guarantees by the same code: every bit of the table
// is covered by a checksum, and the table contains a checksum of each record.
#include <string.h>

#include "dataio/record/shard_internal.h"

sr_status sr_contents_encode(const shard_header *header, const sr_index_entry *entries,
                             uint8_t **out, size_t *bytes) {
    size_t n = (size_t)header->records;
    uint32_t header_bytes = sr_shard_header_bytes(header);
    if (header_bytes == 0)
        return SR_FAIL(SR_E_LIMIT, "protocol and class names need more than %u MiB",
                       SHARD_HEADER_MAX >> 20);
    size_t all = header_bytes + n * SHARD_ENTRY_BYTES + SHARD_FOOTER_BYTES;
    uint8_t *data = sr_alloc(all, "table of contents");
    if (data == NULL)
        return SR_E_MEMORY;
    sr_shard_header_encode(header, data);
    sr_shard_index_encode(entries, n, header->file_bytes, data + header_bytes);
    *out = data;
    *bytes = all;
    return SR_OK;
}

static sr_status decode(const uint8_t *data, size_t bytes, sr_data_file *shard, size_t *used) {
    if (bytes < SHARD_HEADER_FIXED + 8 || memcmp(data, sr_shard_magic, 8) != 0)
        return SR_FAIL(SR_E_CHECKSUM, "%s: not a table of contents of serried; restore a copy",
                       shard->path);
    uint32_t header_bytes = get_u32(data + 12);
    if (header_bytes % 8 != 0 || header_bytes < SHARD_HEADER_FIXED + 8 || header_bytes > bytes)
        return SR_FAIL(SR_E_CHECKSUM, "%s: header: its length, %u, is impossible", shard->path,
                       header_bytes);
    SR_TRY(sr_shard_header_check(data, header_bytes, shard));
    size_t left = bytes - header_bytes;
    if (left < SHARD_FOOTER_BYTES ||
        (uint64_t)shard->count > (left - SHARD_FOOTER_BYTES) / SHARD_ENTRY_BYTES)
        return SR_FAIL(SR_E_DATA, "%s: truncated inside the index; restore a copy", shard->path);
    *used = header_bytes + (size_t)shard->count * SHARD_ENTRY_BYTES + SHARD_FOOTER_BYTES;
    return sr_shard_index_decode(data + header_bytes, 0, shard->file_bytes, shard);
}

sr_status sr_contents_decode(const char *path, const uint8_t *data, size_t bytes, sr_data_file *out,
                             size_t *used) {
    sr_data_file shard = {0};
    sr_arena_init(&shard.arena);
    shard.path = sr_arena_strdup(&shard.arena, path);
    sr_status status = shard.path ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK) {
        const char *slash = strrchr(shard.path, '/');
        shard.name = slash ? slash + 1 : shard.path;
        status = decode(data, bytes, &shard, used);
    }
    if (status != SR_OK) {
        sr_data_file_release(&shard);
        return status;
    }
    *out = shard;
    return SR_OK;
}
