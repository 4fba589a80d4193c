// SPDX-License-Identifier: Apache-2.0
// What the kernel says of another process (proc(5)).
#ifndef SR_KERNELS_BASE_PROCESS_H
#define SR_KERNELS_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_process {
    char state;       // 'R', 'S', 'T' (stopped), 'D' (hangs in the kernel), 'Z', ...
    uint64_t started; // in ticks since the machine's start: tells it from a later one of its number
} sr_process;

// False where there is no such process (or no /proc).
bool sr_process_look(pid_t pid, sr_process *out);
// Stopped by SIGSTOP, Ctrl-Z or a debugger. (That it waits in the kernel, 'D', says nothing: every
// process does now and then.)
bool sr_process_is_stopped(pid_t pid);

#ifdef __cplusplus
}
#endif
#endif
