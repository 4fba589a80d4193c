// SPDX-License-Identifier: Apache-2.0
// Reader of safetensors files (format: README of the safetensors project; limits: safetensors.h).
//
// The header is parsed into a tree, and every value in it is checked against the others and the
// file's length before any tensor can be read. Files are read with pread, not mapped: a damaged
// disk gives an error instead of a signal.
#include "trainer/checkpoint/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "trainer/checkpoint/file_sums.h"
#include "trainer/checkpoint/json_tree.h"

struct sr_safetensors {
    int fd;
    char *path;
    uint64_t data_offset, data_bytes;
    bool checked; // reads compare these sums
    sr_file_sums sums;
    sr_sum_buffer buffer;
    int count, metadata_count;
    sr_stored_tensor *tensors;        // by offset
    const sr_stored_tensor **by_name; // sorted
    sr_metadata *metadata;
    sr_arena arena;
};

static const struct {
    const char *name;
    sr_dtype dtype;
} stored_dtypes[] = {
    {"F32", SR_F32}, {"BF16", SR_BF16}, {"F16", SR_F16}, {"F64", SR_F64}, {"U8", SR_U8},
    {"I8", SR_I8},   {"I32", SR_I32},   {"I64", SR_I64}, {"BOOL", SR_U8},
};

int64_t sr_stored_elements(const sr_stored_tensor *tensor) {
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; ++d)
        elements *= tensor->shape[d];
    return elements;
}

static sr_status parse_dtype(const sr_safetensors *file, const sr_json *node,
                             sr_stored_tensor *tensor) {
    const char *name = sr_json_string(sr_json_get(node, "dtype"));
    if (name == NULL)
        return SR_FAIL(SR_E_DATA, "%s: tensor '%s' has no dtype", file->path, tensor->name);
    for (size_t i = 0; i < sizeof stored_dtypes / sizeof *stored_dtypes; ++i) {
        if (strcmp(stored_dtypes[i].name, name) == 0) {
            tensor->dtype = stored_dtypes[i].dtype;
            return SR_OK;
        }
    }
    return SR_FAIL(SR_E_UNSUPPORTED,
                   "%s: tensor '%s' has dtype '%s'; serried reads F64 F32 F16 BF16 I64 I32 I8 U8 "
                   "BOOL: convert or remove the tensor",
                   file->path, tensor->name, name);
}

// Parses the shape; *bytes is the size that it needs.
static sr_status parse_shape(const sr_safetensors *file, const sr_json *node,
                             sr_stored_tensor *tensor, uint64_t *bytes) {
    const sr_json *shape = sr_json_get(node, "shape");
    if (shape == NULL || shape->type != SR_JSON_ARRAY || shape->count > SR_SAFETENSORS_MAX_RANK)
        return SR_FAIL(SR_E_DATA, "%s: tensor '%s' has no shape, or one of more than %d dimensions",
                       file->path, tensor->name, SR_SAFETENSORS_MAX_RANK);
    uint64_t elements = 1;
    for (const sr_json *d = shape->first; d != NULL; d = d->next) {
        int64_t extent;
        if (!sr_json_int64(d, &extent) || extent < 0)
            return SR_FAIL(SR_E_DATA, "%s: tensor '%s' has an invalid dimension", file->path,
                           tensor->name);
        tensor->shape[tensor->rank++] = extent;
        if (__builtin_mul_overflow(elements, (uint64_t)extent, &elements) || elements > INT64_MAX)
            return SR_FAIL(SR_E_DATA, "%s: the shape of tensor '%s' overflows", file->path,
                           tensor->name);
    }
    if (__builtin_mul_overflow(elements, (uint64_t)sr_dtype_size(tensor->dtype), bytes))
        return SR_FAIL(SR_E_DATA, "%s: the shape of tensor '%s' overflows", file->path,
                       tensor->name);
    return SR_OK;
}

static sr_status parse_tensor(const sr_safetensors *file, const sr_json *node,
                              sr_stored_tensor *tensor) {
    *tensor = (sr_stored_tensor){.name = node->key};
    const sr_json *offsets = sr_json_get(node, "data_offsets");
    if (node->type != SR_JSON_OBJECT || node->count != 3 || tensor->name[0] == 0 || offsets == NULL)
        return SR_FAIL(SR_E_DATA,
                       "%s: tensor '%s' is not described by exactly dtype, shape, data_offsets",
                       file->path, tensor->name);
    uint64_t bytes = 0;
    SR_TRY(parse_dtype(file, node, tensor));
    SR_TRY(parse_shape(file, node, tensor, &bytes));
    if (offsets->type != SR_JSON_ARRAY || offsets->count != 2 ||
        !sr_json_uint64(offsets->first, &tensor->begin) ||
        !sr_json_uint64(offsets->first->next, &tensor->end) || tensor->begin > tensor->end ||
        tensor->end > file->data_bytes)
        return SR_FAIL(SR_E_DATA,
                       "%s: tensor '%s' has data_offsets outside the buffer of %llu bytes: the "
                       "file is truncated or damaged",
                       file->path, tensor->name, (unsigned long long)file->data_bytes);
    if (tensor->end - tensor->begin != bytes)
        return SR_FAIL(
            SR_E_DATA, "%s: tensor '%s' at byte %llu has %llu bytes, but its shape needs %llu",
            file->path, tensor->name, (unsigned long long)(file->data_offset + tensor->begin),
            (unsigned long long)(tensor->end - tensor->begin), (unsigned long long)bytes);
    return SR_OK;
}

static sr_status parse_metadata(sr_safetensors *file, const sr_json *node) {
    if (node->type != SR_JSON_OBJECT)
        return SR_FAIL(SR_E_DATA, "%s: __metadata__ is not an object", file->path);
    file->metadata = sr_arena_alloc(&file->arena, node->count * sizeof *file->metadata);
    if (file->metadata == NULL)
        return SR_E_MEMORY;
    for (const sr_json *child = node->first; child != NULL; child = child->next) {
        if (child->type != SR_JSON_STRING)
            return SR_FAIL(SR_E_DATA, "%s: metadata '%s' is not a string", file->path, child->key);
        file->metadata[file->metadata_count++] =
            (sr_metadata){.key = child->key, .value = child->text};
    }
    return SR_OK;
}

static int compare_offsets(const void *a, const void *b) {
    const sr_stored_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int compare_names(const void *a, const void *b) {
    const sr_stored_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

// The tensors must cover the buffer without gaps or overlaps.
static sr_status check_layout(const sr_safetensors *file) {
    uint64_t expected = 0;
    for (int i = 0; i < file->count; ++i) {
        const sr_stored_tensor *tensor = &file->tensors[i];
        if (tensor->begin != expected)
            return SR_FAIL(SR_E_DATA, "%s: tensor '%s' starts at byte %llu, not at %llu",
                           file->path, tensor->name,
                           (unsigned long long)(file->data_offset + tensor->begin),
                           (unsigned long long)(file->data_offset + expected));
        expected = tensor->end;
    }
    if (expected != file->data_bytes)
        return SR_FAIL(SR_E_DATA, "%s: tensors end at byte %llu but the file at %llu", file->path,
                       (unsigned long long)(file->data_offset + expected),
                       (unsigned long long)(file->data_offset + file->data_bytes));
    return SR_OK;
}

static sr_status parse_header(sr_safetensors *file, const char *header, size_t bytes) {
    // A tensor is described by six values and the extents of its shape.
    size_t max_nodes = (size_t)SR_SAFETENSORS_MAX_TENSORS * (6 + SR_SAFETENSORS_MAX_RANK);
    const sr_json *root;
    if (bytes == 0 || header[0] != '{')
        return SR_FAIL(
            SR_E_DATA,
            "%s: byte 8 is not the '{' that starts the header: this is not a safetensors file",
            file->path);
    SR_TRY(sr_json_parse(header, bytes, max_nodes, file->path, &file->arena, &root));
    file->tensors = sr_arena_alloc(&file->arena, root->count * sizeof *file->tensors);
    file->by_name = sr_arena_alloc(&file->arena, root->count * sizeof *file->by_name);
    if (file->tensors == NULL || file->by_name == NULL)
        return SR_E_MEMORY;
    for (const sr_json *node = root->first; node != NULL; node = node->next) {
        if (strcmp(node->key, "__metadata__") == 0)
            SR_TRY(parse_metadata(file, node));
        else
            SR_TRY(parse_tensor(file, node, &file->tensors[file->count++]));
    }
    if (file->count > SR_SAFETENSORS_MAX_TENSORS)
        return SR_FAIL(SR_E_LIMIT, "%s: more than %d tensors", file->path,
                       SR_SAFETENSORS_MAX_TENSORS);
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_offsets);
    for (int i = 0; i < file->count; ++i)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return check_layout(file);
}

static sr_status read_bytes(sr_safetensors *file, uint64_t offset, void *out, size_t bytes) {
    if (file->checked)
        return sr_file_sums_read_at(file->fd, file->path, &file->sums, &file->buffer, offset, out,
                                    bytes);
    return sr_file_read_at(file->fd, file->path, offset, out, bytes);
}

static sr_status read_header(sr_safetensors *file) {
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return SR_FAIL(SR_E_IO, "%s: %s", file->path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return SR_FAIL(SR_E_DATA, "%s: not a regular file", file->path);
    uint64_t length = (uint64_t)info.st_size, header_bytes = 0;
    uint8_t prefix[8];
    if (file->checked)
        SR_TRY(sr_file_sums_check_length(file->path, &file->sums, length));
    if (length < sizeof prefix)
        return SR_FAIL(SR_E_DATA, "%s: %llu bytes are too few for a safetensors file", file->path,
                       (unsigned long long)length);
    SR_TRY(read_bytes(file, 0, prefix, sizeof prefix));
    for (unsigned k = 0; k < 8; ++k)
        header_bytes |= (uint64_t)prefix[k] << (8 * k);
    if (header_bytes > SR_SAFETENSORS_MAX_HEADER)
        return SR_FAIL(SR_E_DATA,
                       "%s: header of %llu bytes is over the limit of 100 MB (or this is not a "
                       "safetensors file)",
                       file->path, (unsigned long long)header_bytes);
    if (header_bytes > length - sizeof prefix)
        return SR_FAIL(SR_E_DATA, "%s: truncated: the header ends at byte %llu, the file at %llu",
                       file->path, (unsigned long long)header_bytes + 8,
                       (unsigned long long)length);
    file->data_offset = header_bytes + sizeof prefix;
    file->data_bytes = length - file->data_offset;
    char *header = sr_alloc((size_t)header_bytes, "safetensors header");
    if (header == NULL)
        return SR_E_MEMORY;
    sr_status status = read_bytes(file, sizeof prefix, header, (size_t)header_bytes);
    if (status == SR_OK)
        status = parse_header(file, header, (size_t)header_bytes);
    sr_free(header);
    return status;
}

sr_status sr_safetensors_open_fd(int fd, const char *path, const sr_file_sums *sums,
                                 sr_safetensors **out) {
    sr_safetensors *file = sr_alloc(sizeof *file, "safetensors reader");
    if (file == NULL) {
        close(fd);
        return SR_E_MEMORY;
    }
    sr_arena_init(&file->arena);
    sr_status status = SR_OK;
    file->fd = fd;
    file->path = sr_strdup(path);
    if (file->path == NULL)
        status = SR_E_MEMORY;
    else if (sums != NULL)
        status = sr_file_sums_copy(sums, &file->sums);
    file->checked = sums != NULL;
    if (status == SR_OK)
        status = read_header(file);
    if (status != SR_OK) {
        sr_safetensors_free(file);
        return status;
    }
    *out = file;
    return SR_OK;
}

static sr_status open_file(const char *path, const sr_file_sums *sums, sr_safetensors **out) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // opening a FIFO must not block
    if (fd < 0)
        return SR_FAIL(errno == ENOENT ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s", path, strerror(errno));
    return sr_safetensors_open_fd(fd, path, sums, out);
}

sr_status sr_safetensors_open(const char *path, sr_safetensors **out) {
    return open_file(path, NULL, out);
}

sr_status sr_safetensors_open_checked(const char *path, const sr_file_sums *sums,
                                      sr_safetensors **out) {
    return open_file(path, sums, out);
}

void sr_safetensors_free(sr_safetensors *file) {
    if (file == NULL)
        return;
    if (file->fd >= 0)
        close(file->fd);
    sr_file_sums_release(&file->sums);
    sr_sum_buffer_release(&file->buffer);
    sr_arena_release(&file->arena);
    sr_free(file->path);
    sr_free(file);
}

const char *sr_safetensors_path(const sr_safetensors *file) {
    return file->path;
}

uint64_t sr_safetensors_data_offset(const sr_safetensors *file) {
    return file->data_offset;
}

int sr_safetensors_count(const sr_safetensors *file) {
    return file->count;
}

const sr_stored_tensor *sr_safetensors_get(const sr_safetensors *file, int index) {
    return &file->tensors[index];
}

const sr_stored_tensor *sr_safetensors_find(const sr_safetensors *file, const char *name) {
    const sr_stored_tensor key = {.name = name}, *wanted = &key;
    const sr_stored_tensor **found =
        bsearch(&wanted, file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return found == NULL ? NULL : *found;
}

const char *sr_safetensors_metadata(const sr_safetensors *file, const char *key) {
    for (int i = 0; i < file->metadata_count; ++i)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}

sr_status sr_safetensors_read(sr_safetensors *file, const sr_stored_tensor *tensor, int64_t first,
                              int64_t count, void *out) {
    int64_t elements = sr_stored_elements(tensor);
    if (first < 0 || count < 0 || first > elements || count > elements - first)
        return SR_FAIL(SR_E_ARGUMENT, "%s: elements [%lld, %lld) of tensor '%s', which has %lld",
                       file->path, (long long)first, (long long)first + (long long)count,
                       tensor->name, (long long)elements);
    size_t size = sr_dtype_size(tensor->dtype);
    sr_status status = read_bytes(file, file->data_offset + tensor->begin + (uint64_t)first * size,
                                  out, (size_t)count * size);
    if (status == SR_E_CHECKSUM)
        sr_error_prefix("tensor '%s'", tensor->name);
    return status;
}
