// SPDX-License-Identifier: Apache-2.0
// Finding and reading the files of a source, and the backing files that contain them (source.h).
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "dataio/import/source_internal.h"
#include "kernels/base/file.h"

#define MAX_OPEN 64 // backing files that stay open

// -- backing files -----------------------------------------------------------------------------

sr_status sr_source_add_backing(sr_source *source, const char *path, int fd, int *out) {
    void *backing = source->backing;
    SR_TRY(sr_grow(&backing, &source->backing_capacity, source->backing_count + 1,
                   sizeof *source->backing, "archives"));
    source->backing = backing;
    const char *copy = sr_arena_strdup(&source->arena, path);
    if (copy == NULL)
        return SR_E_MEMORY;
    source->backing[source->backing_count] = (sr_backing_file){.path = copy, .fd = fd};
    *out = (int)source->backing_count++;
    return SR_OK;
}

sr_status sr_source_backing_of(sr_source *source, const sr_source_file *file, int *out) {
    *out = file->in;
    if (file->in >= 0)
        return SR_OK;
    int fd = -1; // many are opened when they are read
    if (source->backing_count < MAX_OPEN &&
        (fd = openat(source->folder, file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return SR_FAIL(SR_E_IO, "%s/%s: cannot open: %s", source->path, file->path,
                       strerror(errno));
    sr_status status = sr_source_add_backing(source, file->path, fd, out);
    if (status != SR_OK && fd >= 0)
        (void)close(fd);
    return status;
}

sr_status sr_source_spool_backing(sr_source *source, int *out) {
    if (source->spool_backing < 0)
        SR_TRY(sr_source_add_backing(source, "unpacked contents", -1, &source->spool_backing));
    *out = source->spool_backing;
    return SR_OK;
}

// -- files -------------------------------------------------------------------------------------

const char *sr_source_name(const sr_source *source, const sr_source_file *file) {
    return file->path + source->root_bytes;
}

const sr_source_file *sr_file_list_find(const sr_file_list *list, const char *path) {
    const sr_source_file wanted = {.path = path};
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(list->items[middle].path, wanted.path);
        if (order == 0)
            return &list->items[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

sr_status sr_source_read_part(const sr_source *source, const sr_source_file *file, uint64_t offset,
                              void *out, size_t bytes) {
    const char *path = file->path;
    offset += file->offset;
    if (file->in >= 0) {
        if (file->in == source->spool_backing)
            return sr_file_read_at(source->spool.fd, source->path, offset, out, bytes);
        const sr_backing_file *backing = &source->backing[file->in];
        if (backing->fd >= 0)
            return sr_file_read_at(backing->fd, source->path, offset, out, bytes);
        path = backing->path;
    }
    int fd = openat(source->folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return SR_FAIL(SR_E_IO, "cannot open: %s", strerror(errno));
    sr_status status = sr_file_read_at(fd, path, offset, out, bytes);
    (void)close(fd);
    return status;
}

sr_status sr_source_read(const sr_source *source, const sr_source_file *file, void **buffer,
                         size_t *capacity) {
    SR_TRY(sr_grow(buffer, capacity, (size_t)file->bytes + 1, 1, "file"));
    SR_TRY(sr_source_read_part(source, file, 0, *buffer, (size_t)file->bytes));
    ((char *)*buffer)[file->bytes] = '\0';
    return SR_OK;
}
