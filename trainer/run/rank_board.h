// SPDX-License-Identifier: Apache-2.0
// The rank board: a small file in shared memory in which the ranks of this machine report their
// process ids and heartbeats to the process that started them. An environment variable gives them
// its path.
//
// Each word of an entry has one writer, the rank or (paused) its starter, and is stored in one
// piece: a rank that is killed at any instruction leaves a valid entry.
#ifndef SR_TRAINER_RANK_BOARD_H
#define SR_TRAINER_RANK_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_BOARD_VARIABLE "SERRIED_RANK_BOARD" // path of the file

typedef struct sr_board_entry {
    int64_t pid;                        // stored last when a rank joins; 0: not joined
    int64_t ended;                      // 1: it ended by itself, with any exit code
    uint64_t beats;                     // grows while the process runs (kernels/base/watch.h)
    double report_seconds, act_seconds; // the recipe's deadlines
    uint64_t started;                   // of the process (kernels/base/process.h)
    int64_t paused;                     // 1: Ctrl-Z; a rank that joins waits until it is 0
    int64_t connected;                  // 1: MPI has started, so the rank can report failures
} sr_board_entry;

typedef struct sr_board {
    sr_board_entry *entries;
    int ranks;
} sr_board;

// For the starting process: creates the file, or opens it again.
SR_NODISCARD sr_status sr_board_create(const char *path, int ranks, sr_board *out);
SR_NODISCARD sr_status sr_board_open(const char *path, sr_board *out);
void sr_board_release(sr_board *board);
// A snapshot of an entry.
sr_board_entry sr_board_read(const sr_board *board, int rank);
// Whether ranks that join from now on wait. A rank that does not wait has its pid on the board
// already, so after pausing, every rank either is found there or waits.
void sr_board_pause(sr_board *board, bool paused);

// For a rank: its entry on the board that the environment names, NULL if there is none. Mapped
// until the process ends. Waits while the job is paused.
sr_board_entry *sr_board_join(int rank, double report_seconds, double act_seconds);
// From now on the rank reports its failures by itself. NULL is legal here and below.
void sr_board_connect(sr_board_entry *entry);
void sr_board_leave(sr_board_entry *entry);

#ifdef __cplusplus
}
#endif
#endif
