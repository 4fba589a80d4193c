// SPDX-License-Identifier: Apache-2.0
// Starting threads that serve: with every signal blocked that somebody sends, so that the process's
// handlers run on the threads that wait for them and never in the middle of a kernel or of a
// message. Signals of the thread's own faults stay open, and have a stack of their own. They begin
// with serried's floating-point control (float_control.h).
#ifndef SR_KERNELS_BASE_THREAD_H
#define SR_KERNELS_BASE_THREAD_H

#include <pthread.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Starts 'run' with 'user' on a new thread that shows under 'name' (at most 15 characters count) in
// ps and debuggers. The caller's signal mask is as before. SR_E_SYSTEM names the thread and the
// cause.
SR_NODISCARD sr_status sr_thread_start(pthread_t *out, const char *name, void *(*run)(void *user),
                                       void *user);

// Gives the calling thread a stack for handlers of its faults, if it has none. sr_thread_start does
// so for its threads.
SR_NODISCARD sr_status sr_thread_guard_stack(void);

#ifdef __cplusplus
}
#endif
#endif
