// SPDX-License-Identifier: Apache-2.0
// What this process may use of its machine, limits of its cgroups (version 2) included.
#ifndef SR_KERNELS_BASE_MACHINE_H
#define SR_KERNELS_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Memory in bytes; UINT64_MAX where the machine does not say.
typedef struct sr_machine_memory {
    uint64_t total;     // that this process may have at most
    uint64_t available; // that is free, or can be freed, now
    const char *limit; // what bounds 'total': "its cgroup's memory.max", "ulimit -v"; NULL: nothing
    bool addresses_limited; // by ulimit -v: reserved addresses count as memory
} sr_machine_memory;
sr_machine_memory sr_machine_get_memory(void);

// Calls visit with the folder of each cgroup that this process is in, from its own to the root:
// "/sys/fs/cgroup/a/b". A limit of any of them holds.
void sr_machine_visit_cgroups(void (*visit)(const char *folder, void *user), void *user);

#ifdef __cplusplus
}
#endif
#endif
