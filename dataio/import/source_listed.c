// SPDX-License-Identifier: Apache-2.0
// Lists the files in a folder that a list names (source_internal.h). No other file is opened, and
// as the user has written the list its paths may lead anywhere.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/import/list_file.h"
#include "dataio/import/source_internal.h"

static sr_status take_file(sr_source *source, const char *path, int fd) {
    uint8_t head[SR_SOURCE_HEAD];
    struct stat info;
    sr_offer offer;
    const ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0 || fstat(fd, &info) != 0)
        return sr_source_refuse_for(source, path, "cannot read: %s", strerror(errno));
    const size_t refused = source->refused_count;
    const uint64_t other = source->other;
    SR_TRY(sr_source_offer_listed(source, path, head, (size_t)got, (uint64_t)info.st_size, &offer));
    source->other = other; // it is refused below
    if (offer != SR_OFFER_PICTURE && source->refused_count == refused)
        return sr_source_refuse(source, path,
                                got > 0 ? "not a picture: its content is neither JPEG nor PNG"
                                        : "empty file");
    if (offer != SR_OFFER_PICTURE)
        return SR_OK;
    return sr_source_add(
        source,
        &(sr_source_file){.path = path,
                          .bytes = (uint64_t)info.st_size,
                          .mtime = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
                          .in = -1},
        offer);
}

static sr_status take_path(sr_source *source, const char *path) {
    int fd = openat(source->folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return SR_FAIL(SR_E_SYSTEM, "%s: %s", path, strerror(errno));
    if (fd < 0)
        return sr_source_refuse_for(source, path, "cannot open: %s", strerror(errno));
    sr_status status = take_file(source, path, fd);
    (void)close(fd);
    return status;
}

sr_status sr_source_list_listed(sr_source *source) {
    sr_list_file list;
    SR_TRY(sr_list_file_open(source, &list));
    const sr_listed_picture *entries = list.entries;
    sr_status status = SR_OK;
    for (size_t i = 0; i < list.count && status == SR_OK; i++)
        status = take_path(source, entries[i].path);
    sr_list_file_release(&list);
    return status;
}
