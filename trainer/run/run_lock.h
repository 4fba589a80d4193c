// SPDX-License-Identifier: Apache-2.0
// A lock file that names its holder.
//
// The lock (kernels/base/file_lock.h) is released when the process ends, however it ends. A file
// system without locks is a warning.
#ifndef SR_TRAINER_RUN_LOCK_H
#define SR_TRAINER_RUN_LOCK_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_run_lock {
    int fd; // -1: not held
} sr_run_lock;

// Takes the lock FOLDER/run.lock without waiting and writes host, pid and time into it.
// SR_E_EXISTS naming the holder when another job has it. Never removes the file.
SR_NODISCARD sr_status sr_run_lock_take(const char *folder, sr_run_lock *out);
void sr_run_lock_release(sr_run_lock *lock);

#ifdef __cplusplus
}
#endif
#endif
