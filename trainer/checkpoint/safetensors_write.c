// SPDX-License-Identifier: Apache-2.0
// Writer of safetensors files: the header, then the buffer, with checksums computed on the way.
//
// Tensors are in the order of the reference writer (falling element size, then name), which keeps
// each aligned. Data is written in whole chunks of 1 MiB, which are also the units of the
// checksums. The file becomes visible at commit (sr_atomic_file); until then an existing file
// stays.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "trainer/checkpoint/file_sums.h"
#include "trainer/checkpoint/safetensors.h"

struct sr_safetensors_writer {
    sr_atomic_file file;
    char *path;
    int count;
    int *order; // k-th stored tensor -> caller's index
    uint64_t total_bytes, put_bytes;
    uint8_t *chunk; // SR_SUM_CHUNK_BYTES, filled to chunk_used
    size_t chunk_used;
    sr_file_sums sums;
    bool open, committed;
};

static const char *dtype_text(sr_dtype dtype) {
    static const char *const names[SR_DTYPE_COUNT] = {
        [SR_F32] = "F32", [SR_BF16] = "BF16", [SR_F16] = "F16", [SR_F64] = "F64",
        [SR_U8] = "U8",   [SR_I8] = "I8",     [SR_I32] = "I32", [SR_I64] = "I64",
    };
    return (unsigned)dtype < SR_DTYPE_COUNT ? names[dtype] : NULL;
}

static sr_status tensor_bytes(const sr_stored_tensor *tensor, uint64_t *bytes) {
    uint64_t product = 1;
    if (tensor->name == NULL || tensor->name[0] == 0 || strcmp(tensor->name, "__metadata__") == 0)
        return SR_FAIL(SR_E_ARGUMENT, "a tensor to store needs a name other than __metadata__");
    if (dtype_text(tensor->dtype) == NULL || tensor->rank < 0 ||
        tensor->rank > SR_SAFETENSORS_MAX_RANK)
        return SR_FAIL(SR_E_ARGUMENT, "tensor '%s': dtype %d or rank %d cannot be stored",
                       tensor->name, (int)tensor->dtype, tensor->rank);
    for (int d = 0; d < tensor->rank; ++d)
        if (tensor->shape[d] < 0 ||
            __builtin_mul_overflow(product, (uint64_t)tensor->shape[d], &product))
            return SR_FAIL(SR_E_ARGUMENT, "tensor '%s': dimension %d is %lld", tensor->name, d,
                           (long long)tensor->shape[d]);
    if (__builtin_mul_overflow(product, (uint64_t)sr_dtype_size(tensor->dtype), bytes) ||
        *bytes > INT64_MAX)
        return SR_FAIL(SR_E_ARGUMENT, "tensor '%s': its size overflows", tensor->name);
    return SR_OK;
}

typedef struct sort_item {
    const sr_stored_tensor *tensor;
    int index;
} sort_item;

static int compare_items(const void *a, const void *b) {
    const sort_item *x = a, *y = b;
    size_t sx = sr_dtype_size(x->tensor->dtype), sy = sr_dtype_size(y->tensor->dtype);
    if (sx != sy)
        return sx > sy ? -1 : 1;
    return strcmp(x->tensor->name, y->tensor->name);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static sr_status check_unique(const sr_stored_tensor *tensors, int count) {
    const char **names = sr_alloc_array((size_t)count, sizeof *names, "tensor names");
    if (names == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < count; ++i)
        names[i] = tensors[i].name;
    qsort(names, (size_t)count, sizeof *names, compare_names);
    sr_status status = SR_OK;
    for (int i = 1; i < count && status == SR_OK; ++i)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = SR_FAIL(SR_E_ARGUMENT, "two tensors to store are named '%s'", names[i]);
    sr_free(names);
    return status;
}

static sr_status sort_tensors(sr_safetensors_writer *writer, const sr_stored_tensor *tensors) {
    size_t n = (size_t)writer->count;
    sort_item *items = sr_alloc_array(n, sizeof *items, "tensor order");
    writer->order = sr_alloc_array(n, sizeof *writer->order, "tensor order");
    if (items != NULL && writer->order != NULL) {
        for (size_t i = 0; i < n; ++i)
            items[i] = (sort_item){.tensor = &tensors[i], .index = (int)i};
        qsort(items, n, sizeof *items, compare_items);
        for (size_t i = 0; i < n; ++i)
            writer->order[i] = items[i].index;
    }
    sr_status status = items != NULL && writer->order != NULL ? SR_OK : SR_E_MEMORY;
    sr_free(items);
    return status;
}

static void add_metadata(sr_text *text, const sr_metadata *metadata, int count) {
    sr_text_add(text, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int i = 0; i < count; ++i) {
        sr_text_add(text, ",");
        sr_text_add_json_string(text, metadata[i].key);
        sr_text_add(text, ":");
        sr_text_add_json_string(text, metadata[i].value);
    }
    sr_text_add(text, "}");
}

// Appends the JSON, padded so that the buffer begins at a multiple of 8. *data_bytes: the buffer's
// size.
static sr_status build_header(const sr_safetensors_writer *writer, const sr_stored_tensor *tensors,
                              const sr_metadata *metadata, int metadata_count, sr_text *text,
                              uint64_t *data_bytes) {
    uint64_t offset = 0, bytes = 0;
    add_metadata(text, metadata, metadata_count);
    for (int k = 0; k < writer->count; ++k) {
        const sr_stored_tensor *tensor = &tensors[writer->order[k]];
        SR_TRY(tensor_bytes(tensor, &bytes));
        sr_text_add(text, ",");
        sr_text_add_json_string(text, tensor->name);
        sr_text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype_text(tensor->dtype));
        for (int d = 0; d < tensor->rank; ++d)
            sr_text_add(text, d > 0 ? ",%lld" : "%lld", (long long)tensor->shape[d]);
        uint64_t end = offset + bytes;
        sr_text_add(text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)offset,
                    (unsigned long long)end);
        offset = end;
    }
    sr_text_add(text, "}");
    while (!text->failed && text->length % 8 != 0)
        sr_text_add(text, " ");
    SR_TRY(sr_text_check(text));
    if (text->length > SR_SAFETENSORS_MAX_HEADER)
        return SR_FAIL(SR_E_LIMIT, "%s: a header of %zu bytes is over the limit of 100 MB",
                       writer->path, text->length);
    *data_bytes = offset;
    return SR_OK;
}

static sr_status fail_space(const sr_safetensors_writer *writer) {
    struct statvfs info;
    char need[16], left[16] = "?";
    if (fstatvfs(writer->file.fd, &info) == 0)
        sr_text_bytes((uint64_t)info.f_bavail * info.f_frsize, left);
    return SR_FAIL(SR_E_NO_SPACE,
                   "%s: disk full: this file needs %llu bytes (%s), %s are free. Free some space; "
                   "existing files are unchanged",
                   writer->path, (unsigned long long)writer->total_bytes,
                   sr_text_bytes(writer->total_bytes, need), left);
}

// Detects a full disk before the first byte is written. On file systems without fallocate, writing
// detects it.
static sr_status reserve_space(const sr_safetensors_writer *writer) {
    int result;
    do
        result = fallocate(writer->file.fd, 0, 0, (off_t)writer->total_bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 && (errno == ENOSPC || errno == EDQUOT))
        return fail_space(writer);
    if (result == 0 || errno != EFBIG)
        return SR_OK;
    char action[64];
    (void)snprintf(action, sizeof action, "cannot take %llu bytes",
                   (unsigned long long)writer->total_bytes);
    return sr_file_fail(writer->path, action, EFBIG);
}

static sr_status flush_chunk(sr_safetensors_writer *writer) {
    if (writer->chunk_used == 0)
        return SR_OK;
    SR_TRY(sr_file_sums_add(&writer->sums, writer->chunk, writer->chunk_used));
    sr_status status = sr_atomic_write(&writer->file, writer->chunk, writer->chunk_used);
    writer->chunk_used = 0;
    return status == SR_E_NO_SPACE ? fail_space(writer) : status;
}

static sr_status put_bytes(sr_safetensors_writer *writer, const void *data, uint64_t bytes) {
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t room = SR_SUM_CHUNK_BYTES - writer->chunk_used;
        size_t take = bytes < room ? (size_t)bytes : room;
        memcpy(writer->chunk + writer->chunk_used, from, take);
        writer->chunk_used += take;
        writer->put_bytes += take;
        from += take;
        bytes -= take;
        if (writer->chunk_used == SR_SUM_CHUNK_BYTES)
            SR_TRY(flush_chunk(writer));
    }
    return SR_OK;
}

static sr_status start_file(sr_safetensors_writer *writer, const sr_stored_tensor *tensors,
                            const sr_metadata *metadata, int metadata_count) {
    sr_text header;
    uint64_t data_bytes = 0;
    uint8_t prefix[8];
    SR_TRY(check_unique(tensors, writer->count));
    SR_TRY(sort_tensors(writer, tensors));
    sr_text_init(&header);
    sr_status status =
        build_header(writer, tensors, metadata, metadata_count, &header, &data_bytes);
    if (status != SR_OK)
        goto done;
    writer->total_bytes = 8 + header.length + data_bytes;
    SR_TRY_GOTO(sr_atomic_open(&writer->file, writer->path), done);
    writer->open = true;
    SR_TRY_GOTO(reserve_space(writer), done);
    for (unsigned k = 0; k < 8; ++k)
        prefix[k] = (uint8_t)((uint64_t)header.length >> (8 * k));
    SR_TRY_GOTO(put_bytes(writer, prefix, sizeof prefix), done);
    status = put_bytes(writer, header.data, header.length);
done:
    sr_text_release(&header);
    return status;
}

sr_status sr_safetensors_create(const char *path, const sr_stored_tensor *tensors, int count,
                                const sr_metadata *metadata, int metadata_count,
                                sr_safetensors_writer **out) {
    if (count < 0 || count > SR_SAFETENSORS_MAX_TENSORS)
        return SR_FAIL(SR_E_LIMIT, "%s: %d tensors; a file may contain at most %d", path, count,
                       SR_SAFETENSORS_MAX_TENSORS);
    for (int i = 0; i < count; ++i) {
        uint64_t bytes;
        SR_TRY(tensor_bytes(&tensors[i], &bytes));
    }
    sr_safetensors_writer *writer = sr_alloc(sizeof *writer, "safetensors writer");
    if (writer == NULL)
        return SR_E_MEMORY;
    writer->count = count;
    writer->path = sr_strdup(path);
    writer->chunk = sr_alloc(SR_SUM_CHUNK_BYTES, "safetensors chunk");
    sr_status status = SR_E_MEMORY;
    if (writer->path != NULL && writer->chunk != NULL)
        status = start_file(writer, tensors, metadata, metadata_count);
    if (status != SR_OK) {
        sr_safetensors_writer_free(writer);
        return status;
    }
    *out = writer;
    return SR_OK;
}

int sr_safetensors_order(const sr_safetensors_writer *writer, int k) {
    return writer->order[k];
}

sr_status sr_safetensors_put(sr_safetensors_writer *writer, const void *data, uint64_t bytes) {
    if (bytes > writer->total_bytes - writer->put_bytes)
        return SR_FAIL(SR_E_ARGUMENT, "%s: more bytes were written than its tensors contain",
                       writer->path);
    return put_bytes(writer, data, bytes);
}

sr_status sr_safetensors_commit(sr_safetensors_writer *writer, sr_file_sums *sums) {
    if (writer->put_bytes != writer->total_bytes || writer->committed)
        return SR_FAIL(SR_E_ARGUMENT, "%s: commit after %llu of %llu bytes", writer->path,
                       (unsigned long long)writer->put_bytes,
                       (unsigned long long)writer->total_bytes);
    SR_TRY(flush_chunk(writer));
    SR_TRY(sr_file_sums_finish(&writer->sums));
    sr_status status = sr_atomic_commit(&writer->file);
    if (status == SR_E_NO_SPACE) // the file system allocates as late as fsync
        sr_error_prefix("%llu bytes needed", (unsigned long long)writer->total_bytes);
    if (status != SR_OK)
        return status;
    writer->committed = true;
    if (sums != NULL) {
        *sums = writer->sums;
        writer->sums = (sr_file_sums){0};
    }
    return SR_OK;
}

void sr_safetensors_writer_free(sr_safetensors_writer *writer) {
    if (writer == NULL)
        return;
    if (writer->open)
        sr_atomic_abort(&writer->file);
    sr_file_sums_release(&writer->sums);
    sr_free(writer->order);
    sr_free(writer->chunk);
    sr_free(writer->path);
    sr_free(writer);
}

sr_status sr_safetensors_write(const char *path, const sr_stored_tensor *tensors, int count,
                               const sr_metadata *metadata, int metadata_count,
                               sr_file_sums *sums) {
    sr_safetensors_writer *writer = NULL;
    sr_status status =
        sr_safetensors_create(path, tensors, count, metadata, metadata_count, &writer);
    if (writer == NULL)
        return status;
    for (int k = 0; k < count && status == SR_OK; ++k) {
        const sr_stored_tensor *tensor = &tensors[sr_safetensors_order(writer, k)];
        uint64_t bytes = (uint64_t)sr_stored_elements(tensor) * sr_dtype_size(tensor->dtype);
        status = sr_safetensors_put(writer, tensor->data, bytes);
    }
    if (status == SR_OK)
        status = sr_safetensors_commit(writer, sums);
    sr_safetensors_writer_free(writer);
    return status;
}
