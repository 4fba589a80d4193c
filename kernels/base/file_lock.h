// SPDX-License-Identifier: Apache-2.0
// Locks on files, on whatever file system they lie.
//
// Open file description locks (fcntl(2), F_OFD_SETLK) come first: they end with the process,
// however that ends, work on local file systems and NFS, and two opens of one process exclude each
// other, too. They need a descriptor that may be written. Where they fail flock(2) is tried, which
// takes a folder, but on NFS is such a lock in disguise. Some file systems have neither.
#ifndef SR_KERNELS_BASE_FILE_LOCK_H
#define SR_KERNELS_BASE_FILE_LOCK_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_lock_result {
    SR_LOCK_TAKEN = 0,
    SR_LOCK_HELD_BY_OTHER,
    SR_LOCK_NOT_SUPPORTED, // errno says why
} sr_lock_result;

// Tries to take the whole file for this descriptor alone. Never waits; closing the descriptor and
// its copies gives it back.
SR_NODISCARD sr_lock_result sr_file_lock(int fd);

// Opens the lock file, makes it where it is missing, and tries to lock it; *fd is open unless there
// is an error. The file of the path is the one that is locked, even if somebody moves or removes
// lock files meanwhile.
SR_NODISCARD sr_status sr_lock_file_open(const char *path, int *fd, sr_lock_result *out);
// Warns that 'path' is not protected by a lock from what 'other' names ("a second job"), after a
// lock was not supported.
void sr_lock_warn(const char *path, const char *other);

#ifdef __cplusplus
}
#endif
#endif
