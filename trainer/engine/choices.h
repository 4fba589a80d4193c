// SPDX-License-Identifier: Apache-2.0
// The recipe's choices against the tables: model, optimiser, schedule, loss, transforms of a phase.
//
// Each call finds the descriptor by name and parses its options into memory of the arena; mistakes
// are the recipe's, with file, line and column. After all of them, the recipe is resolved.
#ifndef SR_TRAINER_CHOICES_H
#define SR_TRAINER_CHOICES_H

#include "trainer/optimizers/optimizer.h"
#include "trainer/schedules/schedule.h"
#include "trainer/tasks/task.h"

#ifdef __cplusplus
extern "C" {
#endif

// The model of a phase and its parsed options.
typedef struct sr_choice_model {
    const sr_model_desc *desc;
    void *options;
} sr_choice_model;

// The loss and its parsed options.
typedef struct sr_choice_loss {
    const sr_loss_desc *desc; // NULL where the task has a loss of its own
    void *options;
} sr_choice_loss;

// The optimiser of a phase and its parsed options.
typedef struct sr_choice_optimizer {
    const sr_optimizer_desc *desc;
    void *options;
} sr_choice_optimizer;

// By the recipe's `task`. A mistake is SR_E_USAGE with its place in the recipe, here and below.
SR_NODISCARD sr_status sr_choose_task(sr_recipe *recipe, const sr_task_desc **out);
// The model of a phase, by its `model`.
SR_NODISCARD sr_status sr_choose_model(sr_recipe *recipe, int phase, sr_arena *arena,
                                       sr_choice_model *out);
// The optimiser of a phase, by its `optimizer`.
SR_NODISCARD sr_status sr_choose_optimizer(sr_recipe *recipe, int phase, sr_arena *arena,
                                           sr_choice_optimizer *out);
// The loss of the recipe's first phase; *out without a descriptor where the task has its own.
SR_NODISCARD sr_status sr_choose_loss(sr_recipe *recipe, const sr_task_desc *task, sr_arena *arena,
                                      sr_choice_loss *out);
// lengths NULL: the options are parsed and checked by themselves, *out is not filled.
SR_NODISCARD sr_status sr_choose_schedule(sr_recipe *recipe, int phase, sr_arena *arena,
                                          const sr_schedule_lengths *lengths, sr_schedule *out);

// What checkpoint.metric may name, as the columns of metrics.csv; where not given: val/top1.
typedef enum sr_best_metric {
    SR_BEST_TOP1 = 0,
    SR_BEST_TOP5,
    SR_BEST_LOSS, // the lowest is best
    SR_BEST_METRICS
} sr_best_metric;

// As in checkpoint.metric: "val/top1". Static storage.
const char *sr_best_metric_name(sr_best_metric metric);
// By the recipe's checkpoint.metric.
SR_NODISCARD sr_status sr_choose_metric(sr_recipe *recipe, sr_best_metric *out);
// That every rank gets a lane of the batch.
SR_NODISCARD sr_status sr_check_ranks(sr_recipe *recipe, int ranks);
// Whether a path is named like a PyTorch file (.pth, .pt, .ckpt, .bin), which may run code when it
// is opened.
bool sr_weights_are_pytorch(const char *path);
// That the file of `weights` is there and is no PyTorch file.
SR_NODISCARD sr_status sr_check_weights(sr_recipe *recipe);
// Checks a loaded recipe against the tables of models, optimisers, schedules, losses, transforms
// and devices, and resolves their options (sr_recipe_options_parse for each section). SR_E_USAGE
// with all mistakes. `recipe check`, `recipe show`, `train` and `--dry-run` call it.
SR_NODISCARD sr_status sr_recipe_check(sr_recipe *recipe);

#ifdef __cplusplus
}
#endif
#endif
