// SPDX-License-Identifier: Apache-2.0
// Locks on files, on any file system.
//
// Open file description locks (fcntl(2), F_OFD_SETLK) are tried first: they are released when the
// process ends for any reason, they work on local file systems and NFS, and two opens within one
// process also exclude each other. They need a writable descriptor. If they fail, flock(2) is
// tried: it can lock a folder, but NFS emulates it with the former. Some file systems support
// neither.
#ifndef SR_KERNELS_BASE_FILE_LOCK_H
#define SR_KERNELS_BASE_FILE_LOCK_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_lock_result {
    SR_LOCK_TAKEN = 0,
    SR_LOCK_HELD_BY_OTHER,
    SR_LOCK_NOT_SUPPORTED, // errno has the reason
} sr_lock_result;

// Tries to lock the whole file for this descriptor. Never waits; closing the descriptor and its
// copies releases the lock.
SR_NODISCARD sr_lock_result sr_file_lock(int fd);

// Opens the lock file, creates it if it is missing, and tries to lock it; *fd is open unless there
// is an error. The locked file is the one at 'path', even if another process moves or removes lock
// files meanwhile.
SR_NODISCARD sr_status sr_lock_file_open(const char *path, int *fd, sr_lock_result *out);
// Warns, after SR_LOCK_NOT_SUPPORTED, that no lock protects 'path' from 'other' ("a second job").
void sr_lock_warn(const char *path, const char *other);

#ifdef __cplusplus
}
#endif
#endif
