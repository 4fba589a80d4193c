// SPDX-License-Identifier: Apache-2.0
// A run as TensorBoard shows it: an event file of each session in the run folder
// (trainer/report/event_file.h).
#ifndef SR_TRAINER_RUN_EVENTS_H
#define SR_TRAINER_RUN_EVENTS_H

#include "trainer/recipe/recipe.h"
#include "trainer/report/event_file.h"

#ifdef __cplusplus
extern "C" {
#endif

// Creates the event file of a session that writes 'step' and later steps, with the recipe's values
// as hyper-parameters: "optimizer.lr", "augment[0].resize.filter". NULL if it cannot be written,
// which is a warning.
sr_event_file *sr_run_events_open(const char *folder, int64_t step, const sr_recipe *recipe);

#ifdef __cplusplus
}
#endif
#endif
