// SPDX-License-Identifier: Apache-2.0
// Unnamed temporary files (spool.h): O_TMPFILE where the file system supports it (open(2)), else a
// file that is removed at once. Small appends are buffered, as there may be millions of
// annotations.
#include "dataio/import/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

#define WAITING_BYTES ((size_t)256 << 10)

void sr_spool_init(sr_spool *spool, const char *folder) {
    *spool = (sr_spool){.fd = -1, .folder = folder};
}

void sr_spool_release(sr_spool *spool) {
    if (spool->waiting != NULL && spool->fd >= 0) // a zero-initialised spool was never opened
        (void)close(spool->fd);
    sr_free(spool->waiting);
    sr_spool_init(spool, spool->folder);
}

static sr_status open_spool(sr_spool *spool) {
    spool->waiting = sr_alloc(WAITING_BYTES, "temporary file");
    if (spool->waiting == NULL)
        return SR_E_MEMORY;
    spool->fd = open(spool->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (spool->fd >= 0)
        return SR_OK;
    char *path = sr_path_join(spool->folder, "spool-XXXXXX"); // no O_TMPFILE there
    if (path == NULL)
        return SR_E_MEMORY;
    spool->fd = mkostemp(path, O_CLOEXEC);
    int error = errno;
    if (spool->fd >= 0)
        (void)unlink(path);
    sr_free(path);
    if (spool->fd < 0)
        return SR_FAIL(SR_E_IO, "%s: cannot make a temporary file: %s", spool->folder,
                       strerror(error));
    return SR_OK;
}

static sr_status fail_write(const sr_spool *spool, int error) {
    char action[96];
    (void)snprintf(action, sizeof action, "a temporary file of %llu MiB for unpacked contents",
                   (unsigned long long)(spool->bytes >> 20));
    return sr_file_fail(spool->folder, action, error);
}

static sr_status write_all(sr_spool *spool, const uint8_t *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(spool->fd, data, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_write(spool, errno);
        data += n;
        bytes -= (size_t)n;
    }
    return SR_OK;
}

sr_status sr_spool_flush(sr_spool *spool) {
    size_t bytes = spool->waiting_bytes;
    spool->waiting_bytes = 0;
    return bytes > 0 ? write_all(spool, spool->waiting, bytes) : SR_OK;
}

sr_status sr_spool_append(sr_spool *spool, const void *data, size_t bytes) {
    if (spool->fd < 0)
        SR_TRY(open_spool(spool));
    if (spool->waiting_bytes + bytes > WAITING_BYTES)
        SR_TRY(sr_spool_flush(spool));
    if (bytes > WAITING_BYTES) {
        SR_TRY(write_all(spool, data, bytes));
    } else if (bytes > 0) {
        memcpy(spool->waiting + spool->waiting_bytes, data, bytes);
        spool->waiting_bytes += bytes;
    }
    spool->bytes += bytes;
    return SR_OK;
}
