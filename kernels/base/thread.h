// SPDX-License-Identifier: Apache-2.0
// Starting worker threads. Signals that other processes send are blocked in worker threads, so that
// handlers run on the threads that wait for them and never interrupt a kernel or a message. Signals
// for the thread's own faults stay unblocked and have a separate stack. Threads start with
// serried's floating-point environment (float_control.h).
#ifndef SR_KERNELS_BASE_THREAD_H
#define SR_KERNELS_BASE_THREAD_H

#include <pthread.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Starts 'run' with 'user' on a new thread. ps and debuggers show 'name' (its first 15 characters).
// The caller's signal mask is unchanged. SR_E_SYSTEM names the thread and the cause.
SR_NODISCARD sr_status sr_thread_start(pthread_t *out, const char *name, void *(*run)(void *user),
                                       void *user);

// Gives the calling thread a stack for fault handlers, unless it has one. sr_thread_start does this
// for its threads.
SR_NODISCARD sr_status sr_thread_guard_stack(void);

#ifdef __cplusplus
}
#endif
#endif
