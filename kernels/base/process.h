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
// Why a process makes no progress: "stopped (SIGSTOP)", "hanging in the kernel", or NULL where the
// kernel knows no reason.
const char *sr_process_hindrance(pid_t pid);

#ifdef __cplusplus
}
#endif
#endif
