// SPDX-License-Identifier: Apache-2.0
// What start*.c share.
#ifndef SR_LAUNCHER_START_INTERNAL_H
#define SR_LAUNCHER_START_INTERNAL_H

#include <signal.h>

#include "launcher/start/start.h"
#include "trainer/run/rank_board.h"

// Names of files in the plan's folder.
#define SR_START_LOCK "lock"
#define SR_START_BOARD "ranks"

// start_folder.c: removes the folder and all below it; failures are ignored.
void sr_start_remove_folder(const char *folder);

// start_needs.c: fails where mpirun would crash or hang for lack of a resource.
SR_NODISCARD sr_status sr_start_check_needs(const sr_start_plan *plan);

// start_child.c: starts mpirun in a new process group; 'mask' becomes its signal mask, 'output' its
// stdout.
SR_NODISCARD sr_status sr_start_mpirun(const sr_start_plan *plan, const sigset_t *mask, int output,
                                       pid_t *child);

// start_guard.c: starts the process that ends the job and removes its folder if the parent is
// killed. The folder need not exist yet.
SR_NODISCARD sr_status sr_guard_start(sr_start_plan *plan);
// Passes mpirun's process number to the guard; 0: the job is over.
void sr_guard_set_mpirun(const sr_start_guard *guard, pid_t mpirun);
// After an orderly end of the job: the guard removes the folder and exits.
void sr_guard_dismiss(sr_start_guard *guard);

// start_ranks.c: watches the ranks, which are grandchildren of this process.
typedef struct sr_rank_watch sr_rank_watch;
SR_NODISCARD sr_status sr_ranks_watch(sr_board *board, sr_rank_watch **out);
void sr_ranks_free(sr_rank_watch *ranks);
// Sleeps until a rank ends, one of the descriptors becomes readable, or 100 ms have passed; then
// checks all ranks for death and missing heartbeats. Kills a rank whose heartbeat has been missing
// for longer than deadline.act.
void sr_ranks_wait(sr_rank_watch *ranks, const int *descriptors, int count);
// Stops the ranks, those that have not registered yet included, or lets them go on.
void sr_ranks_pause(sr_rank_watch *ranks, bool paused);
// Waits up to a second for the ranks to exit, then kills the rest.
void sr_ranks_finish(sr_rank_watch *ranks);
// The state of the ranks as a whole.
typedef enum sr_ranks_stage {
    SR_RANKS_STARTING = 0, // not every rank has registered on the board yet
    SR_RANKS_RUNNING,      // all have; also if there is no board
    SR_RANKS_GONE,         // all have, and all have ended
} sr_ranks_stage;
sr_ranks_stage sr_ranks_get_stage(const sr_rank_watch *ranks);
// Whether any rank got as far as reporting its failures by itself; true without a board.
bool sr_ranks_connected(const sr_rank_watch *ranks);
// "rank 1 (pid 123)", the rank that died first; "a rank" if that is unknown.
const char *sr_ranks_culprit(const sr_rank_watch *ranks, char *out, size_t size);

#endif
