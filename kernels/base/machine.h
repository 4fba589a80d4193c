// SPDX-License-Identifier: Apache-2.0
// The resources of the machine that this process may use, including the limits of its cgroups
// (version 2).
#ifndef SR_KERNELS_BASE_MACHINE_H
#define SR_KERNELS_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Memory in bytes; UINT64_MAX where it is unknown.
typedef struct sr_machine_memory {
    uint64_t total;     // limit for this process
    uint64_t available; // free now, or reclaimable
    const char *limit; // what bounds 'total': "its cgroup's memory.max", "ulimit -v"; NULL: nothing
    bool addresses_limited; // by ulimit -v: reserved address space counts as memory
} sr_machine_memory;
sr_machine_memory sr_machine_get_memory(void);

// Calls visit with the folder of each cgroup that this process is in, from its own up to the root:
// those of the controller ("memory") in version 1 of the kernel's interface,
// "/sys/fs/cgroup/memory/a/b", then those of version 2, "/sys/fs/cgroup/a/b". The limits of all
// these cgroups apply.
void sr_machine_visit_cgroups(const char *controller, void (*visit)(const char *folder, void *user),
                              void *user);

#define SR_START_FAILURE_BYTES 320
// Why a process or thread could not be started, from the error number: with the limits on processes
// and threads, if one is reached. For messages.
const char *sr_machine_start_failure(int error, char out[SR_START_FAILURE_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
