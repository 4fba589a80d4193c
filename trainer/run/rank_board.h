// SPDX-License-Identifier: Apache-2.0
// What the ranks of this machine tell the process that started them: who they are, and that they
// still run. A small file in shared memory, named to the ranks by an environment variable.
//
// One writer per entry, single words only: a rank that is killed at any instruction leaves an entry
// that reads well.
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
    int64_t pid;                        // written last of the first three; 0: not there yet
    int64_t ended;                      // 1: left on its own, with whatever exit code
    uint64_t beats;                     // grows while the process runs (kernels/base/watch.h)
    double report_seconds, act_seconds; // the recipe's deadlines
    uint64_t started;                   // of the process (kernels/base/process.h)
    uint64_t reserved[2];
} sr_board_entry;

typedef struct sr_board {
    sr_board_entry *entries;
    int ranks;
} sr_board;

// The starter's: makes the file, or opens it again.
SR_NODISCARD sr_status sr_board_create(const char *path, int ranks, sr_board *out);
SR_NODISCARD sr_status sr_board_open(const char *path, sr_board *out);
void sr_board_release(sr_board *board);
// An entry as it stands now.
sr_board_entry sr_board_read(const sr_board *board, int rank);

// A rank's: its entry on the board that the environment names, NULL where there is none. Mapped
// until the process ends.
sr_board_entry *sr_board_join(int rank, double report_seconds, double act_seconds);
void sr_board_leave(sr_board_entry *entry);

#ifdef __cplusplus
}
#endif
#endif
