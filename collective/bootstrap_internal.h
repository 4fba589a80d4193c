// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job find each other: who they are, small blobs that each gives to all others
// (addresses of backends), and how the job ends. Bytes are moved by backends
// (comm_backend_internal.h). Each bootstrap is one file (bootstrap_X.c) and a line in
// bootstrap_list.def.
#ifndef SR_COLLECTIVE_BOOTSTRAP_INTERNAL_H
#define SR_COLLECTIVE_BOOTSTRAP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/status.h"

// How a job ends.
typedef enum sr_comm_parting {
    SR_COMM_CLEAN = 0,       // nothing failed, all ranks have passed the last barrier
    SR_COMM_FAILED_TOGETHER, // something failed and every rank knows: each exits by itself
    SR_COMM_FAILED_ALONE,    // something failed and a rank does not answer: end the whole job
} sr_comm_parting;

typedef struct sr_bootstrap {
    const char *name;
    bool (*detect)(void); // was this process started for it? NULL: only used where none was
    // Collective. Waits are known to the watchdog.
    sr_status (*open)(void **state, int *rank, int *size);
    // Collective: all[r * bytes ..] becomes what rank r gave; at most 64 KiB of each. It waits for
    // 'seconds' at most, SR_E_TIMEOUT.
    sr_status (*exchange)(void *state, const void *mine, size_t bytes, void *all, double seconds);
    void (*close)(void *state, sr_comm_parting parting, int exit_code);
} sr_bootstrap;

// A job that this process is a rank of.
typedef struct sr_comm_job {
    const sr_bootstrap *bootstrap; // NULL: ranks are threads of this process, which meet elsewhere
    void *state;
    int rank, size;
} sr_comm_job;

// The bootstrap whose launcher started this process; "self" if none did, or if 'alone'.
const sr_bootstrap *sr_bootstrap_find(bool alone);

#endif
