// SPDX-License-Identifier: Apache-2.0
// A sandbox for data processes: restricts their system calls once their work begins.
//
// A process that decodes untrusted pictures needs memory, time and its open descriptors, but no
// files, no network and no other processes. One that reads a data set also needs read access to its
// files. An attacker who exploits a decoder can then do no more than corrupt slots.
//
// It has two layers, each used where the kernel supports it: an allow-list of system calls
// (seccomp), and rights on files, ports and signals (Landlock). Refused calls return EPERM or
// EACCES and do not kill the process, so the caller can report the error.
#ifndef SR_DATAIO_SANDBOX_H
#define SR_DATAIO_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Limit of the private memory of a sandboxed process that decodes. The largest picture within the
// limits of decode.h needs about a third of it.
#define SR_SANDBOX_MEMORY (UINT64_C(4) << 30)

// What a sandboxed process may do.
typedef enum sr_sandbox_rights {
    SR_SANDBOX_COMPUTE = 0, // use memory, threads, time and open descriptors
    SR_SANDBOX_READ,        // also open the files of one data set for reading
} sr_sandbox_rights;

// What the kernel supports.
typedef struct sr_sandbox_support {
    bool seccomp;
    int landlock; // version of its interface; 0: none
} sr_sandbox_support;

// Queries the kernel; changes nothing.
sr_sandbox_support sr_sandbox_get_support(void);
// Sandboxes this process irrevocably, with the layers that the kernel supports. 'path' is the data
// set of SR_SANDBOX_READ: a folder, whose links to elsewhere remain usable, or a file. SR_E_SYSTEM
// where the kernel supports a layer but fails to enable it.
SR_NODISCARD sr_status sr_sandbox_enter(sr_sandbox_rights rights, const char *path);
// Limits the memory that this process may allocate from now on; further allocations fail. False
// where that is impossible (address sanitizers reserve all addresses in advance).
bool sr_sandbox_limit_memory(uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
