// SPDX-License-Identifier: Apache-2.0
// --dry-run: what a recipe would do, on stdout, without data processes or a run folder.
#ifndef SR_TRAINER_PLAN_REPORT_H
#define SR_TRAINER_PLAN_REPORT_H

#include "trainer/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// Resolved recipe with origins, a table of the model's tensors, operators with FLOPs and memory by
// kind, lanes of each rank. ranks: to plan for; 0: one. Classes come from data.train where it is
// there, else 1000.
SR_NODISCARD sr_status sr_plan_report(sr_recipe *recipe, int ranks);

#ifdef __cplusplus
}
#endif
#endif
