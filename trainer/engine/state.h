// SPDX-License-Identifier: Apache-2.0
// Saves the engine's state to checkpoints, loads it from checkpoints and weight files, and computes
// its digest.
#ifndef SR_TRAINER_STATE_H
#define SR_TRAINER_STATE_H

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// Collective: writes a generation with rank 0's manifest. Sets its digest and generation on all
// ranks.
SR_NODISCARD sr_status sr_state_save(sr_engine *engine, const char *run, sr_manifest *manifest,
                                     int keep, char digest[SR_SHA256_HEX]);
// Collective: fills parameters, buffers, average and optimiser state from a checkpoint.
SR_NODISCARD sr_status sr_state_load(sr_engine *engine, sr_checkpoint *checkpoint);
// Loads only parameters and buffers (val, predict, `weights:`), of every set; every rank calls it
// with the same file. The average restarts from these values; optimiser state is unchanged.
// sr_checkpoint_open_weights opens the file, which may be freed afterwards
// (tests/samples/own_source.c). part: the model inside the engine's model that the file is of, such
// as "backbone"; NULL: the file is of the whole. reset: names or prefixes of tensors that may be
// missing or differ in shape. The numbers of loaded, missing and unexpected tensors are logged; a
// mismatch outside 'reset' is SR_E_USAGE naming the tensors.
SR_NODISCARD sr_status sr_state_load_weights(sr_engine *engine, sr_safetensors *file,
                                             const char *part, const sr_string_list *reset);
// Loads the parameters and buffers in the same way, but logs nothing and leaves the average as it
// is: to find out whether a file can be loaded.
SR_NODISCARD sr_status sr_state_try_weights(sr_engine *engine, sr_safetensors *file,
                                            const char *part, const sr_string_list *reset);
// Compares the class names in a weights file with those of the data, so that outputs are not
// assigned to the wrong classes. A file without class names passes. SR_E_USAGE naming the first
// that differs.
SR_NODISCARD sr_status sr_state_check_classes(sr_safetensors *file, const char *const *classes,
                                              int count);
// Collective: the digest of everything that a checkpoint contains, on every rank.
SR_NODISCARD sr_status sr_state_digest(sr_engine *engine, int64_t position, int64_t steps,
                                       char hex[SR_SHA256_HEX]);

#ifdef __cplusplus
}
#endif
#endif
