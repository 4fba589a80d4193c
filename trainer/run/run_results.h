// SPDX-License-Identifier: Apache-2.0
// What the pictures of a finished or running run need to know, from its folder alone.
#ifndef SR_TRAINER_RUN_RESULTS_H
#define SR_TRAINER_RUN_RESULTS_H

#include "kernels/base/memory.h"
#include "trainer/report/results_plot.h"

#ifdef __cplusplus
extern "C" {
#endif

// The columns of a run folder, by the task that its recipe.yaml names; all memory is of the arena.
// The columns of a task of plug-ins that are not loaded are plain numbers, after a warning.
// allow_plugins: loads them. SR_E_NOT_FOUND for a folder without recipe.yaml or metrics.csv.
SR_NODISCARD sr_status sr_run_results(const char *folder, bool allow_plugins, sr_arena *arena,
                                      sr_results *out);

#ifdef __cplusplus
}
#endif
#endif
