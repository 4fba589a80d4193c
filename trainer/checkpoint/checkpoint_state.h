// SPDX-License-Identifier: Apache-2.0
// Generations from a trainer's side: writing one from all ranks, reading the optimiser state back
// on another number of them. checkpoint.h has what every reader needs.
#ifndef SR_TRAINER_CHECKPOINT_STATE_H
#define SR_TRAINER_CHECKPOINT_STATE_H

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/exchange/exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

// A named flat buffer of optimiser state, and the ranges of it that one rank owns.
typedef struct sr_checkpoint_state {
    const char *name; // as "momentum" or "D.adam.m"; the same on every rank
    sr_dtype dtype;
    int64_t elements;       // of the whole flat buffer
    const sr_range *ranges; // owned elements, in order without overlap
    int range_count;
    bool packed;      // data is the owned ranges one after the other, not the whole buffer
    const void *data; // first element of the whole buffer, or of the packed ranges
} sr_checkpoint_state;

// -- writing: rank 0 numbers the generation, all ranks write, the caller's barrier, rank 0 commits

// One above the highest generation in the run folder, complete or not (1 in a new one). Rank 0
// calls it and sends the number to the others.
SR_NODISCARD sr_status sr_checkpoint_next_generation(const char *run, int64_t *generation);
// Removes the temporary files that a killed job has left in generations. Nobody writes there.
void sr_checkpoint_remove_temporary_files(const char *run);

// A generation that is being written, on one rank.
typedef struct sr_checkpoint_writer sr_checkpoint_writer;

// On every rank, in any order.
SR_NODISCARD sr_status sr_checkpoint_begin(const char *run, int64_t generation, int rank, int ranks,
                                           sr_checkpoint_writer **out);
// On every rank, once: writes this rank's shard (count may be 0). On return it is durable and has
// been read back.
SR_NODISCARD sr_status sr_checkpoint_write_optimizer(sr_checkpoint_writer *writer,
                                                     const sr_checkpoint_state *states, int count);
// SR_E_LIMIT for names of classes that the header of a weights file has no room for.
SR_NODISCARD sr_status sr_checkpoint_check_classes(const char *const *classes, int count);
// On rank 0, once for each kind. The file's metadata gets serried.classes (JSON array),
// serried.mean, serried.std, serried.model and serried.data from the manifest, so that the file can
// be used on its own.
SR_NODISCARD sr_status sr_checkpoint_write_model(sr_checkpoint_writer *writer, sr_weights_kind kind,
                                                 const sr_stored_tensor *tensors, int count,
                                                 const sr_manifest *manifest);
// On rank 0, after every rank has written (a barrier). Makes the generation complete, or fails and
// leaves no generation. Then makes the links (sr_checkpoint_link) and removes all generations
// except the newest 'keep' (at least 2) and the best one. A failure of these is only a warning,
// since the checkpoint itself is complete.
SR_NODISCARD sr_status sr_checkpoint_commit(sr_checkpoint_writer *writer,
                                            const sr_manifest *manifest, int keep);
// On rank 0, for values that are known only after the commit, such as the metric of an evaluation:
// atomically replaces the manifest of the generation that 'manifest' names, updates the links, and
// removes generations beyond 'keep' that no link points to any more. The list of files and the
// number of ranks stay. A failure leaves the old manifest.
SR_NODISCARD sr_status sr_checkpoint_amend(const char *run, const sr_manifest *manifest, int keep);
// Points 'last' to the manifest's generation and 'best' to that of its best_step (if there is one).
// Called after a commit, and when a run is resumed, since a crash may have happened between
// manifest and links.
SR_NODISCARD sr_status sr_checkpoint_link(const char *run, const sr_manifest *manifest);
// Frees the writer, on every rank. Without a commit rank 0 removes the unfinished generation.
void sr_checkpoint_writer_free(sr_checkpoint_writer *writer);

// -- reading ---------------------------------------------------------------------------------

// Whether a run folder has checkpoints, and all with a readable manifest belong to the run of this
// identity. A checkpoint copied from another run makes it false.
SR_NODISCARD sr_status sr_checkpoint_all_of(const char *run, const char *identity, bool *all);

// The flat buffers of the optimiser state, whatever number of ranks wrote them.
typedef struct sr_state_info {
    const char *name;
    sr_dtype dtype;
    int64_t elements;
} sr_state_info;

// Opens all shards and checks that they cover every buffer exactly once.
SR_NODISCARD sr_status sr_checkpoint_states(sr_checkpoint *checkpoint, const sr_state_info **states,
                                            int *count);
// Reads the given ranges into 'out', at their own offsets in a whole buffer, or packed one after
// the other. SR_E_NOT_FOUND for an unknown state; SR_E_SHAPE if dtype or elements differ.
SR_NODISCARD sr_status sr_checkpoint_read_state(sr_checkpoint *checkpoint, const char *name,
                                                sr_dtype dtype, int64_t elements,
                                                const sr_range *ranges, int range_count,
                                                bool packed, void *out);

#ifdef __cplusplus
}
#endif
#endif
