// SPDX-License-Identifier: Apache-2.0
// Whether the recipe.yaml of a run folder is still that of this run, or that of a shorter one.
#ifndef SR_TRAINER_RUN_RECIPE_H
#define SR_TRAINER_RUN_RECIPE_H

#include "trainer/recipe/recipe.h"

// Loads the recipe.yaml of a run, with overrides. Relative paths in it are those of the folder in
// which the run was started, where they exist.
SR_NODISCARD sr_status sr_run_recipe_load(const char *path, const char *const *overrides,
                                          int override_count, sr_recipe **out);

// Compares the identity of the recipe in this file, on data of 'data_identity', with 'identity'.
// SR_E_DATA, naming the file, if it differs or the file is no longer a valid recipe; SR_OK also if
// that cannot be determined (its weights are missing).
SR_NODISCARD sr_status sr_run_recipe_check(const char *path, const char *data_identity,
                                           const char *identity);

// Whether the recipe in this file, with the epochs or steps of 'now', has the identity of 'now' on
// the same data: whether 'now' is the same run, but longer. 'before' are then the identities of the
// file's own recipe on these data, as computed now and formerly; one of them must be that of the
// run. SR_E_USAGE if it is neither longer nor a run whose identity was computed formerly.
SR_NODISCARD sr_status sr_run_recipe_extends(const char *path, sr_recipe *now,
                                             const char *data_identity, const char *identity,
                                             char before[2][65], bool *out);

#endif
