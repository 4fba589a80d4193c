// SPDX-License-Identifier: Apache-2.0
// Starting ranks on this machine: the line for mpirun, and being its parent.
#ifndef SR_LAUNCHER_START_H
#define SR_LAUNCHER_START_H

#include <stdbool.h>
#include <sys/types.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// How this process came to be.
typedef enum sr_started_by {
    SR_STARTED_ALONE = 0,
    SR_STARTED_BY_MPI,   // one rank of a job: OMPI_COMM_WORLD_SIZE, PMIX_RANK or PMI_RANK is set
    SR_STARTED_BY_SLURM, // one of several Slurm tasks that know nothing of each other
} sr_started_by;
sr_started_by sr_start_detect(void);
// Tasks of the Slurm job or step around this process (SLURM_NTASKS); 1 elsewhere.
int sr_start_slurm_tasks(void);

// Processors for ranks: physical cores that this process may use, and whether ranks may be bound to
// them (not under a restricted mask or a cgroup's quota, where mpirun's idea of cores is wrong).
typedef struct sr_start_cores {
    int cores, nodes; // nodes: of memory (NUMA)
    bool may_bind;
} sr_start_cores;
sr_start_cores sr_start_count_cores(void);

// The process that ends the job and removes its folder when we are killed.
typedef struct sr_start_guard {
    pid_t pid; // 0: none
    int line;  // it lives as long as this descriptor is open; -1: none
} sr_start_guard;

typedef struct sr_start_plan {
    int ranks;
    char **argv;        // of mpirun, NULL-terminated; memory of the arena
    const char *line;   // the same as a shell takes it
    const char *folder; // for MPI's backing files; NULL: none could be made
    const char *board;  // file in it on which ranks tell who they are; NULL likewise
    int lock;           // descriptor that holds the folder, or -1
    sr_start_guard guard;
    bool as_root;       // mpirun must be told to allow it
    int oversubscribed; // ranks more than cores, 0 where not
    int limit_seconds;  // after which the job is killed; 0: never
} sr_start_plan;

// Makes the folder (0700, swept at the end and by later starts) and the line that runs 'command'
// (NULL-terminated) on 'ranks' ranks.
SR_NODISCARD sr_status sr_start_prepare(int ranks, char *const *command, sr_arena *arena,
                                        sr_start_plan *plan);
// Runs the plan and waits. SIGINT, SIGTERM, SIGHUP and SIGUSR1 to this process become SIGUSR1 of
// the ranks; a second SIGINT or SIGTERM ends the job at once; Ctrl-Z (SIGTSTP) stops the ranks as
// well, and they go on with this process. *exit_code: the ranks'; 6 where a signal killed a rank or
// mpirun; 128 + N after a second signal N. Whatever dies, this process included, no rank is left.
SR_NODISCARD sr_status sr_start_run(const sr_start_plan *plan, int *exit_code);
// Ends the plan: removes its folder.
void sr_start_release(sr_start_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
