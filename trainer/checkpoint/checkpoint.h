// SPDX-License-Identifier: Apache-2.0
// Checkpoints: generations on disk that are complete or do not exist.
//
// Layout inside a run folder:
//   checkpoints/00000012/model.safetensors              fp32 masters and buffers in one file
//                        model_ema.safetensors          if the run keeps an average
//                        optimizer-00000-of-00004.safetensors ...   one shard per rank
//                        manifest.json                  written last: the generation exists once it
//                        does
//   last -> checkpoints/00000012, best -> checkpoints/00000009
// A generation gets a new folder; older ones are left alone until the new one is durable, has been
// read back and is linked. After a kill or a power loss at any instant, the newest generation or
// the one before it can be loaded completely. The links are for people: readers of a run folder
// take the newest generation whose checksums match, and report those that they skipped; they also
// report a generation without a manifest if 'last' points to it, since it was complete once.
//
// manifest.json ends with the SHA-256 of all text before it. It lists each file with its length,
// the XXH3-64 of every 1 MiB chunk and a sum over these (trainer/checkpoint/file_sums.h). The
// checksums detect damage, not malice; no file contains anything executable.
#ifndef SR_TRAINER_CHECKPOINT_H
#define SR_TRAINER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/hash.h"
#include "kernels/base/text.h"
#include "trainer/checkpoint/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CHECKPOINT_VERSION 1  // of the format above
#define SR_CHECKPOINT_CHANNELS 4 // maximum number of channels with a normalisation

// The content of a manifest. Strings may be NULL when writing; a reader gives "" and keeps them
// alive until sr_checkpoint_free.
typedef struct sr_manifest {
    int64_t generation;                  // set by the writer
    int64_t position;                    // samples consumed; training resumes from it
    int64_t step, epoch;                 // completed steps and epochs
    int ranks;                           // optimiser shards; set by the writer
    int lanes;                           // of the recipe
    int64_t batch;                       // samples of a step, over all lanes
    uint64_t seed;                       // of the recipe
    const char *task, *model, *recipe;   // "classify", "resnet50", "cifar10-fast"
    const char *recipe_identity;         // hash of the options that change results, hex
    const char *data_identity;           // hash of the data set's content, hex
    const char *fingerprint;             // numerics: version, processor features, libraries
    const char *digest;                  // hash of the state, hex (sr_state_digest)
    const char *const *classes;          // names by index
    int class_count;                     //
    int64_t image_height, image_width;   // of a training input
    int channels;                        // 0..SR_CHECKPOINT_CHANNELS
    double mean[SR_CHECKPOINT_CHANNELS]; // normalisation: (x / 255 - mean) / std
    double std[SR_CHECKPOINT_CHANNELS];  //
    const char *metric;                  // name of checkpoint.metric, as "val/top1"
    double metric_value;                 // of this generation; NaN if not evaluated
    double best_value;                   // best so far, including this generation; NaN: none
    int64_t best_step;                   // of the checkpoint with best_value; 0: none
    const sr_metadata *extra;            // further strings of the trainer
    int extra_count;                     //
} sr_manifest;

// Key of 'extra': identity of the val split; "": none.
#define SR_EXTRA_VAL_DATA "val_data"
// Key of 'extra': how the pictures of the val split are resized and cropped.
#define SR_EXTRA_VAL_VIEW "val_view"
// The value of a key of 'extra', or NULL.
const char *sr_manifest_extra(const sr_manifest *manifest, const char *key);

// The weight files of a generation.
typedef enum sr_weights_kind {
    SR_WEIGHTS_MODEL = 0, // model.safetensors
    SR_WEIGHTS_EMA,       // model_ema.safetensors
} sr_weights_kind;

// -- reading ---------------------------------------------------------------------------------

// A generation that is being read. One thread at a time.
typedef struct sr_checkpoint sr_checkpoint;

// How to open; all zero is the default.
typedef struct sr_checkpoint_open_options {
    bool no_verify; // read the manifest only (stat, show); damage is detected later, by reads
    // Open only this generation of a run folder, so that ranks open what rank 0 chose or fail; 0:
    // the newest complete one.
    int64_t generation;
} sr_checkpoint_open_options;

// path: a run folder (its newest complete generation; damaged newer ones are reported by warnings),
// or one generation (last/, best/, checkpoints/N). options may be NULL. SR_E_NOT_FOUND: no
// checkpoint there; SR_E_CHECKSUM or SR_E_DATA: damaged, with file and bytes; SR_E_UNSUPPORTED:
// written by a newer format version.
SR_NODISCARD sr_status sr_checkpoint_open(const char *path,
                                          const sr_checkpoint_open_options *options,
                                          sr_checkpoint **out);
// NULL is legal.
void sr_checkpoint_free(sr_checkpoint *checkpoint);
// The folder of the generation that was opened. Borrowed until free.
const char *sr_checkpoint_folder(const sr_checkpoint *checkpoint);
// The manifest. Borrowed until free.
const sr_manifest *sr_checkpoint_manifest(const sr_checkpoint *checkpoint);
// Whether the generation has weights of this kind.
bool sr_checkpoint_has_weights(const sr_checkpoint *checkpoint, sr_weights_kind kind);
// Opened at first use; owned by the checkpoint. SR_E_NOT_FOUND if the kind was not written.
SR_NODISCARD sr_status sr_checkpoint_weights(sr_checkpoint *checkpoint, sr_weights_kind kind,
                                             sr_safetensors **out);

// Opens a weights file by its path. If a generation's manifest lists it, reads compare its
// checksums; other files have none.
SR_NODISCARD sr_status sr_checkpoint_open_weights(const char *path, sr_safetensors **out);

// -- reports: verify, stat, show -------------------------------------------------------------

// True if the path is a run folder, with or without a checkpoint, or a generation.
bool sr_checkpoint_is(const char *path);
// Checks every file of every generation at the path, and that the generations of a run folder
// belong to this run. Adds lines of text to 'report', or one JSON object and a newline. Returns the
// code and message of the first damage; SR_OK if there is none, also for a run without a
// checkpoint.
SR_NODISCARD sr_status sr_checkpoint_verify(const char *path, bool json, sr_text *report);
// Describes the newest readable generation in lines of text; 'tensors': with every tensor.
SR_NODISCARD sr_status sr_checkpoint_describe(const char *path, bool tensors, sr_text *out);
// The same as one JSON object, whose "kind" is "checkpoint", and a newline.
SR_NODISCARD sr_status sr_checkpoint_describe_json(const char *path, sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
