// SPDX-License-Identifier: Apache-2.0
// Locks on files (see file_lock.h).
#include "kernels/base/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"

#define MOST_TRIES 100

sr_lock_result sr_file_lock(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int result;
    do
        result = fcntl(fd, F_OFD_SETLK, &lock);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EAGAIN && errno != EACCES) {
        do
            result = flock(fd, LOCK_EX | LOCK_NB);
        while (result != 0 && errno == EINTR);
    }
    if (result == 0)
        return SR_LOCK_TAKEN;
    return errno == EAGAIN || errno == EACCES ? SR_LOCK_HELD_BY_OTHER : SR_LOCK_NOT_SUPPORTED;
}

static bool names_it(const char *path, int fd) {
    struct stat locked, named;
    return fstat(fd, &locked) == 0 && stat(path, &named) == 0 && locked.st_ino == named.st_ino &&
           locked.st_dev == named.st_dev;
}

sr_status sr_lock_file_open(const char *path, int *fd, sr_lock_result *out) {
    for (int attempt = 0; attempt < MOST_TRIES; ++attempt) {
        int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (opened < 0)
            return sr_file_fail(path, "cannot be opened", errno);
        *out = sr_file_lock(opened);
        const int error = errno;
        if (*out == SR_LOCK_HELD_BY_OTHER || names_it(path, opened)) {
            *fd = opened;
            errno = error;
            return SR_OK;
        }
        (void)close(opened);
    }
    return SR_FAIL(SR_E_IO,
                   "%s: is replaced again and again by another process; remove what replaces it, "
                   "or use another folder",
                   path);
}

void sr_lock_warn(const char *path, const char *other) {
    SR_WARN(
        "%s: its file system has no locks (%s), so nothing prevents %s: make sure of it yourself, "
        "use another folder, or mount it with locks (NFS: lockd; Lustre: -o flock)",
        path, strerror(errno), other);
}
