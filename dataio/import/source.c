// SPDX-License-Identifier: Apache-2.0
// The table of kinds of sources, and what they share: sorting out files and reading them again
// (source.h).
#include "dataio/import/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/formats/format.h"
#include "dataio/image/picture.h"
#include "dataio/import/source_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"

#define MAX_OPEN 64 // stores whose files stay open

#define SOURCE_KIND(name) extern const sr_source_kind sr_source_kind_##name;
#include "dataio/import/source_kind_list.def"
#undef SOURCE_KIND

static const sr_source_kind *const kinds[] = {
#define SOURCE_KIND(name) &sr_source_kind_##name,
#include "dataio/import/source_kind_list.def"
#undef SOURCE_KIND
};

const sr_source_kind *sr_source_kind_at(size_t index) {
    return index < sizeof kinds / sizeof *kinds ? kinds[index] : NULL;
}

// -- sorting out -------------------------------------------------------------------------------

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
    if (sr_format_wants(path, head, head_bytes, bytes))
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

static int by_path(const void *a, const void *b) {
    const sr_source_file *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_refused_path(const void *a, const void *b) {
    const sr_refused_file *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : strcmp(x->reason, y->reason);
}

// Sorts, and refuses all but the first of equal names (an archive may hold a name twice).
static sr_status sort_files(sr_source *source, sr_file_list *list, uint64_t *bytes) {
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, by_path);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (kept > 0 && strcmp(list->items[kept - 1].path, list->items[i].path) == 0) {
            SR_TRY(sr_source_refuse(source, list->items[i].path,
                                    "the name appears twice in the archive; the first is used"));
            *bytes -= list->items[i].bytes;
            continue;
        }
        list->items[kept++] = list->items[i];
    }
    list->count = kept;
    return SR_OK;
}

// Folders that two paths begin with, their last '/' included.
static size_t common_folders(const char *a, const char *b) {
    size_t folders = 0;
    for (size_t i = 0; a[i] == b[i] && a[i] != '\0'; i++)
        if (a[i] == '/')
            folders = i + 1;
    return folders;
}

// In sorted lists the first and the last path have in common what all have.
static void find_root(sr_source *source) {
    const sr_file_list *lists[] = {&source->files, &source->papers};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i]->count == 0)
            continue;
        const char *begin = lists[i]->items[0].path,
                   *end = lists[i]->items[lists[i]->count - 1].path;
        size_t own = common_folders(begin, end);
        size_t both = first ? common_folders(first, begin) : own;
        const size_t before = first ? source->root_bytes : own;
        own = own < both ? own : both;
        source->root_bytes = own < before ? own : before;
        first = begin;
    }
}

static sr_status sort_source(sr_source *source) {
    uint64_t paper_bytes = 0;
    SR_TRY(sort_files(source, &source->files, &source->bytes));
    SR_TRY(sort_files(source, &source->papers, &paper_bytes));
    if (source->refused_count > 0)
        qsort(source->refused, source->refused_count, sizeof *source->refused, by_refused_path);
    find_root(source);
    return SR_OK;
}

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

// -- opening -----------------------------------------------------------------------------------

static sr_status find_kind(sr_source *source, int fd, bool folder) {
    uint8_t head[SR_SOURCE_HEAD];
    ssize_t got = folder ? 0 : pread(fd, head, sizeof head, 0);
    sr_source_probe probe = {.path = source->path,
                             .folder = folder,
                             .fd = fd,
                             .head = head,
                             .head_bytes = got > 0 ? (size_t)got : 0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i]->recognises(&probe)) {
            source->kind = kinds[i];
            return SR_OK;
        }
    }
    sr_text names;
    sr_text_init(&names);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        sr_text_add(&names, "%s%s", i ? "; " : "", kinds[i]->help);
    sr_status status =
        SR_FAIL(SR_E_USAGE, "%s: unknown kind of source (%s)", source->path, names.data);
    sr_text_release(&names);
    return status;
}

static sr_status open_path(sr_source *source, const char *path) {
    struct stat info;
    int store, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        return SR_FAIL(error == ENOENT || error == ENOTDIR ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s",
                       path, strerror(error));
    }
    bool folder = S_ISDIR(info.st_mode);
    if (folder) {
        source->folder = fd;
    } else if (sr_source_add_store(source, path, fd, &store) != SR_OK) {
        (void)close(fd);
        return SR_E_MEMORY;
    }
    if (!folder && !S_ISREG(info.st_mode))
        return SR_FAIL(SR_E_USAGE, "%s: neither a folder nor a file", path);
    return find_kind(source, fd, folder);
}

static sr_status open_source(sr_source *source, const char *path, const char *list,
                             const char *spool_folder) {
    source->path = sr_arena_strdup(&source->arena, path);
    source->spool.folder = sr_arena_strdup(&source->arena, spool_folder);
    source->list = list ? sr_arena_strdup(&source->arena, list) : NULL;
    if (source->path == NULL || source->spool.folder == NULL || (list && source->list == NULL))
        return SR_E_MEMORY;
    SR_TRY(open_path(source, path));
    SR_TRY(list != NULL && source->folder >= 0 ? sr_source_list_listed(source)
                                               : source->kind->list(source));
    SR_TRY(sr_spool_flush(&source->spool));
    SR_TRY(sort_source(source));
    return sr_format_find(source);
}

sr_status sr_source_open(const char *path, const char *list, const char *spool_folder,
                         const sr_source_limits *limits, sr_source **out) {
    sr_source *source = sr_alloc(sizeof *source, "source");
    if (source == NULL)
        return SR_E_MEMORY;
    sr_arena_init(&source->arena);
    sr_spool_init(&source->spool, NULL);
    source->folder = source->spool_store = -1;
    source->limits = limits ? *limits : (sr_source_limits){0};
    if (source->limits.entries == 0)
        source->limits.entries = SR_SOURCE_ENTRIES;
    if (source->limits.unpacked == 0)
        source->limits.unpacked = SR_SOURCE_UNPACKED;
    sr_status status = open_source(source, path, list, spool_folder);
    if (status != SR_OK) {
        sr_source_free(source);
        return status;
    }
    *out = source;
    return SR_OK;
}

void sr_source_free(sr_source *source) {
    if (source == NULL)
        return;
    for (size_t i = 0; i < source->store_count; i++)
        if (source->stores[i].fd >= 0)
            (void)close(source->stores[i].fd);
    if (source->folder >= 0)
        (void)close(source->folder);
    sr_spool_release(&source->spool);
    sr_free(source->stores);
    sr_free(source->files.items);
    sr_free(source->papers.items);
    sr_free(source->refused);
    sr_arena_release(&source->arena);
    sr_free(source);
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
