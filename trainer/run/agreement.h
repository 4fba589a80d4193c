// SPDX-License-Identifier: Apache-2.0
// What all ranks must have been started with alike.
#ifndef SR_TRAINER_AGREEMENT_H
#define SR_TRAINER_AGREEMENT_H

#include "collective/comm.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// Collective: compares the resolved recipes of all ranks, except for keys that may differ between
// hosts (sr_recipe_add_shared). SR_E_USAGE on every rank, with a key, its values and the ranks:
// ranks that evaluate, save or stop at other steps would wait for each other until a deadline.
SR_NODISCARD sr_status sr_agree_on_recipe(sr_comm *comm, const sr_recipe *recipe);

#ifdef __cplusplus
}
#endif
#endif
