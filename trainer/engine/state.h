// SPDX-License-Identifier: Apache-2.0
// The state of a run: from the engine's flat spaces to checkpoints, weight files and digests.
#ifndef SR_TRAINER_STATE_H
#define SR_TRAINER_STATE_H

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// All ranks. Writes a generation; 'manifest' counts on rank 0. Its digest and generation are set
// here, on all ranks.
SR_NODISCARD sr_status sr_state_save(sr_engine *engine, const char *run, sr_manifest *manifest,
                                     int keep, char digest[SR_SHA256_HEX]);
// All ranks. Fills parameters, buffers, average and optimiser state from a checkpoint.
SR_NODISCARD sr_status sr_state_load(sr_engine *engine, sr_checkpoint *checkpoint);
// Parameters and buffers alone (val, predict, `weights:`), of every phase, on every rank alike; the
// average begins at them, optimiser state stays as it is. sr_checkpoint_open_weights opens the
// file, which may be freed afterwards (tests/samples/own_source.c). reset: names or prefixes of
// tensors that may be missing or differ in shape. What was loaded, missing, unexpected is reported
// in the log; a mismatch outside 'reset' is SR_E_USAGE naming the tensors.
SR_NODISCARD sr_status sr_state_load_weights(sr_engine *engine, sr_safetensors *file,
                                             const sr_string_list *reset);
// Compares the class names that a weights file carries (one without passes) with those of the data,
// so that outputs are not read as other classes. SR_E_USAGE naming the first that differs.
SR_NODISCARD sr_status sr_state_check_classes(sr_safetensors *file, const char *const *classes,
                                              int count);
// All ranks: the digest of everything that a checkpoint holds; hex on every rank.
SR_NODISCARD sr_status sr_state_digest(sr_engine *engine, int64_t position, int64_t steps,
                                       char hex[SR_SHA256_HEX]);

#ifdef __cplusplus
}
#endif
#endif
