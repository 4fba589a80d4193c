// SPDX-License-Identifier: Apache-2.0
// Importer: a folder of pictures, in the layout of ImageFolder (CLASS/file, or train/CLASS/file and
// val/CLASS/file; any depth below the class).
//
// Links are followed, as they are the user's own; a link to a folder that is being walked is left
// out, so that loops end. Only the first bytes of each file are read here.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/format.h"
#include "kernels/base/text.h"

#define MAX_DEPTH 32

typedef struct walk {
    sr_source *source;
    sr_text path;
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

static sr_status take_file(walk *w, int fd, const struct stat *info) {
    uint8_t head[32];
    bool wanted;
    ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0)
        return refuse_errno(w, "cannot read", errno);
    SR_TRY(sr_source_offer(w->source, w->path.data, head, (size_t)got, &wanted));
    if (!wanted)
        return SR_OK;
    return sr_source_add(w->source,
                         &(sr_source_file){.path = w->path.data,
                                           .bytes = (uint64_t)info->st_size,
                                           .mtime = (int64_t)info->st_mtim.tv_sec * 1000000000 +
                                                    info->st_mtim.tv_nsec,
                                           .in = -1});
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
    w->above[w->depth].device = info->st_dev;
    w->above[w->depth].inode = info->st_ino;
    w->depth++;
    sr_status status = SR_OK;
    for (;;) {
        errno = 0; // readdir's end and its failure look the same
        const struct dirent *entry = readdir(dir);
        if (entry == NULL)
            break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = walk_entry(w, fd, entry->d_name);
        if (status != SR_OK)
            break;
    }
    if (status == SR_OK && errno != 0)
        status = SR_FAIL(SR_E_IO, "%s/%s: cannot be read to its end: %s", w->source->path,
                         w->path.length ? w->path.data : "", strerror(errno));
    w->depth--;
    (void)closedir(dir);
    return status;
}

static sr_status list(sr_source *source) {
    walk w = {.source = source};
    struct stat info;
    int fd = dup(source->folder); // closedir takes the one it is given
    if (fd < 0 || fstat(fd, &info) != 0)
        return SR_FAIL(SR_E_SYSTEM, "%s: %s", source->path, strerror(errno));
    sr_text_init(&w.path);
    sr_status status = walk_folder(&w, fd, &info);
    sr_text_release(&w.path);
    return status;
}

static bool recognises(const sr_format_probe *probe) {
    return probe->folder;
}

extern const sr_format sr_format_folder;
const sr_format sr_format_folder = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "folder",
    .help = "a folder CLASS/picture or {train,val}/CLASS/picture",
    .recognises = recognises,
    .list = list,
};
