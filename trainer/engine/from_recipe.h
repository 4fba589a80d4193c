// SPDX-License-Identifier: Apache-2.0
// What a recipe says as options of the engine and of data pipelines: for training, evaluation,
// plans, measurements and programs with a loop of their own alike.
#ifndef SR_TRAINER_FROM_RECIPE_H
#define SR_TRAINER_FROM_RECIPE_H

#include "trainer/engine/engine.h"
#include "trainer/tasks/eval_view.h"

#ifdef __cplusplus
extern "C" {
#endif

// To be added: comm, device, threads and the number of classes.
sr_engine_options sr_engine_options_of(sr_recipe *recipe, const sr_task_desc *task);

// The pipeline of training, or with a view that of an evaluation, from which the options borrow. To
// be added: the data set of an evaluation; its identity; lane_begin and lane_end; in training what
// depends on the length of the run (windows, growth, position, steps) and labels for data.balance.
sr_pipeline_options sr_pipeline_options_of(const sr_recipe *recipe, const sr_task_desc *task,
                                           const sr_eval_view *view);

#ifdef __cplusplus
}
#endif
#endif
