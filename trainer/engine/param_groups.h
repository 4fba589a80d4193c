// SPDX-License-Identifier: Apache-2.0
// Groups of an optimizer's parameters: which parameters the words of a group are for.
#ifndef SR_TRAINER_PARAM_GROUPS_H
#define SR_TRAINER_PARAM_GROUPS_H

#include "kernels/base/text.h"
#include "trainer/models/built_model.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// The group of a parameter: 1 + the first of the recipe's that matches; 0 is everything else.
int sr_param_group_of(const sr_recipe_optimizer *settings, const sr_param *param);

// SR_E_USAGE, at its place in the recipe, names a word that matches no tensor of the model.
SR_NODISCARD sr_status sr_param_groups_check(sr_recipe *recipe, int phase, const sr_model *model);

// A line for each group, for --dry-run: its words, how much it holds, and how that is treated.
// Nothing where there are no groups.
void sr_param_groups_describe(const sr_recipe_optimizer *settings, const sr_model *model,
                              sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
