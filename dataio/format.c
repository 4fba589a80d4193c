// SPDX-License-Identifier: Apache-2.0
// The table of importers, and what they share: sorting out files and reading them again (format.h).
#include "dataio/format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/picture.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"

#define FORMAT(name) extern const sr_format sr_format_##name;
#include "dataio/format_list.def"
#undef FORMAT

static const sr_format *const formats[] = {
#define FORMAT(name) &sr_format_##name,
#include "dataio/format_list.def"
#undef FORMAT
};

const sr_format *sr_format_at(size_t index) {
    return index < sizeof formats / sizeof *formats ? formats[index] : NULL;
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

sr_status sr_source_offer(sr_source *source, const char *path, const uint8_t *head,
                          size_t head_bytes, bool *wanted) {
    const char *name;
    *wanted = false;
    if (sr_source_is_hidden(path)) {
        source->hidden++;
        return SR_OK;
    }
    switch (sr_picture_sniff(head, head_bytes, &name)) {
    case SR_PICTURE_JPEG:
    case SR_PICTURE_PNG:
        *wanted = true;
        return SR_OK;
    case SR_PICTURE_OTHER: {
        char reason[64];
        (void)snprintf(reason, sizeof reason, "%s is not read; convert it to JPEG or PNG", name);
        return sr_source_refuse(source, path, reason);
    }
    case SR_PICTURE_NONE:
        break;
    }
    if (sr_picture_named(path))
        return sr_source_refuse(source, path,
                                head_bytes ? "not a picture by its content" : "empty file");
    source->other++;
    return SR_OK;
}

sr_status sr_source_add(sr_source *source, const sr_source_file *file) {
    if (file->bytes > SR_PICTURE_MAX_BYTES)
        return sr_source_refuse(source, file->path, "the file is over the limit of 256 MiB");
    void *files = source->files;
    SR_TRY(sr_grow(&files, &source->capacity, source->count + 1, sizeof *source->files,
                   "list of pictures"));
    source->files = files;
    sr_source_file *added = &source->files[source->count];
    *added = *file;
    added->path = sr_arena_strdup(&source->arena, file->path);
    if (added->path == NULL)
        return SR_E_MEMORY;
    source->count++;
    source->bytes += file->bytes;
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
static sr_status sort_files(sr_source *source) {
    if (source->count > 0)
        qsort(source->files, source->count, sizeof *source->files, by_path);
    size_t kept = 0;
    for (size_t i = 0; i < source->count; i++) {
        if (kept > 0 && strcmp(source->files[kept - 1].path, source->files[i].path) == 0) {
            SR_TRY(sr_source_refuse(source, source->files[i].path,
                                    "the name stands twice in the archive; the first is used"));
            source->bytes -= source->files[i].bytes;
            continue;
        }
        source->files[kept++] = source->files[i];
    }
    source->count = kept;
    if (source->refused_count > 0)
        qsort(source->refused, source->refused_count, sizeof *source->refused, by_refused_path);
    return SR_OK;
}

// -- opening -----------------------------------------------------------------------------------

static sr_status list_with_format(sr_source *source, int fd, bool folder) {
    uint8_t head[SR_FORMAT_HEAD];
    ssize_t got = folder ? 0 : pread(fd, head, sizeof head, 0);
    sr_format_probe probe = {.path = source->path,
                             .folder = folder,
                             .fd = fd,
                             .head = head,
                             .head_bytes = got > 0 ? (size_t)got : 0};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i]->recognises(&probe)) {
            source->format = formats[i]->name;
            SR_TRY(formats[i]->list(source));
            return sort_files(source);
        }
    }
    sr_text names;
    sr_text_init(&names);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        sr_text_add(&names, "%s%s", i ? "; " : "", formats[i]->help);
    sr_status status =
        SR_FAIL(SR_E_USAGE, "%s: no known kind of source (%s)", source->path, names.data);
    sr_text_release(&names);
    return status;
}

static sr_status open_source(sr_source *source, const char *path, const char *spool_folder) {
    source->path = sr_arena_strdup(&source->arena, path);
    source->spool_folder = sr_arena_strdup(&source->arena, spool_folder);
    if (source->path == NULL || source->spool_folder == NULL)
        return SR_E_MEMORY;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        return SR_FAIL(error == ENOENT || error == ENOTDIR ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s",
                       path, strerror(error));
    }
    bool folder = S_ISDIR(info.st_mode);
    if (folder)
        source->folder = fd;
    else
        source->archive = fd;
    if (!folder && !S_ISREG(info.st_mode))
        return SR_FAIL(SR_E_USAGE, "%s: neither a folder nor a file", path);
    return list_with_format(source, fd, folder);
}

sr_status sr_source_open(const char *path, const char *spool_folder, sr_source **out) {
    sr_source *source = sr_alloc(sizeof *source, "source");
    if (source == NULL)
        return SR_E_MEMORY;
    sr_arena_init(&source->arena);
    source->folder = source->archive = source->spool = -1;
    sr_status status = open_source(source, path, spool_folder);
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
    const int files[] = {source->folder, source->archive, source->spool};
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0)
            (void)close(files[i]);
    sr_free(source->files);
    sr_free(source->refused);
    sr_arena_release(&source->arena);
    sr_free(source);
}

sr_status sr_source_read(const sr_source *source, size_t index, void **buffer, size_t *capacity) {
    const sr_source_file *file = &source->files[index];
    SR_TRY(sr_grow(buffer, capacity, (size_t)file->bytes + 1, 1, "picture file"));
    if (file->in >= 0)
        return sr_file_read_at(file->in == 0 ? source->archive : source->spool, source->path,
                               file->offset, *buffer, (size_t)file->bytes);
    int fd = openat(source->folder, file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return SR_FAIL(SR_E_IO, "cannot open: %s", strerror(errno));
    sr_status status = sr_file_read_at(fd, file->path, 0, *buffer, (size_t)file->bytes);
    (void)close(fd);
    return status;
}
