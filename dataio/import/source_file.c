// SPDX-License-Identifier: Apache-2.0
// Source: a single file that is not an archive: pixels of many pictures (CIFAR), or annotations of
// pictures in its folder or, where there are none, in the folder above (COCO's annotations/x.json,
// YOLO's data.yaml).
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/import/source_internal.h"
#include "kernels/base/text.h"

static bool recognises(const sr_source_probe *probe) {
    struct stat info;
    return !probe->folder && !sr_text_ends_with(probe->path, ".txt") &&
           fstat(probe->fd, &info) == 0 &&
           probe->wants(probe->path, probe->head, probe->head_bytes, (uint64_t)info.st_size);
}

static bool is_yaml(const char *path) {
    return sr_text_ends_with(path, ".yaml") || sr_text_ends_with(path, ".yml");
}

// Lists a folder for its pictures; of its wanted files only the named file itself is kept, and for
// a YAML file the texts that it may refer to.
static sr_status list_around(sr_source *source, const char *folder, const struct stat *named) {
    const uint64_t before = source->wanted.count;
    source->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (source->folder < 0)
        return SR_FAIL(SR_E_IO, "%s: cannot open: %s", folder, strerror(errno));
    SR_TRY(sr_source_list_folder(source));
    size_t kept = (size_t)before;
    for (size_t i = kept; i < source->wanted.count; i++) {
        struct stat info;
        const sr_source_file *file = &source->wanted.items[i];
        const bool itself = file->in < 0 && fstatat(source->folder, file->path, &info, 0) == 0 &&
                            info.st_dev == named->st_dev && info.st_ino == named->st_ino;
        if (itself || (is_yaml(source->path) && sr_text_ends_with(file->path, ".txt")))
            source->wanted.items[kept++] = *file;
        else
            source->other++;
    }
    source->wanted.count = kept;
    return SR_OK;
}

static void forget(sr_source *source) {
    (void)close(source->folder);
    source->folder = -1;
    source->wanted.count = source->refused_count = 0;
    source->hidden = source->other = source->bytes = 0;
}

static sr_status list(sr_source *source) {
    struct stat info;
    uint8_t head[SR_SOURCE_HEAD];
    const int fd = source->backing[0].fd;
    const ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0 || fstat(fd, &info) != 0)
        return SR_FAIL(SR_E_IO, "%s: %s", source->path, strerror(errno));
    const char *name = strrchr(source->path, '/');
    const sr_source_file file = {.path = name ? name + 1 : source->path,
                                 .bytes = (uint64_t)info.st_size,
                                 .mtime = (int64_t)info.st_mtim.tv_sec * 1000000000 +
                                          info.st_mtim.tv_nsec};
    if (!is_yaml(source->path) && got > 0 && head[0] != '{' &&
        memcmp(head, "\xef\xbb\xbf", got < 3 ? 1 : 3) != 0)
        return sr_source_add(source, &file, SR_OFFER_WANTED);
    char folder[4096];
    if (snprintf(folder, sizeof folder, "%.*s", name ? (int)(name - source->path) + 1 : 2,
                 name ? source->path : "./") >= (int)sizeof folder)
        return SR_FAIL(SR_E_USAGE, "%s: the path is too long", source->path);
    SR_TRY(list_around(source, folder, &info));
    if (source->files.count > 0)
        return SR_OK;
    forget(source);
    char above[sizeof folder + 3];
    (void)snprintf(above, sizeof above, "%s..", folder);
    return list_around(source, above, &info);
}

extern const sr_source_kind sr_source_kind_file;
const sr_source_kind sr_source_kind_file = {
    .struct_size = sizeof(sr_source_kind),
    .abi = SR_SOURCE_KIND_ABI,
    .name = "file",
    .help = "a file of pixels or annotations",
    .recognises = recognises,
    .list = list,
};
