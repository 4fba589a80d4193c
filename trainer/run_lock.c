// SPDX-License-Identifier: Apache-2.0
// Lock of a run folder (see run_lock.h).
//
// The file is never removed: a lock on an unlinked file would exclude nobody. That the folder may
// be moved aside by --fresh between open and lock is met by comparing the locked file with the one
// that the path names afterwards.
#include "trainer/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/process.h"

static sr_status fail_held(const char *folder, int fd) {
    char holder[256];
    ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    return SR_FAIL(SR_E_EXISTS,
                   "%s: another job is writing to this run folder (%s); wait for it or stop it, or "
                   "name another folder with -o DIR",
                   folder, n > 0 ? holder : "just starting");
}

static sr_status write_holder(int fd, const char *path) {
    char sign[SR_PROCESS_SIGN_BYTES], text[SR_PROCESS_SIGN_BYTES + 1];
    int n = snprintf(text, sizeof text, "%s\n", sr_process_sign(sign));
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return sr_file_fail(path, "cannot write", errno);
    return SR_OK;
}

// SR_OK with *again when the path names another file by now.
static sr_status try_lock(const char *folder, const char *path, int fd, bool *again) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat locked, named;
    int result;
    do
        result = fcntl(fd, F_OFD_SETLK, &lock);
    while (result != 0 && errno == EINTR);
    if (result != 0 && (errno == EAGAIN || errno == EACCES))
        return fail_held(folder, fd);
    if (result != 0)
        return sr_file_fail(path, "cannot be locked", errno);
    *again = fstat(fd, &locked) != 0 || stat(path, &named) != 0 || locked.st_ino != named.st_ino ||
             locked.st_dev != named.st_dev;
    return *again ? SR_OK : write_holder(fd, path);
}

sr_status sr_run_lock_take(const char *folder, sr_run_lock *out) {
    sr_status status = SR_OK;
    bool again = true;
    char *path = sr_path_join(folder, "run.lock");
    if (path == NULL)
        return SR_E_MEMORY;
    for (int attempt = 0; attempt < 100 && again && status == SR_OK; ++attempt) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) {
            status = sr_file_fail(path, "cannot be opened", errno);
            break;
        }
        status = try_lock(folder, path, fd, &again);
        if (status == SR_OK && !again)
            out->fd = fd;
        else
            close(fd);
    }
    if (status == SR_OK && again)
        status = SR_FAIL(SR_E_IO, "%s: keeps being replaced by somebody else", path);
    sr_free(path);
    return status;
}

void sr_run_lock_release(sr_run_lock *lock) {
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
}
