// SPDX-License-Identifier: Apache-2.0
// A trained model opened for use: from a checkpoint, a run folder, or a recipe with weights.
//
//   sr_inference_options options = {.source = "runs/resnet18/latest"};
//   SR_TRY(sr_inference_open(&options, &inference));
//   SR_TRY(sr_inference_predict(inference, files, count, probabilities, NULL, statuses));
//
// tests/samples/classify.c is a complete program; `serried predict` uses the same calls. Pictures
// are decoded, resized and cropped as in evaluation.
#ifndef SR_TRAINER_INFERENCE_H
#define SR_TRAINER_INFERENCE_H

#include "trainer/engine/engine.h"
#include "trainer/tasks/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

// An opened model. Its fields are read-only. One thread at a time; the engine has its own threads.
typedef struct sr_inference {
    sr_recipe *recipe; // resolved
    sr_comm *comm;
    sr_engine *engine;
    const sr_task_desc *task;
    sr_arena arena;
    int class_count;
    const char **class_names;         // UTF-8, by number of the class; NULL if they are not known
    struct sr_picture_reader *reader; // of sr_inference_infer; NULL before its first call
    const char *val_identity; // of the val split that the run was evaluated on; NULL: not known
} sr_inference;

// What to open. The usual choice is 'source' with everything else zero. Borrowed during the call.
typedef struct sr_inference_options {
    const char *source; // run folder, generation (last/, best/), or a recipe (then weights=FILE)
    const char *const *overrides; // "key=value" for the recipe; NULL if there are none
    int override_count;
    bool raw;           // the parameters themselves, even if there is an average
    bool allow_plugins; // also those that a run folder's recipe names (trainer/engine/plugins.h)
    int threads;        // that compute; 0: one for each processor that this process may use
} sr_inference_options;

// Reads the weights, verifies their checksums and builds the model. From a run folder it takes the
// newest complete generation (RUN/best is the best one). Collective under mpirun, where every rank
// opens the same source; elsewhere MPI is not started. SR_E_NOT_FOUND: no checkpoint or no
// recipe.yaml; SR_E_CHECKSUM, SR_E_DATA: damaged; SR_E_USAGE: not a run, a mistake in the recipe or
// the overrides, weights that do not fit, plug-ins that are not allowed; SR_E_UNSUPPORTED: written
// by a newer version. *out is written only on success.
SR_NODISCARD sr_status sr_inference_open(const sr_inference_options *options, sr_inference **out);
// NULL is legal. Collective under mpirun.
void sr_inference_free(sr_inference *inference);

// Metrics of the val split of 'dataset', which must have the model's classes. NULL: the recipe's
// data.val or data.train; those of a run are found from the folder in which it was started, and
// must be the same still, unless an override names them. Collective: all ranks share the work and
// get the same result. SR_E_USAGE, SR_E_NOT_FOUND and SR_E_DATA of the data set, SR_E_UNSUPPORTED
// for a task without evaluation.
// folder: NULL, or where rank 0 writes the files of the task's metrics, such as confusion.csv.
SR_NODISCARD sr_status sr_inference_evaluate(sr_inference *inference, const char *dataset,
                                             const char *folder, sr_measures *out);

// A picture in memory, borrowed during a call: the bytes of a JPEG or PNG file or, where height is
// above 0, pixels.
typedef struct sr_picture_file {
    const char *name; // for messages
    const void *data;
    size_t bytes; // of pixels: height * width * channels
    int64_t height,
        width;        // of pixels, u8 [height, width, channels], upright, rows without padding;
    int64_t channels; // 1 (grey), 3 (RGB), 4 (RGB and one that is dropped); 0: 3
} sr_picture_file;

// Classifies pictures of any sizes: each is prepared as the recipe's section eval says
// (trainer/tasks/eval_view.h), and passed through the model.
// probabilities: f32 [count, class_count], each row adds up to 1. pixels: NULL, or u8 [count,
// eval.crop_height, eval.crop_width, 3], the pictures as they went into the model. statuses:
// [count]; SR_OK; SR_E_DATA or SR_E_LIMIT for a picture that cannot be read, which is black for the
// model; SR_E_NON_FINITE for one for which a value in the model overflows. The row of such a
// picture is zero, and its message goes to the log (kernels/base/log.h). All of them are written
// when SR_OK is returned.
// A picture's row does not depend on the others. Decodes on one thread and computes on all, in
// batches of at most eval.batch / lanes; the first call with a number of pictures also plans and
// measures for it. On any rank, not collective. SR_E_MEMORY; SR_E_UNSUPPORTED for a task that
// does not classify whole pictures.
SR_NODISCARD sr_status sr_inference_predict(sr_inference *inference, const sr_picture_file *files,
                                            int count, float *probabilities, uint8_t *pixels,
                                            sr_status *statuses);

// The outputs of the task for a picture, which is prepared in the same way. *picture has the arrays
// that the task reads, as it went into the model, and the size of the picture as it is stored; both
// are valid until the next call. SR_E_DATA and SR_E_LIMIT for a picture that cannot be read; else
// as sr_engine_infer. Not collective.
SR_NODISCARD sr_status sr_inference_infer(sr_inference *inference, const sr_picture_file *file,
                                          sr_slot *picture, sr_task_outputs *outputs);

#ifdef __cplusplus
}
#endif
#endif
