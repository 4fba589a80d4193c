// SPDX-License-Identifier: Apache-2.0
// Parameter groups of an optimizer: which parameters a group's 'match' words select, and the
// settings that each parameter gets from its group, no_decay and layer_decay.
#ifndef SR_TRAINER_PARAM_GROUPS_H
#define SR_TRAINER_PARAM_GROUPS_H

#include "kernels/base/text.h"
#include "trainer/models/built_model.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// Parameters that are updated alike.
typedef struct sr_param_group {
    int match;       // 1 + the index of the recipe's first group that matches them; 0: none does
    int depth;       // of their layer if the recipe has a layer_decay, else SR_NO_DEPTH
    bool no_decay;   // by the optimizer's no_decay
    double lr_scale; // product of all settings
    double decay_scale;
    bool frozen;
    bool elementwise; // even if the optimizer updates weights as matrices
    sr_length until;  // updated until then; 0: to the end
    int tensors;      // buffers and frozen tensors of the model are not counted
    int64_t elements; // of the counted tensors
} sr_param_group;

// All groups of a model, and the group of each of its parameters and buffers.
typedef struct sr_param_groups {
    sr_param_group *items;
    int count;
    int *of;         // [param_count]
    size_t capacity; // of items
} sr_param_groups;

// 1 + the index of the recipe's first group that matches a parameter; 0: no group.
int sr_param_group_of(const sr_recipe_optimizer *settings, const sr_param *param);

// Makes the groups in the order of the recipe, parameters without a group last, each ordered by
// depth. The caller frees them, even after a failure. SR_E_MEMORY.
SR_NODISCARD sr_status sr_param_groups_make(const sr_recipe_optimizer *settings,
                                            const sr_model *model, sr_param_groups *out);
void sr_param_groups_free(sr_param_groups *groups);

// SR_E_USAGE, with its location in the recipe, for a word that matches no tensor of the model, and
// for a layer_decay where the model declares no depth for a parameter.
SR_NODISCARD sr_status sr_param_groups_check(sr_recipe *recipe, int set, const sr_model *model);

// Adds a line for each group, for --dry-run: its words, its numbers of tensors and elements, and
// its settings. Adds nothing if all parameters are updated alike.
SR_NODISCARD sr_status sr_param_groups_describe(const sr_recipe_optimizer *settings,
                                                const sr_model *model, sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
