// SPDX-License-Identifier: Apache-2.0
// Whether the recipe.yaml of a run folder is still that of the run.
#ifndef SR_TRAINER_RUN_RECIPE_H
#define SR_TRAINER_RUN_RECIPE_H

#include "kernels/base/status.h"

// Compares the identity of the recipe in this file, on data of 'data_identity', with 'identity'.
// SR_E_DATA, naming the file, where it is another one or no recipe any more; SR_OK also where that
// cannot be told (its weights are gone).
SR_NODISCARD sr_status sr_run_recipe_check(const char *path, const char *data_identity,
                                           const char *identity);

#endif
