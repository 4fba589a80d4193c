// SPDX-License-Identifier: Apache-2.0
// Whether the recipe.yaml of a run folder is still that of the run, or of a shorter one.
#ifndef SR_TRAINER_RUN_RECIPE_H
#define SR_TRAINER_RUN_RECIPE_H

#include "trainer/recipe/recipe.h"

// Compares the identity of the recipe in this file, on data of 'data_identity', with 'identity'.
// SR_E_DATA, naming the file, where it is another one or no recipe any more; SR_OK also where that
// cannot be told (its weights are gone).
SR_NODISCARD sr_status sr_run_recipe_check(const char *path, const char *data_identity,
                                           const char *identity);

// Whether the recipe in this file, with the epochs or steps of 'now', has the identity of 'now':
// whether 'now' is that run for longer. SR_E_USAGE where it would only be shorter.
SR_NODISCARD sr_status sr_run_recipe_extends(const char *path, sr_recipe *now,
                                             const char *data_identity, const char *identity,
                                             bool *out);

#endif
