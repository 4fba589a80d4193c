// SPDX-License-Identifier: Apache-2.0
// State of another process, from the kernel (proc(5)).
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
    uint64_t started; // in ticks since boot: distinguishes it from a later process with its pid
} sr_process;

// Returns false if there is no such process (or no /proc).
bool sr_process_look(pid_t pid, sr_process *out);
// Whether it is stopped by SIGSTOP, Ctrl-Z or a debugger. Waiting in the kernel ('D') does not
// count, as every process does so now and then.
bool sr_process_is_stopped(pid_t pid);

#define SR_PROCESS_SIGN_BYTES 256
// "host a, pid 7, since 2026-01-31T12:00:00Z" for this process, to write into its lock files.
const char *sr_process_sign(char out[SR_PROCESS_SIGN_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
