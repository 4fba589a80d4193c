// SPDX-License-Identifier: Apache-2.0
// Starting ranks on this machine: the command line for mpirun, and its parent process.
#ifndef SR_LAUNCHER_START_H
#define SR_LAUNCHER_START_H

#include <stdbool.h>
#include <sys/types.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// What started this process.
typedef enum sr_started_by {
    SR_STARTED_ALONE = 0,
    SR_STARTED_BY_MPI,   // one rank of a job: OMPI_COMM_WORLD_SIZE, PMIX_RANK or PMI_RANK is set
    SR_STARTED_BY_SLURM, // one of several Slurm tasks that are not connected by MPI
} sr_started_by;
sr_started_by sr_start_detect(void);
// Tasks of the Slurm job or step that this process runs in (SLURM_NTASKS); 1 outside Slurm.
int sr_start_slurm_tasks(void);

// Processors for ranks: physical cores that this process may use, and whether ranks may be bound to
// them (not under a restricted affinity mask or a cgroup quota, which mpirun does not see).
typedef struct sr_start_cores {
    int cores, nodes; // nodes: NUMA nodes
    bool may_bind;
} sr_start_cores;
sr_start_cores sr_start_count_cores(void);

// The process that ends the job and removes its folder if this process is killed.
typedef struct sr_start_guard {
    pid_t pid;   // 0: none
    int channel; // the guard waits until this descriptor is closed; -1: none
} sr_start_guard;

typedef struct sr_start_plan {
    int ranks;
    char **argv;              // of mpirun, NULL-terminated; memory of the arena
    const char *command_line; // the same, quoted for a shell
    const char *folder;       // for MPI's backing files; NULL: it could not be made
    const char *board;        // file in it in which ranks register (sr_board); NULL likewise
    int lock;                 // descriptor that holds the folder's lock, or -1
    sr_start_guard guard;
    bool as_root;       // mpirun refuses to run as root unless told otherwise
    int oversubscribed; // ranks in excess of the cores, or 0
    int limit_seconds;  // the job is killed after this time; 0: never
    // As argv, but with mpirun's messages, and the probe as its command; NULL: none.
    char **probe_argv;
    int messages; // descriptor that becomes mpirun's stderr; 0: that of this process
} sr_start_plan;

// Makes the folder (mode 0700, removed at the end or by a later start) and the command line that
// runs 'command' (NULL-terminated) on 'ranks' ranks. 'probe' (likewise, or NULL): a command that
// only connects its ranks. If mpirun fails before its ranks can report anything, it is run again
// with this command, so that its own message is seen.
SR_NODISCARD sr_status sr_start_prepare(int ranks, char *const *command, char *const *probe,
                                        sr_arena *arena, sr_start_plan *plan);
// Runs the plan and waits. SIGINT, SIGTERM, SIGHUP and SIGUSR1 to this process are forwarded to the
// ranks as SIGUSR1; a second SIGINT or SIGTERM ends the job at once; Ctrl-Z (SIGTSTP) also stops
// the ranks, which continue with this process. *exit_code: that of the ranks; 6 if a signal killed
// a rank or mpirun; 128 + N after a second signal N. No rank survives, whichever process dies, this
// one included.
SR_NODISCARD sr_status sr_start_run(const sr_start_plan *plan, int *exit_code);
// Ends the plan: removes its folder.
void sr_start_release(sr_start_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
