// SPDX-License-Identifier: Apache-2.0
// Walls around a data process: what it may still ask the kernel for once its work begins.
//
// A process that decodes pictures of unknown origin needs memory, time and what is open already:
// no files, no network, no other processes. One that reads a data set needs that data set's files
// besides, to be read. Whoever finds a hole in a decoder is then left with a slot to spoil.
//
// Two walls, each where the kernel has it: an allow-list of system calls (seccomp), and rights on
// files, ports and signals (Landlock). What is refused gives EPERM or EACCES and kills nobody, so
// that code which asks too late fails with a message of its own.
#ifndef SR_DATAIO_SANDBOX_H
#define SR_DATAIO_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Most memory of its own that a process which decodes may take behind its walls: the largest
// picture within the limits of decode.h takes about a third of it.
#define SR_SANDBOX_MEMORY (UINT64_C(4) << 30)

// What is left to a process.
typedef enum sr_sandbox_rights {
    SR_SANDBOX_COMPUTE = 0, // memory, threads, time, descriptors that are open
    SR_SANDBOX_READ,        // and opening the files of one data set to read them
} sr_sandbox_rights;

// What the kernel offers.
typedef struct sr_sandbox_support {
    bool seccomp;
    int landlock; // version of its interface; 0: none
} sr_sandbox_support;

// Asks the kernel; changes nothing.
sr_sandbox_support sr_sandbox_get_support(void);
// Closes this process in, for good, with as many walls as there are. 'path' is the data set of
// SR_SANDBOX_READ: a folder, whose own links to elsewhere stay good, or a file. SR_E_SYSTEM where
// the kernel has a wall and does not put it up.
SR_NODISCARD sr_status sr_sandbox_enter(sr_sandbox_rights rights, const char *path);
// Limits the memory that this process may take from here on: beyond it allocations fail. False
// where that cannot be had (address sanitizers take all addresses in advance).
bool sr_sandbox_limit_memory(uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
