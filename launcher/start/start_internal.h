// SPDX-License-Identifier: Apache-2.0
// Being mpirun's parent, as start*.c share it.
#ifndef SR_LAUNCHER_START_INTERNAL_H
#define SR_LAUNCHER_START_INTERNAL_H

#include <signal.h>

#include "launcher/start/start.h"
#include "trainer/run/rank_board.h"

// Files in the plan's folder.
#define SR_START_LOCK "lock"
#define SR_START_BOARD "ranks"

// start_folder.c: removes the folder and all below it; failures are ignored.
void sr_start_remove_folder(const char *folder);

// start_needs.c: refuses what mpirun would not survive, or would wait for without end.
SR_NODISCARD sr_status sr_start_check_needs(const sr_start_plan *plan);

// start_child.c: mpirun as a process group of its own; 'mask' are the signals that it may have,
// 'output' becomes its stdout.
SR_NODISCARD sr_status sr_start_mpirun(const sr_start_plan *plan, const sigset_t *mask, int output,
                                       pid_t *child);

// start_guard.c: a process that outlives a killed parent to end the job and to remove its folder,
// which need not be there yet.
SR_NODISCARD sr_status sr_guard_start(sr_start_plan *plan);
void sr_guard_tell(const sr_start_guard *guard, pid_t mpirun);
// The job has ended in good order: the guard removes the folder and goes.
void sr_guard_dismiss(sr_start_guard *guard);

// start_ranks.c: the ranks as their parent's parent sees them.
typedef struct sr_rank_watch sr_rank_watch;
SR_NODISCARD sr_status sr_ranks_watch(const sr_board *board, sr_rank_watch **out);
void sr_ranks_free(sr_rank_watch *ranks);
// Sleeps until a rank ends, one of the descriptors can be read, or 100 ms are over; then looks at
// all ranks: who died, who does not run. Kills a rank that has not run for longer than
// deadline.act.
void sr_ranks_wait(sr_rank_watch *ranks, const int *descriptors, int count);
// Sends a signal to every rank that lives.
void sr_ranks_signal(sr_rank_watch *ranks, int number);
// Waits up to a second for the ranks to be gone, and kills those that are not.
void sr_ranks_finish(sr_rank_watch *ranks);
// How far the ranks are, as a whole.
typedef enum sr_ranks_stage {
    SR_RANKS_STARTING = 0, // not every rank has been on the board yet
    SR_RANKS_RUNNING,      // all have been; also without a board
    SR_RANKS_GONE,         // all have been, and none lives any more
} sr_ranks_stage;
sr_ranks_stage sr_ranks_get_stage(const sr_rank_watch *ranks);
// "rank 1 (pid 123)", of the rank whose death came first; "a rank" where nobody knows.
const char *sr_ranks_culprit(const sr_rank_watch *ranks, char *out, size_t size);

#endif
