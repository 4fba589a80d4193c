// SPDX-License-Identifier: Apache-2.0
// Source: a single file that is no archive, as one file of CIFAR's pixels.
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/format.h"

static bool recognises(const sr_source_probe *probe) {
    struct stat info;
    return !probe->folder && fstat(probe->fd, &info) == 0 &&
           sr_format_wants(probe->path, probe->head, probe->head_bytes, (uint64_t)info.st_size);
}

static sr_status list(sr_source *source) {
    struct stat info;
    const char *name = strrchr(source->path, '/');
    if (fstat(source->stores[0].fd, &info) != 0)
        return SR_FAIL(SR_E_IO, "%s: cannot be looked at", source->path);
    const sr_source_file file = {.path = name ? name + 1 : source->path,
                                 .bytes = (uint64_t)info.st_size,
                                 .mtime = (int64_t)info.st_mtim.tv_sec * 1000000000 +
                                          info.st_mtim.tv_nsec};
    return sr_source_add(source, &file, SR_OFFER_PAPER);
}

extern const sr_source_kind sr_source_kind_file;
const sr_source_kind sr_source_kind_file = {
    .struct_size = sizeof(sr_source_kind),
    .abi = SR_SOURCE_KIND_ABI,
    .name = "file",
    .help = "a file of many pictures",
    .recognises = recognises,
    .list = list,
};
