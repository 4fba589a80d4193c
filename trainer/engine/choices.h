// SPDX-License-Identifier: Apache-2.0
// Resolves the names in a recipe against the tables of tasks, models, optimisers, schedules, losses
// and transforms.
//
// Each call finds the descriptor by name and parses its options into memory of the arena. Errors
// are reported with file, line and column of the recipe. After all calls the recipe is resolved.
#ifndef SR_TRAINER_CHOICES_H
#define SR_TRAINER_CHOICES_H

#include "dataio/pipeline/image_growth.h"
#include "kernels/device/device.h"
#include "trainer/optimizers/optimizer.h"
#include "trainer/schedules/schedule.h"
#include "trainer/tasks/task.h"

#ifdef __cplusplus
extern "C" {
#endif

// The model of a parameter set and its parsed options.
typedef struct sr_choice_model {
    const sr_model_desc *desc;
    void *options;
} sr_choice_model;

// The loss of a recipe: the sum of its parts, by their weights.
typedef struct sr_choice_loss {
    int count; // 0 where the task has its own loss
    sr_loss_part parts[SR_LOSS_PARTS];
} sr_choice_loss;

// What is logged of each step besides the loss.
typedef struct sr_choice_scalars {
    int count, first_part; // those of the task, then the parts of a loss that is a list
    sr_task_scalar list[SR_MAX_SCALARS];
} sr_choice_scalars;

// The optimiser of a parameter set and its parsed options.
typedef struct sr_choice_optimizer {
    const sr_optimizer_desc *desc;
    void *options;
} sr_choice_optimizer;

// Loads a recipe (sr_recipe_load). If the name is that of a model, the error names a recipe for it.
SR_NODISCARD sr_status sr_choose_recipe(const char *name, const char *const *overrides,
                                        int override_count, sr_recipe **out);
// The task that the recipe's `task` names. Here and below, an error is SR_E_USAGE with its location
// in the recipe.
SR_NODISCARD sr_status sr_choose_task(sr_recipe *recipe, const sr_task_desc **out);
// For each phase of the recipe, which phase of the task it is. Sets have the same numbers in both.
SR_NODISCARD sr_status sr_choose_phases(sr_recipe *recipe, const sr_task_desc *task,
                                        int out[SR_MAX_PHASES]);
// In which steps a phase of the recipe, which is phase 'own' of the task, runs: in those whose
// number is a multiple.
int64_t sr_choose_every(const sr_recipe *recipe, const sr_task_desc *task, int phase, int own);
// Whether `ema` averages a set: one of ema.sets or, if that is not given, the one that infers.
bool sr_choose_average(const sr_recipe *recipe, const sr_task_desc *task, int set);
// The task's parsed options, with memory of the arena; NULL if it has none.
SR_NODISCARD sr_status sr_choose_task_options(sr_recipe *recipe, const sr_task_desc *task,
                                              sr_arena *arena, const void **out);
// The model that a set's `model` names.
SR_NODISCARD sr_status sr_choose_model(sr_recipe *recipe, int set, sr_arena *arena,
                                       sr_choice_model *out);
// The optimiser that a set's `optimizer` names.
SR_NODISCARD sr_status sr_choose_optimizer(sr_recipe *recipe, int set, sr_arena *arena,
                                           sr_choice_optimizer *out);
// The loss of the recipe's first phase; *out has no part if the task has its own loss.
// classes: number of classes of the data; 0: not known yet.
SR_NODISCARD sr_status sr_choose_loss(sr_recipe *recipe, const sr_task_desc *task, int64_t classes,
                                      sr_arena *arena, sr_choice_loss *out);
// How many classes the options of its parts are written for; 0: any number.
int64_t sr_choice_loss_classes(const sr_choice_loss *loss);
// What is logged; texts have memory of the arena. SR_E_USAGE where the name of a loss is that of
// one that the task itself logs.
SR_NODISCARD sr_status sr_choose_scalars(sr_recipe *recipe, const sr_task_desc *task,
                                         sr_arena *arena, sr_choice_scalars *out);
// The schedule of a set. lengths NULL: the options are only parsed and checked; *out is
// unchanged.
SR_NODISCARD sr_status sr_choose_schedule(sr_recipe *recipe, int set, sr_arena *arena,
                                          const sr_schedule_lengths *lengths, sr_schedule *out);

// How the recipe's images grow during a run of these lengths; all zero if they do not grow.
sr_image_growth sr_choose_growth(const sr_recipe *recipe, const sr_schedule_lengths *lengths);

// Columns of the task's metrics, by their numbers among sr_task_columns; a recipe names them as in
// metrics.csv ("val/top1").
typedef struct sr_choice_metrics {
    int best; // of checkpoint.metric, that chooses the best checkpoint, or else the task's own
    int stop; // of stop.metric, or else the same
} sr_choice_metrics;
// Finds both. SR_E_USAGE for a column that the task does not measure, naming the key.
SR_NODISCARD sr_status sr_choose_metrics(sr_recipe *recipe, const sr_task_desc *task,
                                         sr_choice_metrics *out);
// Kernels that are prepared from now on follow the recipe's `numerics`.
void sr_choose_numerics(const sr_recipe *recipe);
// The device that the recipe's `device` names ("auto": the default of sr_device_open), without
// opening it. If there are several such devices, each rank of a host takes the next one: 'index' is
// the rank's number on its host.
SR_NODISCARD sr_status sr_choose_device(sr_recipe *recipe, int index, sr_device_properties *out);
// Checks that every rank gets at least one lane of the batch.
SR_NODISCARD sr_status sr_check_ranks(sr_recipe *recipe, int ranks);
// Whether a path has the ending of a PyTorch file (.pth, .pt, .ckpt, .bin); opening one may run
// code.
bool sr_weights_are_pytorch(const char *path);
// Checks that the files of `weights` exist and are no PyTorch files.
SR_NODISCARD sr_status sr_check_weights(sr_recipe *recipe);
// Checks a loaded recipe against the tables of models, optimisers, schedules, losses, transforms
// and devices, and resolves their options (sr_recipe_options_parse for each section). SR_E_USAGE
// lists all errors. `recipe check`, `recipe show`, `train` and `--dry-run` call it.
SR_NODISCARD sr_status sr_recipe_check(sr_recipe *recipe);

#ifdef __cplusplus
}
#endif
#endif
