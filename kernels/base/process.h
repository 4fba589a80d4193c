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

#define SR_PROCESS_SIGN_BYTES 256
// "host a, pid 7, since 2026-01-31T12:00:00Z" of this process, for those who find its lock.
const char *sr_process_sign(char out[SR_PROCESS_SIGN_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
