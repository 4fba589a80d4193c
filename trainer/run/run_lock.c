// SPDX-License-Identifier: Apache-2.0
// The lock of a run folder (run_lock.h).
//
// The file is never removed: a lock on an unlinked file would exclude nobody. sr_lock_file_open
// detects a folder that --fresh moves aside between open and lock.
#include "trainer/run/run_lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/file_lock.h"
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

sr_status sr_run_lock_take(const char *folder, sr_run_lock *out) {
    int fd = -1;
    sr_lock_result result = SR_LOCK_TAKEN;
    char *path = sr_path_join(folder, "run.lock");
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_lock_file_open(path, &fd, &result);
    if (status == SR_OK && result == SR_LOCK_NOT_SUPPORTED)
        sr_lock_warn(folder, "a second job");
    if (status == SR_OK)
        status = result == SR_LOCK_HELD_BY_OTHER ? fail_held(folder, fd) : write_holder(fd, path);
    if (status == SR_OK)
        out->fd = fd;
    else if (fd >= 0)
        (void)close(fd);
    sr_free(path);
    return status;
}

void sr_run_lock_release(sr_run_lock *lock) {
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
}
