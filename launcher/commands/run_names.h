// SPDX-License-Identifier: Apache-2.0
// Short names of run folders.
#ifndef SR_LAUNCHER_RUN_NAMES_H
#define SR_LAUNCHER_RUN_NAMES_H

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

// The end of each path, as few components as tell all of them apart: "latest", or "resnet18/latest"
// and "resnet34/latest". Memory of the arena. SR_E_USAGE for a path that is given twice.
SR_NODISCARD sr_status sr_run_names(const char *const *paths, int count, sr_arena *arena,
                                    const char **names);

#endif
