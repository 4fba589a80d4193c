// SPDX-License-Identifier: Apache-2.0
// Source: a folder and everything below it.
//
// Links are followed, as the user has made them; a link to a folder that is being walked is
// skipped, which ends loops. Only the first bytes of each file are read here. Archives are read
// only where the folder contains no pictures (a folder of shards, or of one tar for each class):
// otherwise they are probably the archives that the pictures came from.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/import/source_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"

#define MAX_DEPTH 32

typedef struct walk {
    sr_source *source;
    sr_text path;
    sr_file_list archives; // read at the end
    int depth;
    struct {
        dev_t device;
        ino_t inode;
    } above[MAX_DEPTH]; // folders that are being walked
} walk;

static sr_status refuse_errno(walk *w, const char *action, int error) {
    char reason[128];
    (void)snprintf(reason, sizeof reason, "%s: %s", action, strerror(error));
    return sr_source_refuse(w->source, w->path.data, reason);
}

static sr_status keep_archive(walk *w, const sr_source_file *file) {
    void *items = w->archives.items;
    SR_TRY(sr_grow(&items, &w->archives.capacity, w->archives.count + 1, sizeof *file, "archives"));
    w->archives.items = items;
    sr_source_file *kept = &w->archives.items[w->archives.count];
    *kept = *file;
    kept->path = sr_arena_strdup(&w->source->arena, file->path);
    if (kept->path == NULL)
        return SR_E_MEMORY;
    w->archives.count++;
    return SR_OK;
}

static sr_status offer_file(sr_source *source, const sr_source_file *file, const uint8_t *head,
                            size_t head_bytes) {
    sr_offer offer;
    SR_TRY(sr_source_offer(source, file->path, head, head_bytes, file->bytes, &offer));
    return offer != SR_OFFER_NOTHING ? sr_source_add(source, file, offer) : SR_OK;
}

static sr_status take_file(walk *w, int fd, const struct stat *info) {
    uint8_t head[SR_SOURCE_HEAD];
    ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0)
        return refuse_errno(w, "cannot read", errno);
    const sr_source_file file = {.path = w->path.data,
                                 .bytes = (uint64_t)info->st_size,
                                 .mtime = (int64_t)info->st_mtim.tv_sec * 1000000000 +
                                          info->st_mtim.tv_nsec,
                                 .in = -1};
    if (sr_source_is_archive(head, (size_t)got))
        return keep_archive(w, &file);
    return offer_file(w->source, &file, head, (size_t)got);
}

static sr_status walk_folder(walk *w, int fd, const struct stat *info);

// Takes over the descriptor.
static sr_status take_entry(walk *w, int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        int error = errno;
        (void)close(fd);
        return refuse_errno(w, "cannot stat", error);
    }
    if (S_ISDIR(info.st_mode))
        return walk_folder(w, fd, &info);
    sr_status status = SR_OK;
    if (S_ISREG(info.st_mode))
        status = take_file(w, fd, &info);
    else
        w->source->other++;
    (void)close(fd);
    return status;
}

static sr_status walk_entry(walk *w, int folder, const char *name) {
    size_t length = w->path.length;
    sr_text_add(&w->path, "%s%s", length ? "/" : "", name);
    sr_status status = sr_text_check(&w->path);
    if (status == SR_OK && sr_source_is_hidden(name)) {
        w->source->hidden++;
    } else if (status == SR_OK) {
        int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0)
            status = take_entry(w, fd);
        else if (errno == EMFILE || errno == ENFILE)
            status = SR_FAIL(SR_E_SYSTEM, "%s: %s", w->path.data, strerror(errno));
        else
            status = refuse_errno(w, "cannot open", errno);
    }
    if (status == SR_OK) {
        w->path.length = length;
        w->path.data[length] = '\0';
    }
    return status;
}

static bool is_being_walked(const walk *w, const struct stat *info) {
    for (int i = 0; i < w->depth; i++)
        if (w->above[i].device == info->st_dev && w->above[i].inode == info->st_ino)
            return true;
    return false;
}

static sr_status walk_folder(walk *w, int fd, const struct stat *info) {
    if (w->depth == MAX_DEPTH || is_being_walked(w, info)) {
        (void)close(fd);
        return sr_source_refuse(w->source, w->path.data,
                                w->depth == MAX_DEPTH ? "nested too deeply" : "a link to itself");
    }
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int error = errno;
        (void)close(fd);
        return SR_FAIL(SR_E_SYSTEM, "%s/%s: %s", w->source->path,
                       w->path.length ? w->path.data : "", strerror(error));
    }
    if (w->path.length > 0)
        SR_TRY(sr_source_note_folder(w->source, w->path.data, w->path.length));
    w->above[w->depth].device = info->st_dev;
    w->above[w->depth].inode = info->st_ino;
    w->depth++;
    sr_status status = SR_OK;
    for (;;) {
        errno = 0; // readdir returns NULL at the end and on failure
        const struct dirent *entry = readdir(dir);
        if (entry == NULL)
            break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = walk_entry(w, fd, entry->d_name);
        if (status != SR_OK)
            break;
    }
    if (status == SR_OK && errno != 0)
        status = SR_FAIL(SR_E_IO, "%s/%s: cannot be read completely: %s", w->source->path,
                         w->path.length ? w->path.data : "", strerror(errno));
    w->depth--;
    (void)closedir(dir);
    return status;
}

static sr_status enter_archive(sr_source *source, const sr_source_file *file, bool enter) {
    uint8_t head[SR_SOURCE_HEAD];
    size_t head_bytes = file->bytes < sizeof head ? (size_t)file->bytes : sizeof head;
    bool is_archive = false;
    int backing, fd = openat(source->folder, file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return SR_FAIL(SR_E_IO, "%s/%s: cannot open: %s", source->path, file->path,
                       strerror(errno));
    sr_status status = sr_file_read_at(fd, file->path, 0, head, head_bytes);
    if (status == SR_OK && enter) {
        status = sr_source_add_backing(source, file->path, -1, &backing);
        if (status == SR_OK)
            status =
                sr_source_read_archive(source, fd, backing, file->bytes, file->path, &is_archive);
    }
    (void)close(fd);
    SR_TRY(status);
    return is_archive ? SR_OK : offer_file(source, file, head, head_bytes);
}

sr_status sr_source_list_folder(sr_source *source) {
    walk w = {.source = source};
    struct stat info;
    int fd = dup(source->folder); // closedir closes its descriptor
    if (fd < 0 || fstat(fd, &info) != 0)
        return SR_FAIL(SR_E_SYSTEM, "%s: %s", source->path, strerror(errno));
    sr_text_init(&w.path);
    sr_status status = walk_folder(&w, fd, &info);
    sr_text_release(&w.path);
    const bool enter = source->files.count == 0;
    for (size_t i = 0; i < w.archives.count && status == SR_OK; i++)
        status = enter_archive(source, &w.archives.items[i], enter);
    sr_free(w.archives.items);
    return status;
}

static bool recognises(const sr_source_probe *probe) {
    return probe->folder;
}

extern const sr_source_kind sr_source_kind_folder;
const sr_source_kind sr_source_kind_folder = {
    .struct_size = sizeof(sr_source_kind),
    .abi = SR_SOURCE_KIND_ABI,
    .name = "folder",
    .help = "a folder",
    .recognises = recognises,
    .list = sr_source_list_folder,
};
