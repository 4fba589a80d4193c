// SPDX-License-Identifier: Apache-2.0
// Parameter groups of an optimizer: which parameters the words of a group match.
#ifndef SR_TRAINER_PARAM_GROUPS_H
#define SR_TRAINER_PARAM_GROUPS_H

#include "kernels/base/text.h"
#include "trainer/models/built_model.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// The group of a parameter: 1 + the index of the recipe's first group that matches; 0: no group.
int sr_param_group_of(const sr_recipe_optimizer *settings, const sr_param *param);

// SR_E_USAGE, with its location in the recipe, for a word that matches no tensor of the model.
SR_NODISCARD sr_status sr_param_groups_check(sr_recipe *recipe, int phase, const sr_model *model);

// Adds a line for each group, for --dry-run: its words, its numbers of tensors and elements, and
// its settings. Adds nothing if there are no groups.
void sr_param_groups_describe(const sr_recipe_optimizer *settings, const sr_model *model,
                              sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
