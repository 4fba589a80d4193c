// SPDX-License-Identifier: Apache-2.0
// What a recipe names and a run begins with: its data sets, its first weights, its length. Training
// and --dry-run open them alike, so that what one refuses the other does, too.
#ifndef SR_TRAINER_INPUTS_H
#define SR_TRAINER_INPUTS_H

#include "dataio/record/dataset.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// The data sets of a run. Strings are borrowed from it.
typedef struct sr_inputs {
    sr_dataset *train;
    int64_t count; // of samples for training
    int class_count;
    const char *const *class_names;
    char identity[65];     // of the training split
    char val_path[1024];   // where the val split is; "" where there is no evaluation
    int64_t val_count;     //
    char val_identity[65]; // "" as val_path
} sr_inputs;

// Opens data.train, and what is evaluated: data.val, or the val split beside data.train where there
// is one. SR_E_USAGE naming the key for a path that is missing or not packed, and for classes of
// the val split that are not those of the training split; the data sets' own errors. Released after
// a failure, too.
SR_NODISCARD sr_status sr_inputs_open(sr_recipe *recipe, const sr_task_desc *task, sr_inputs *out);
// Zeroed inputs are legal.
void sr_inputs_release(sr_inputs *inputs);

// SR_E_USAGE naming the first class of the data set at 'path' that is not the class of this number
// in 'names', which are those of 'whose' ("the model").
SR_NODISCARD sr_status sr_inputs_check_classes(const sr_dataset *data, const char *path,
                                               const char *const *names, int count,
                                               const char *whose);

// `weights` into the engine, of which 'names' are the classes; nothing where the recipe has none.
// SR_E_USAGE for a file that is missing, is no safetensors, or has other classes, names or shapes
// and no `weights_reset`.
SR_NODISCARD sr_status sr_inputs_load_weights(sr_recipe *recipe, sr_engine *engine,
                                              const char *const *names, int count);

// Steps and samples of a run over 'count' training samples. SR_E_USAGE where they are none.
SR_NODISCARD sr_status sr_inputs_lengths(sr_recipe *recipe, int64_t count, int64_t *steps,
                                         sr_schedule_lengths *out);

// Whether this machine has the memory for a step: activations of the lanes that are computed at a
// time, parameters and optimiser state of the 'ranks' on this host. Plans the lane program.
// SR_E_USAGE naming `batch` with what is needed and what is there.
SR_NODISCARD sr_status sr_inputs_check_memory(sr_engine *engine, int ranks);

#ifdef __cplusplus
}
#endif
#endif
