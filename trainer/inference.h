// SPDX-License-Identifier: Apache-2.0
// A trained model opened for use: from a checkpoint, a run folder, or a recipe with weights.
#ifndef SR_TRAINER_INFERENCE_H
#define SR_TRAINER_INFERENCE_H

#include "trainer/engine.h"
#include "trainer/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

// An opened model. Its fields are for reading. One thread at a time.
typedef struct sr_inference {
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
    const sr_task_desc *task;
    sr_arena arena;
    int class_count;
    const char **class_names; // NULL where they are not known
} sr_inference;

// What to open.
typedef struct sr_inference_options {
    const char *source; // run folder, generation (last/, best/), or a recipe (then weights=FILE)
    const char *const *overrides;
    int override_count;
    bool raw;           // the parameters themselves, also where an average was kept
    bool allow_plugins; // also those that a run folder's recipe names (trainer/plugins.h)
} sr_inference_options;

// SR_E_NOT_FOUND, SR_E_CHECKSUM, SR_E_USAGE as the parts that it opens.
SR_NODISCARD sr_status sr_inference_open(const sr_inference_options *options, sr_inference **out);
// NULL is legal.
void sr_inference_free(sr_inference *inference);

// Metrics of the val split of 'dataset' (NULL: the recipe's data.val or data.train) on all ranks.
SR_NODISCARD sr_status sr_inference_evaluate(sr_inference *inference, const char *dataset,
                                             sr_metrics *out);

// An encoded picture in memory; its name is for messages.
typedef struct sr_picture_file {
    const char *name;
    const void *data;
    size_t bytes;
} sr_picture_file;
// Probabilities [count, class_count] of 'count' encoded pictures (JPEG or PNG bytes); pictures u8
// [count, crop, crop, 3] as they went into the model are written where 'pixels' is given. A damaged
// picture is its status in 'statuses' (its row is zero), with the message in the log. A damaged
// picture fails alone; any other failure is the call's.
SR_NODISCARD sr_status sr_inference_predict(sr_inference *inference, const sr_picture_file *files,
                                            int count, float *probabilities, uint8_t *pixels,
                                            sr_status *statuses);

#ifdef __cplusplus
}
#endif
#endif
