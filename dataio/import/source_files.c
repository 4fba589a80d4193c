// SPDX-License-Identifier: Apache-2.0
// The files of a source (source.h): which of those that a kind offers are listed, and reading them.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataio/image/picture.h"
#include "dataio/import/source_internal.h"
#include "kernels/base/file.h"

#define MAX_OPEN 64 // stores whose files stay open

// -- listing -----------------------------------------------------------------------------------

bool sr_source_is_hidden(const char *path) {
    for (const char *part = path; part != NULL;) {
        if (*part == '.' || strncmp(part, "__MACOSX/", 9) == 0)
            return true;
        part = strchr(part, '/');
        part = part ? part + 1 : NULL;
    }
    return false;
}

sr_status sr_source_refuse(sr_source *source, const char *path, const char *reason) {
    void *refused = source->refused;
    SR_TRY(sr_grow(&refused, &source->refused_capacity, source->refused_count + 1,
                   sizeof *source->refused, "refused files"));
    source->refused = refused;
    sr_refused_file entry = {sr_arena_strdup(&source->arena, path),
                             sr_arena_strdup(&source->arena, reason)};
    if (entry.path == NULL || entry.reason == NULL)
        return SR_E_MEMORY;
    source->refused[source->refused_count++] = entry;
    return SR_OK;
}

sr_status sr_source_refuse_for(sr_source *source, const char *path, const char *fmt, ...) {
    char reason[512];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, arguments);
    va_end(arguments);
    return sr_source_refuse(source, path, reason);
}

sr_status sr_source_offer(sr_source *source, const char *path, const uint8_t *head,
                          size_t head_bytes, uint64_t bytes, sr_offer *out) {
    *out = SR_OFFER_NOTHING;
    if (!sr_source_is_hidden(path))
        return sr_source_offer_listed(source, path, head, head_bytes, bytes, out);
    source->hidden++;
    return SR_OK;
}

sr_status sr_source_offer_listed(sr_source *source, const char *path, const uint8_t *head,
                                 size_t head_bytes, uint64_t bytes, sr_offer *out) {
    const char *name;
    *out = SR_OFFER_NOTHING;
    switch (sr_picture_sniff(head, head_bytes, &name)) {
    case SR_PICTURE_JPEG:
    case SR_PICTURE_PNG:
        *out = SR_OFFER_PICTURE;
        return SR_OK;
    case SR_PICTURE_OTHER:
        return sr_source_refuse_for(source, path, "%s is not supported; convert it to JPEG or PNG",
                                    name);
    case SR_PICTURE_NONE:
        break;
    }
    if (sr_picture_named(path))
        return sr_source_refuse(source, path,
                                head_bytes ? "not a picture by its content" : "empty file");
    if (source->wants(path, head, head_bytes, bytes))
        *out = SR_OFFER_PAPER;
    else
        source->other++;
    return SR_OK;
}

sr_status sr_source_add(sr_source *source, const sr_source_file *file, sr_offer as) {
    const bool picture = as == SR_OFFER_PICTURE;
    sr_file_list *list = picture ? &source->files : &source->papers;
    if (picture && file->bytes > SR_PICTURE_MAX_BYTES)
        return sr_source_refuse(source, file->path, "the file is over the limit of 256 MiB");
    void *items = list->items;
    SR_TRY(sr_grow(&items, &list->capacity, list->count + 1, sizeof *list->items, "list of files"));
    list->items = items;
    sr_source_file *added = &list->items[list->count];
    *added = *file;
    added->path = sr_arena_strdup(&source->arena, file->path);
    if (added->path == NULL)
        return SR_E_MEMORY;
    list->count++;
    source->bytes += picture ? file->bytes : 0;
    return SR_OK;
}

sr_status sr_source_add_store(sr_source *source, const char *path, int fd, int *out) {
    void *stores = source->stores;
    SR_TRY(sr_grow(&stores, &source->store_capacity, source->store_count + 1,
                   sizeof *source->stores, "archives"));
    source->stores = stores;
    const char *copy = sr_arena_strdup(&source->arena, path);
    if (copy == NULL)
        return SR_E_MEMORY;
    source->stores[source->store_count] = (sr_source_store){.path = copy, .fd = fd};
    *out = (int)source->store_count++;
    return SR_OK;
}

sr_status sr_source_store_of(sr_source *source, const sr_source_file *file, int *out) {
    *out = file->in;
    if (file->in >= 0)
        return SR_OK;
    int fd = -1; // many are opened when they are read
    if (source->store_count < MAX_OPEN &&
        (fd = openat(source->folder, file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return SR_FAIL(SR_E_IO, "%s/%s: cannot open: %s", source->path, file->path,
                       strerror(errno));
    sr_status status = sr_source_add_store(source, file->path, fd, out);
    if (status != SR_OK && fd >= 0)
        (void)close(fd);
    return status;
}

sr_status sr_source_spool_store(sr_source *source, int *out) {
    if (source->spool_store < 0)
        SR_TRY(sr_source_add_store(source, "unpacked contents", -1, &source->spool_store));
    *out = source->spool_store;
    return SR_OK;
}

// -- looking up --------------------------------------------------------------------------------

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

// -- reading -----------------------------------------------------------------------------------

sr_status sr_source_read_part(const sr_source *source, const sr_source_file *file, uint64_t offset,
                              void *out, size_t bytes) {
    const char *path = file->path;
    offset += file->offset;
    if (file->in >= 0) {
        if (file->in == source->spool_store)
            return sr_file_read_at(source->spool.fd, source->path, offset, out, bytes);
        const sr_source_store *store = &source->stores[file->in];
        if (store->fd >= 0)
            return sr_file_read_at(store->fd, source->path, offset, out, bytes);
        path = store->path;
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
