// SPDX-License-Identifier: Apache-2.0
// The inputs of a run that a recipe names: data sets, initial weights, length. Training and
// --dry-run open them in the same way, so that both refuse the same mistakes.
#ifndef SR_TRAINER_INPUTS_H
#define SR_TRAINER_INPUTS_H

#include <limits.h>

#include "dataio/record/dataset.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sr_transform_window;

// The data sets of a run. Strings are borrowed from it.
typedef struct sr_inputs {
    sr_dataset *train;
    int64_t count; // of samples for training
    int class_count;
    const char *const *class_names;
    int64_t *class_sizes;    // samples for training of each class
    int32_t *labels;         // class of each sample, if samples are drawn by class
    char identity[65];       // of the training split
    char val_path[PATH_MAX]; // of the data set with the val split; "": no evaluation
    int64_t val_count;       //
    char val_identity[65];   // "" as val_path
    sr_eval_extent val_extent;
    uint64_t resident; // bytes of the training pictures, if they are to stay on the device
} sr_inputs;

// Opens data.train and the val split, which is that of data.val or else that of data.train if it
// has one. SR_E_USAGE naming the key for a path that is missing or not packed, and for classes of
// the val split that are not those of the training split; SR_E_DATA for data that the task cannot
// read, such as boxes; errors of the data sets. To be released even after a failure.
SR_NODISCARD sr_status sr_inputs_open(sr_recipe *recipe, const sr_task_desc *task, sr_inputs *out);
// The extent of the pictures of a split as the task evaluates them.
SR_NODISCARD sr_status sr_inputs_measure(sr_recipe *recipe, const sr_task_desc *task,
                                         sr_dataset *data, sr_eval_extent *out);
// Zeroed inputs are legal.
void sr_inputs_release(sr_inputs *inputs);

// Collective: reads the labels of the training data on rank 0, if the recipe draws samples by
// class.
SR_NODISCARD sr_status sr_inputs_read_labels(const sr_recipe *recipe, sr_comm *comm, sr_inputs *in);
// How many samples of each class an epoch has on average, as a table for people; empty if each
// sample is drawn once an epoch.
void sr_inputs_describe_draws(const sr_recipe *recipe, const sr_inputs *in, sr_text *out);

// SR_E_USAGE naming the first class of the data set at 'path' that is not the class of this number
// in 'names', which are those of 'whose' ("the model").
SR_NODISCARD sr_status sr_inputs_check_classes(const sr_dataset *data, const char *path,
                                               const char *const *names, int count,
                                               const char *whose);

// Collective: SR_E_USAGE naming the first rank whose val split is another one than that of rank 0,
// as a stale copy on its host is: metrics would be those of a mixture. "": this rank has none.
SR_NODISCARD sr_status sr_inputs_agree_on_val(sr_comm *comm, const char *identity);

// Loads `weights` into the engine, whose classes are 'names'; does nothing if the recipe has none.
// SR_E_USAGE for a file that is missing or has other classes, names or shapes without
// `weights_reset`; SR_E_DATA for one that is damaged or no safetensors file; SR_E_NON_FINITE.
SR_NODISCARD sr_status sr_inputs_load_weights(sr_recipe *recipe, sr_engine *engine,
                                              const char *const *names, int count);
// The same without a report: to refuse a file before a run folder is created. The values that it
// leaves in the engine are to be loaded again.
SR_NODISCARD sr_status sr_inputs_try_weights(sr_recipe *recipe, sr_engine *engine,
                                             const char *const *names, int count);

// Steps and samples of a run over 'count' training samples. SR_E_USAGE for a run without steps.
SR_NODISCARD sr_status sr_inputs_lengths(sr_recipe *recipe, int64_t count, int64_t *steps,
                                         sr_schedule_lengths *out);

// The positions at which each of the recipe's transforms is applied, in whole steps; *out has
// augment_count of them in the arena, or is NULL if nothing changes during the run. SR_E_USAGE for
// one that is never applied, and if what remains gives pictures of another size.
SR_NODISCARD sr_status sr_inputs_windows(sr_recipe *recipe, const sr_schedule_lengths *lengths,
                                         sr_arena *arena, const struct sr_transform_window **out);

// SR_E_USAGE at `eval.batch` if the lanes do not divide it.
SR_NODISCARD sr_status sr_inputs_check_eval_batch(sr_recipe *recipe);

// What an evaluation takes on a rank, in bytes.
typedef struct sr_evaluation_needs {
    uint64_t activations; // of a lane
    uint64_t slots;       // of its data pipeline, in memory of the host
} sr_evaluation_needs;
// Plans an evaluation of the val split, if there is one: SR_E_USAGE at the key for a batch that the
// lanes do not divide, for a size that the model cannot take or no picture can have, and for what
// the data pipeline refuses.
SR_NODISCARD sr_status sr_inputs_check_evaluation(sr_engine *engine, const sr_inputs *in,
                                                  sr_evaluation_needs *out);

// The options of the training pipeline, but for its lanes; the arena has the windows.
// Decides by data.resident whether the training pictures are to stay on the device instead, and
// sets in->resident. SR_E_USAGE where they must and cannot; and as sr_inputs_windows.
SR_NODISCARD sr_status sr_inputs_plan_data(sr_recipe *recipe, const sr_task_desc *task,
                                           const sr_schedule_lengths *lengths,
                                           const sr_device *device, sr_arena *arena, sr_inputs *in,
                                           sr_pipeline_options *out);

// Checks that the device has the memory for a step of the 'ranks' on this host, and then for an
// evaluation: activations of concurrent lanes, parameters, optimiser state, pictures that stay
// there, pictures for evaluation. Plans the lane programs. SR_E_USAGE at `batch` or `eval.batch`
// with the memory that is needed and available; and as sr_inputs_check_evaluation.
SR_NODISCARD sr_status sr_inputs_check_memory(sr_engine *engine, const sr_inputs *in, int ranks);

// Checks that batch norm has more than one value for each channel of a lane, also where images are
// smallest: SR_E_USAGE at `lanes` otherwise. 'warn': warns of lanes with few samples. Plans the
// lane programs.
SR_NODISCARD sr_status sr_inputs_check_lanes(sr_engine *engine, bool warn);

#ifdef __cplusplus
}
#endif
#endif
