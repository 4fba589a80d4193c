// SPDX-License-Identifier: Apache-2.0
// The table of kinds of sources, and opening a source: its kind lists the files, which are then
// sorted (source.h).
#include "dataio/import/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/import/source_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"

#define SOURCE_KIND(name) extern const sr_source_kind sr_source_kind_##name;
#include "dataio/import/source_kind_list.def"
#undef SOURCE_KIND

static const sr_source_kind *const kinds[] = {
#define SOURCE_KIND(name) &sr_source_kind_##name,
#include "dataio/import/source_kind_list.def"
#undef SOURCE_KIND
};

// -- sorting -----------------------------------------------------------------------------------

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
    const sr_file_list *lists[] = {&source->files, &source->wanted};
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
    uint64_t wanted_bytes = 0;
    SR_TRY(sort_files(source, &source->files, &source->bytes));
    SR_TRY(sort_files(source, &source->wanted, &wanted_bytes));
    if (source->folders.count > 0)
        qsort(source->folders.items, source->folders.count, sizeof *source->folders.items, by_path);
    if (source->refused_count > 0)
        qsort(source->refused, source->refused_count, sizeof *source->refused, by_refused_path);
    find_root(source);
    return SR_OK;
}

// -- opening -----------------------------------------------------------------------------------

static sr_status find_kind(sr_source *source, int fd, bool folder) {
    uint8_t head[SR_SOURCE_HEAD];
    ssize_t got = folder ? 0 : pread(fd, head, sizeof head, 0);
    sr_source_probe probe = {.path = source->path,
                             .folder = folder,
                             .fd = fd,
                             .wants = source->wants,
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
    int backing, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
    } else if (sr_source_add_backing(source, path, fd, &backing) != SR_OK) {
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
    return sort_source(source);
}

sr_status sr_source_open(const char *path, const char *list, const char *spool_folder,
                         const sr_source_limits *limits, sr_wants_fn wants, sr_source **out) {
    sr_source *source = sr_alloc(sizeof *source, "source");
    if (source == NULL)
        return SR_E_MEMORY;
    sr_arena_init(&source->arena);
    sr_spool_init(&source->spool, NULL);
    source->folder = source->spool_backing = -1;
    source->wants = wants;
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
    for (size_t i = 0; i < source->backing_count; i++)
        if (source->backing[i].fd >= 0)
            (void)close(source->backing[i].fd);
    if (source->folder >= 0)
        (void)close(source->folder);
    sr_spool_release(&source->spool);
    sr_free(source->backing);
    sr_free(source->files.items);
    sr_free(source->wanted.items);
    sr_free(source->folders.items);
    sr_free(source->refused);
    sr_arena_release(&source->arena);
    sr_free(source);
}
