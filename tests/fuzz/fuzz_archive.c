// SPDX-License-Identifier: Apache-2.0
// Fuzzes the listing of archives and the interpretation of their paths. Every candidate must have a
// name inside the archive, and its bytes must be readable.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataio/formats/format.h"
#include "dataio/formats/layout.h"
#include "dataio/image/picture.h"
#include "kernels/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool fine) {
    if (!fine)
        abort();
}

static bool leads_out(const char *path) {
    return path[0] == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 ||
           strstr(path, "/../") != NULL;
}

static void read_all(sr_source *source) {
    void *buffer = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < source->files.count; i++) {
        const sr_source_file *file = &source->files.items[i];
        require(!leads_out(file->path) && file->bytes <= SR_PICTURE_MAX_BYTES);
        if (sr_source_read(source, file, &buffer, &capacity) == SR_OK)
            require(sr_picture_sniff(buffer, (size_t)file->bytes, NULL) != SR_PICTURE_NONE);
    }
    sr_free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("archive", MFD_CLOEXEC);
    char path[64];
    sr_source *source;
    sr_layout layout;
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (sr_format_open(path, NULL, NULL, "/tmp", NULL, &source) == SR_OK) {
        read_all(source);
        if (sr_layout_make(source, NULL, &layout) == SR_OK)
            sr_layout_release(&layout);
        sr_source_free(source);
    }
    (void)close(fd);
    return 0;
}
