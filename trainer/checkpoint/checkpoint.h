// SPDX-License-Identifier: Apache-2.0
// Checkpoints: generations on disk that are whole or do not exist.
//
// Layout inside a run folder:
//   checkpoints/00000012/model.safetensors              fp32 masters and buffers, one whole file
//                        model_ema.safetensors          where the run keeps an average
//                        optimizer-00000-of-00004.safetensors ...   a shard of each rank
//                        manifest.json                  written last: it makes the generation exist
//   last -> checkpoints/00000012, best -> checkpoints/00000009
// A generation gets a new folder; nothing of an older one is touched until the new one is durable,
// has been read back and is linked. Kill or power loss at any instant leaves the newest generation
// or the one before it loadable as a whole. The links are for people: readers of a run folder take
// the newest generation whose checksums are right, and name those they passed over; a generation
// that 'last' points to but that has no manifest is named, too: it was whole once.
//
// manifest.json ends with the SHA-256 of all text before it; it lists each file with its length,
// the XXH3-64 of every 1 MiB chunk and a sum over these (trainer/checkpoint/file_sums.h). The
// checksums find damage, not malice; no file holds anything executable.
#ifndef SR_TRAINER_CHECKPOINT_H
#define SR_TRAINER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/hash.h"
#include "kernels/base/text.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/exchange/exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CHECKPOINT_VERSION 1  // of the format above
#define SR_CHECKPOINT_CHANNELS 4 // most channels with a normalisation

// What a generation says about itself. Strings may be NULL when writing; a reader gives "" and
// keeps them alive until sr_checkpoint_free.
typedef struct sr_manifest {
    int64_t generation;                  // set by the writer
    int64_t position;                    // samples consumed: the one number to resume from
    int64_t step, epoch;                 // whole steps and epochs done
    int ranks;                           // optimiser shards; set by the writer
    int lanes;                           // constant of the recipe
    int64_t batch;                       // samples of a step, all lanes
    uint64_t seed;                       //
    const char *task, *model, *recipe;   // "classify", "resnet50", "cifar10-fast"
    const char *recipe_identity;         // hex of the options that change numbers
    const char *data_identity;           // hex of the data set's content
    const char *fingerprint;             // numerics: version, processor features, libraries
    const char *digest;                  // hex of the state (trainer/engine/digest.h)
    const char *const *classes;          // names by index
    int class_count;                     //
    int64_t image_height, image_width;   // of a training input
    int channels;                        // 0..SR_CHECKPOINT_CHANNELS
    double mean[SR_CHECKPOINT_CHANNELS]; // normalisation: (x / 255 - mean) / std
    double std[SR_CHECKPOINT_CHANNELS];  //
    const char *metric;                  // name of checkpoint.metric, as "val/top1"
    double metric_value;                 // of this generation; NaN where not evaluated
    double best_value;                   // best so far, this generation included; NaN for none
    int64_t best_step;                   // of the checkpoint with it; 0 for none
    const sr_metadata *extra;            // further strings of the trainer (loss scaler, ...)
    int extra_count;                     //
} sr_manifest;

// A named flat buffer of optimiser state and the part of it that one rank owns.
typedef struct sr_checkpoint_state {
    const char *name; // as "momentum" or "D.adam.m"; the same on every rank
    sr_dtype dtype;
    int64_t elements;       // of the whole flat buffer
    const sr_range *ranges; // owned elements, in order without overlap
    int range_count;
    bool packed;      // data holds the owned elements one after the other, not the whole buffer
    const void *data; // first element of the whole buffer, or of the packed ranges
} sr_checkpoint_state;

// The weight files of a generation.
typedef enum sr_weights_kind {
    SR_WEIGHTS_MODEL = 0, // model.safetensors
    SR_WEIGHTS_EMA,       // model_ema.safetensors
} sr_weights_kind;

// -- writing: rank 0 names the generation, all ranks write, the caller's barrier, rank 0 commits --

// One above every generation that exists in the run folder in any state (1 in a new one). Rank 0
// calls it and tells the others.
SR_NODISCARD sr_status sr_checkpoint_next_generation(const char *run, int64_t *generation);

// A generation that is being written, on one rank.
typedef struct sr_checkpoint_writer sr_checkpoint_writer;

// On every rank, in any order.
SR_NODISCARD sr_status sr_checkpoint_begin(const char *run, int64_t generation, int rank, int ranks,
                                           sr_checkpoint_writer **out);
// On every rank, once: this rank's shard (count may be 0). Durable and read back on return.
SR_NODISCARD sr_status sr_checkpoint_write_optimizer(sr_checkpoint_writer *writer,
                                                     const sr_checkpoint_state *states, int count);
// On rank 0, once for each kind. The metadata of the file gets serried.classes (JSON array),
// serried.mean, serried.std, serried.model and serried.data from the manifest, so that the file is
// useful alone.
SR_NODISCARD sr_status sr_checkpoint_write_model(sr_checkpoint_writer *writer, sr_weights_kind kind,
                                                 const sr_stored_tensor *tensors, int count,
                                                 const sr_manifest *manifest);
// On rank 0, after every rank has written (a barrier). The generation exists from its return on; a
// failure before leaves none. Then the links are made (sr_checkpoint_link) and all but the newest
// 'keep' generations (at least 2) and the best one are removed; what fails there is a warning,
// since the checkpoint itself is whole.
SR_NODISCARD sr_status sr_checkpoint_commit(sr_checkpoint_writer *writer,
                                            const sr_manifest *manifest, int keep);
// On rank 0, for what is known of a committed generation only later, as the metric of an evaluation
// behind it: its manifest, at once, says what 'manifest' does (whose generation names it), and the
// links follow, and 'keep' holds for what they no longer lead to. Files and the number of their
// ranks stay. A failure leaves the old manifest.
SR_NODISCARD sr_status sr_checkpoint_amend(const char *run, const sr_manifest *manifest, int keep);
// 'last' leads to the manifest's generation and 'best' to that of its best_step (where there is
// one). After a commit, and when a run goes on: a crash may have come between manifest and links.
SR_NODISCARD sr_status sr_checkpoint_link(const char *run, const sr_manifest *manifest);
// Ends the writer on every rank; without a commit rank 0 removes the unfinished generation.
void sr_checkpoint_writer_free(sr_checkpoint_writer *writer);

// -- reading ---------------------------------------------------------------------------------

// A generation that is being read. One thread at a time.
typedef struct sr_checkpoint sr_checkpoint;

// How to open; all zero is the usual way.
typedef struct sr_checkpoint_open_options {
    bool no_verify; // look at the manifest only (stat, show); damage is then found when reading
    // This generation of a run folder and no other, so that ranks open what rank 0 chose or fail;
    // 0: the newest whole one.
    int64_t generation;
} sr_checkpoint_open_options;

// path: a run folder (its newest whole generation; damaged newer ones are named by warnings), or
// one generation (last/, best/, checkpoints/N). options may be NULL.
// SR_E_NOT_FOUND: no checkpoint there; SR_E_CHECKSUM or SR_E_DATA: damaged, with file and bytes;
// SR_E_UNSUPPORTED: written by a newer format version.
SR_NODISCARD sr_status sr_checkpoint_open(const char *path,
                                          const sr_checkpoint_open_options *options,
                                          sr_checkpoint **out);
// NULL is legal.
void sr_checkpoint_free(sr_checkpoint *checkpoint);
// The folder of the generation that was opened. Borrowed until free.
const char *sr_checkpoint_folder(const sr_checkpoint *checkpoint);
// What the generation says about itself. Borrowed until free.
const sr_manifest *sr_checkpoint_manifest(const sr_checkpoint *checkpoint);
// Whether the generation has weights of this kind.
bool sr_checkpoint_has_weights(const sr_checkpoint *checkpoint, sr_weights_kind kind);
// Opened at first use; owned by the checkpoint. SR_E_NOT_FOUND where the kind was not written.
SR_NODISCARD sr_status sr_checkpoint_weights(sr_checkpoint *checkpoint, sr_weights_kind kind,
                                             sr_safetensors **out);

// Whether a run folder has checkpoints and all whose manifest can be read are of the run of this
// identity: one that was copied in from another run makes it false.
SR_NODISCARD sr_status sr_checkpoint_all_of(const char *run, const char *identity, bool *all);

// A weights file by its path. One that a generation's manifest lists is read through the checksums
// there; any other has none to compare.
SR_NODISCARD sr_status sr_checkpoint_open_weights(const char *path, sr_safetensors **out);

// The flat buffers of the optimiser state, whatever number of ranks wrote them.
typedef struct sr_state_info {
    const char *name;
    sr_dtype dtype;
    int64_t elements;
} sr_state_info;

// Opens all shards and checks that they cover every buffer exactly once.
SR_NODISCARD sr_status sr_checkpoint_states(sr_checkpoint *checkpoint, const sr_state_info **states,
                                            int *count);
// Reads the given ranges into 'out': at their own places in a whole buffer, or packed one after the
// other. SR_E_NOT_FOUND for an unknown state; SR_E_SHAPE where dtype or elements differ.
SR_NODISCARD sr_status sr_checkpoint_read_state(sr_checkpoint *checkpoint, const char *name,
                                                sr_dtype dtype, int64_t elements,
                                                const sr_range *ranges, int range_count,
                                                bool packed, void *out);

// -- for people: verify, stat, show ----------------------------------------------------------

// True when the path is a run folder, with or without a checkpoint yet, or a generation.
bool sr_checkpoint_is(const char *path);
// Checks every file of every generation at the path, and that generations of a run folder are this
// run's; adds lines of text to 'report', or one JSON object with a line break. Returns the code and
// message of the first damage; SR_OK if there is none, also for a run without a checkpoint.
SR_NODISCARD sr_status sr_checkpoint_verify(const char *path, bool json, sr_text *report);
// What the newest readable generation is, in lines of text; with every tensor where 'tensors'.
SR_NODISCARD sr_status sr_checkpoint_describe(const char *path, bool tensors, sr_text *out);
// The same as one JSON object and a line break, of which "kind" is "checkpoint".
SR_NODISCARD sr_status sr_checkpoint_describe_json(const char *path, sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
