// SPDX-License-Identifier: Apache-2.0
// Loading a shard's header and index, with every value checked (format: shard.h).
//
// Files are read with pread only: reading a mapped file that is truncated kills the process.
// Lengths from the file are used only after they agree with the length of the file or with a
// checksum.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/record/file_stamp_internal.h"
#include "dataio/record/shard_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"

// First 16 bytes: magic, version, length of the header.
static sr_status check_start(int fd, uint64_t actual, const sr_data_file *shard, uint32_t *bytes) {
    uint8_t start[16];
    if (actual < sizeof start)
        return SR_FAIL(SR_E_DATA, "%s: only %llu bytes: truncated, or not a shard", shard->path,
                       (unsigned long long)actual);
    SR_TRY(sr_file_read_at(fd, shard->path, 0, start, sizeof start));
    if (memcmp(start, sr_shard_magic, 8) != 0)
        return SR_FAIL(SR_E_DATA, "%s: not a serried shard: the first 8 bytes are wrong",
                       shard->path);
    *bytes = get_u32(start + 12);
    if (*bytes % 8 != 0 || *bytes < SHARD_HEADER_FIXED + 8 || *bytes > SHARD_HEADER_MAX)
        return SR_FAIL(SR_E_CHECKSUM, "%s: header: its length, %u, is impossible", shard->path,
                       *bytes);
    if (*bytes > actual)
        return SR_FAIL(SR_E_DATA, "%s: truncated at byte %llu, inside the header", shard->path,
                       (unsigned long long)actual);
    return SR_OK;
}

sr_status sr_shard_header_check(const uint8_t *data, uint32_t bytes, sr_data_file *shard) {
    if (sr_hash64(data, bytes - 8) != get_u64(data + bytes - 8))
        return SR_FAIL(SR_E_CHECKSUM, "%s: header: bits have changed; pack again or restore a copy",
                       shard->path);
    if (get_u32(data + 8) != SR_SHARD_VERSION)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s: shard version %u; this serried reads version %d",
                       shard->path, get_u32(data + 8), SR_SHARD_VERSION);
    return sr_shard_header_decode(data, bytes, shard);
}

static sr_status check_header(const uint8_t *data, uint32_t bytes, uint64_t actual,
                              sr_data_file *shard) {
    SR_TRY(sr_shard_header_check(data, bytes, shard));
    if (shard->file_bytes != actual)
        return SR_FAIL(SR_E_DATA, "%s: has %llu bytes, its header says %llu: %s", shard->path,
                       (unsigned long long)actual, (unsigned long long)shard->file_bytes,
                       actual < shard->file_bytes ? "truncated" : "something was appended");
    uint64_t tail = (uint64_t)shard->count * SHARD_ENTRY_BYTES + SHARD_FOOTER_BYTES;
    if (tail > actual - bytes)
        return SR_FAIL(SR_E_DATA, "%s: header: %lld records do not fit into the file", shard->path,
                       (long long)shard->count);
    return SR_OK;
}

sr_status sr_shard_load_header(int fd, uint64_t actual, sr_data_file *shard,
                               uint64_t *header_bytes) {
    uint32_t bytes = 0;
    SR_TRY(check_start(fd, actual, shard, &bytes));
    uint8_t *data = sr_alloc(bytes, "shard header");
    if (data == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_read_at(fd, shard->path, 0, data, bytes);
    if (status == SR_OK)
        status = check_header(data, bytes, actual, shard);
    sr_free(data);
    *header_bytes = bytes;
    return status;
}

static sr_status check_footer(const uint8_t *footer, uint64_t index_offset,
                              const sr_data_file *shard) {
    if (sr_hash64(footer, 32) != get_u64(footer + 32) ||
        memcmp(footer + 24, sr_shard_end_magic, 8) != 0)
        return SR_FAIL(SR_E_CHECKSUM, "%s: footer: bits have changed", shard->path);
    if (get_u64(footer) != index_offset || get_u64(footer + 8) != (uint64_t)shard->count)
        return SR_FAIL(SR_E_DATA, "%s: footer: does not match the header", shard->path);
    return SR_OK;
}

// The first entry that does not continue where the one before ended, or -1.
static int64_t first_gap(const sr_data_file *shard, uint64_t begin, uint64_t end) {
    uint64_t at = begin;
    for (int64_t i = 0; i < shard->count; i++) {
        const sr_index_entry *e = &shard->entries[i];
        if (e->offset != at || e->bytes > end - at)
            return i;
        at += e->bytes;
    }
    return at == end ? -1 : shard->count - 1;
}

sr_status sr_shard_index_decode(const uint8_t *index, uint64_t begin, uint64_t end,
                                sr_data_file *shard) {
    size_t bytes = (size_t)shard->count * SHARD_ENTRY_BYTES;
    SR_TRY(check_footer(index + bytes, end, shard));
    shard->entries = sr_alloc_array((size_t)shard->count, sizeof *shard->entries, "shard index");
    if (shard->entries == NULL)
        return SR_E_MEMORY;
    for (int64_t i = 0; i < shard->count; i++) {
        const uint8_t *e = index + (size_t)i * SHARD_ENTRY_BYTES;
        shard->entries[i] = (sr_index_entry){get_u64(e), get_u64(e + 8), get_u64(e + 16)};
    }
    bool changed = sr_hash64(index, bytes) != get_u64(index + bytes + 16);
    int64_t gap = first_gap(shard, begin, end);
    if (gap >= 0)
        return SR_FAIL(changed ? SR_E_CHECKSUM : SR_E_DATA,
                       "%s: index: the entry of record %lld %s", shard->path, (long long)gap,
                       changed ? "has changed bits" : "does not match its neighbours");
    if (changed)
        return SR_FAIL(SR_E_CHECKSUM, "%s: index: bits of a stored checksum have changed",
                       shard->path);
    return SR_OK;
}

sr_status sr_shard_load_index(int fd, uint64_t header_bytes, sr_data_file *shard) {
    size_t bytes = (size_t)shard->count * SHARD_ENTRY_BYTES + SHARD_FOOTER_BYTES;
    uint64_t offset = shard->file_bytes - bytes;
    uint8_t *index = sr_alloc(bytes, "shard index");
    sr_status status = index ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_file_read_at(fd, shard->path, offset, index, bytes);
    if (status == SR_OK)
        status = sr_shard_index_decode(index, header_bytes, offset, shard);
    sr_free(index);
    return status;
}

static sr_status open_shard(const char *path, int *fd, sr_file_stamp *stamp) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // opening a pipe must not block
    if (*fd < 0)
        return SR_FAIL(errno == ENOENT || errno == ENOTDIR ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s",
                       path, strerror(errno));
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(*fd);
        return SR_FAIL(SR_E_DATA, "%s: not a regular file, so not a shard", path);
    }
    *stamp = sr_file_stamp_of(&info);
    return SR_OK;
}

sr_status sr_shard_load(const char *path, sr_data_file *out) {
    sr_data_file shard = {0};
    uint64_t header_bytes = 0;
    int fd = -1;
    SR_TRY(open_shard(path, &fd, &shard.stamp));
    sr_arena_init(&shard.arena);
    shard.path = sr_arena_strdup(&shard.arena, path);
    sr_status status = shard.path ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK) {
        const char *slash = strrchr(shard.path, '/');
        shard.name = slash ? slash + 1 : shard.path;
        status = sr_shard_load_header(fd, shard.stamp.bytes, &shard, &header_bytes);
    }
    if (status == SR_OK)
        status = sr_shard_load_index(fd, header_bytes, &shard);
    (void)close(fd);
    if (status != SR_OK) {
        sr_data_file_release(&shard);
        return status;
    }
    *out = shard;
    return SR_OK;
}

void sr_data_file_release(sr_data_file *shard) {
    sr_free(shard->entries);
    sr_arena_release(&shard->arena);
    *shard = (sr_data_file){0};
}

bool sr_shard_is(const char *path) {
    uint8_t start[8];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is = pread(fd, start, sizeof start, 0) == (ssize_t)sizeof start &&
              memcmp(start, sr_shard_magic, sizeof start) == 0;
    (void)close(fd);
    return is;
}
