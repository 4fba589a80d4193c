// SPDX-License-Identifier: Apache-2.0
// What a recipe would do, without data processes or a run folder: --dry-run and `recipe check`.
#ifndef SR_TRAINER_PLAN_REPORT_H
#define SR_TRAINER_PLAN_REPORT_H

#include "kernels/base/text.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// Opens data sets and weights that the recipe names, builds its models and plans a step. Returns
// the error that training would end with before its first step. Kernels are not timed: this and
// the functions below but sr_plan_report switch the recipe's chooser off.
SR_NODISCARD sr_status sr_plan_rehearse(sr_recipe *recipe);
// The same, then prints to stdout: resolved recipe with origins, a table of the model's tensors,
// operators with FLOPs and memory by kind, lanes of each rank. ranks: to plan for; 0: one. The
// number of classes is that of data.train. If the recipe does not name it, it is the one that the
// loss is written for, or the usual one (sr_task_usual_classes).
SR_NODISCARD sr_status sr_plan_report(sr_recipe *recipe, int ranks);

// The first task that can train a model, by its name, from pictures of 224 pixels, with default
// options; NULL: none can by itself.
const struct sr_task_desc *sr_plan_task_of(const char *model);

// How the summary of a recipe's models is printed.
typedef struct sr_plan_summary_options {
    int depth;       // of layers; 0: all
    bool json;       // an object for each phase, a line each
    int64_t classes; // where the recipe has no data.train; 0: as sr_plan_report
} sr_plan_summary_options;
// Builds the models of a recipe as sr_plan_rehearse does and appends their summaries
// (trainer/report/model_summary.h), one for each phase. Lanes may be too small for batch norm.
SR_NODISCARD sr_status sr_plan_summary(sr_recipe *recipe, const sr_plan_summary_options *options,
                                       sr_text *out);

// Which program of a recipe is written, and how.
typedef struct sr_plan_program_options {
    const char *phase; // of a step; NULL: the first
    bool inference;    // the program of an evaluation instead
    bool drawing;      // for Graphviz, not as text
    int64_t classes;   // as above
} sr_plan_program_options;
// Appends the program of a lane, forward and backward (graph/program_text.h), or that of inference.
// Lanes may be too small for batch norm.
// SR_E_USAGE for an unknown phase, SR_E_UNSUPPORTED for a task without inference.
SR_NODISCARD sr_status sr_plan_program(sr_recipe *recipe, const sr_plan_program_options *options,
                                       sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
