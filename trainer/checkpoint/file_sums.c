// SPDX-License-Identifier: Apache-2.0
// Chunk checksums of checkpoint files: computed while writing; compared when a file is read back,
// when a generation is chosen, and in the memory from which values are used.
//
// They detect damage, not malice: a program that can write the file can write its sums, too.
#include "trainer/checkpoint/file_sums.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"

sr_status sr_file_sums_add(sr_file_sums *sums, const void *chunk, size_t bytes) {
    void *chunks = sums->chunks;
    SR_TRY(sr_grow(&chunks, &sums->capacity, sums->count + 1, sizeof *sums->chunks,
                   "chunk checksums"));
    sums->chunks = chunks;
    sums->chunks[sums->count++] = sr_hash64(chunk, bytes);
    sums->bytes += bytes;
    return SR_OK;
}

sr_status sr_file_sums_finish(sr_file_sums *sums) {
    uint8_t *little = sr_alloc_array(sums->count, 8, "chunk checksums");
    if (little == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < sums->count; ++i)
        for (unsigned k = 0; k < 8; ++k)
            little[8 * i + k] = (uint8_t)(sums->chunks[i] >> (8 * k));
    sums->total = sr_hash64_seed(little, 8 * sums->count, sums->bytes);
    sr_free(little);
    return SR_OK;
}

void sr_file_sums_release(sr_file_sums *sums) {
    sr_free(sums->chunks);
    memset(sums, 0, sizeof *sums);
}

sr_status sr_file_sums_copy(const sr_file_sums *sums, sr_file_sums *out) {
    sr_file_sums copy = *sums;
    copy.chunks = sr_alloc_array(sums->count, sizeof *copy.chunks, "chunk checksums");
    if (copy.chunks == NULL)
        return SR_E_MEMORY;
    copy.capacity = sums->count;
    if (sums->count > 0)
        memcpy(copy.chunks, sums->chunks, sums->count * sizeof *copy.chunks);
    *out = copy;
    return SR_OK;
}

// -- reading ---------------------------------------------------------------------------------

static uint64_t chunk_begin(size_t index) {
    return (uint64_t)index * SR_SUM_CHUNK_BYTES;
}

static size_t chunk_bytes(const sr_file_sums *sums, size_t index) {
    uint64_t left = sums->bytes - chunk_begin(index);
    return left < SR_SUM_CHUNK_BYTES ? (size_t)left : SR_SUM_CHUNK_BYTES;
}

static sr_status read_chunk(int fd, const char *path, const sr_file_sums *sums, size_t index,
                            void *out) {
    uint64_t begin = chunk_begin(index);
    size_t bytes = chunk_bytes(sums, index);
    SR_TRY(sr_file_read_at(fd, path, begin, out, bytes));
    if (sr_hash64(out, bytes) == sums->chunks[index])
        return SR_OK;
    return SR_FAIL(SR_E_CHECKSUM,
                   "%s: damaged at bytes %llu to %llu: bits changed since it was "
                   "written",
                   path, (unsigned long long)begin, (unsigned long long)(begin + bytes - 1));
}

static sr_status fill_buffer(int fd, const char *path, const sr_file_sums *sums, size_t index,
                             sr_sum_buffer *buffer) {
    if (buffer->bytes > 0 && buffer->index == index)
        return SR_OK;
    buffer->bytes = 0;
    if (buffer->chunk == NULL)
        buffer->chunk = sr_alloc(chunk_bytes(sums, 0), "checksum buffer"); // the longest chunk
    if (buffer->chunk == NULL)
        return SR_E_MEMORY;
    SR_TRY(read_chunk(fd, path, sums, index, buffer->chunk));
    buffer->bytes = chunk_bytes(sums, index);
    buffer->index = index;
    return SR_OK;
}

sr_status sr_file_sums_read_at(int fd, const char *path, const sr_file_sums *sums,
                               sr_sum_buffer *buffer, uint64_t offset, void *out, size_t bytes) {
    uint8_t *to = out;
    while (bytes > 0) {
        size_t index = (size_t)(offset / SR_SUM_CHUNK_BYTES);
        size_t inside = (size_t)(offset - chunk_begin(index));
        size_t whole = chunk_bytes(sums, index);
        size_t take = bytes < whole - inside ? bytes : whole - inside;
        if (take == whole) { // a whole chunk needs no copy
            SR_TRY(read_chunk(fd, path, sums, index, to));
        } else {
            SR_TRY(fill_buffer(fd, path, sums, index, buffer));
            memcpy(to, buffer->chunk + inside, take);
        }
        to += take;
        offset += take;
        bytes -= take;
    }
    return SR_OK;
}

void sr_sum_buffer_release(sr_sum_buffer *buffer) {
    sr_free(buffer->chunk);
    *buffer = (sr_sum_buffer){0};
}

sr_status sr_file_sums_check_length(const char *path, const sr_file_sums *sums, uint64_t length) {
    if (length == sums->bytes)
        return SR_OK;
    return SR_FAIL(SR_E_CHECKSUM, "%s: %llu bytes long, but %llu bytes were written", path,
                   (unsigned long long)length, (unsigned long long)sums->bytes);
}

// -- checking a whole file -------------------------------------------------------------------

static sr_status compare_chunks(int fd, const char *path, const sr_file_sums *sums, void *buffer,
                                sr_file_damage *damage) {
    *damage = (sr_file_damage){0};
    for (size_t i = 0; i < sums->count; ++i) {
        uint64_t begin = chunk_begin(i);
        size_t bytes = chunk_bytes(sums, i);
        SR_TRY(sr_file_read_at(fd, path, begin, buffer, bytes));
        if (sr_hash64(buffer, bytes) == sums->chunks[i])
            continue;
        if (damage->chunks++ == 0) {
            damage->begin = begin;
            damage->end = begin + bytes;
        }
    }
    if (damage->chunks == 0)
        return SR_OK;
    return SR_FAIL(SR_E_CHECKSUM,
                   "%s: damaged in %zu of %zu chunks, first at bytes %llu to %llu: bits changed "
                   "since it was written",
                   path, damage->chunks, sums->count, (unsigned long long)damage->begin,
                   (unsigned long long)damage->end - 1);
}

// Whether the length is that of the sums; otherwise *damage is what is missing or too much.
static sr_status compare_length(int fd, const char *path, const sr_file_sums *sums,
                                sr_file_damage *damage) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return SR_FAIL(SR_E_IO, "%s: %s", path, strerror(errno));
    const uint64_t length = (uint64_t)info.st_size;
    if (length != sums->bytes)
        *damage = (sr_file_damage){.begin = length < sums->bytes ? length : sums->bytes,
                                   .end = length < sums->bytes ? sums->bytes : length,
                                   .chunks = 1};
    return sr_file_sums_check_length(path, sums, length);
}

sr_status sr_file_sums_check_open(int fd, const char *path, const sr_file_sums *sums,
                                  sr_file_damage *damage) {
    *damage = (sr_file_damage){0};
    SR_TRY(compare_length(fd, path, sums, damage));
    void *buffer =
        sr_alloc(sums->bytes < SR_SUM_CHUNK_BYTES ? (size_t)sums->bytes : SR_SUM_CHUNK_BYTES,
                 "checksum buffer");
    if (buffer == NULL)
        return SR_E_MEMORY;
    // Only a hint: drops clean pages, so that the disk is read and not the cache of what was just
    // written.
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const sr_status status = compare_chunks(fd, path, sums, buffer, damage);
    sr_free(buffer);
    return status;
}

sr_status sr_file_sums_check(const char *path, const sr_file_sums *sums, sr_file_damage *damage) {
    sr_file_damage own;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return SR_FAIL(errno == ENOENT ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s", path, strerror(errno));
    const sr_status status = sr_file_sums_check_open(fd, path, sums, damage ? damage : &own);
    close(fd);
    return status;
}
