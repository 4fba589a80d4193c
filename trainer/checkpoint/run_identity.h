// SPDX-License-Identifier: Apache-2.0
// The file "identity" of a run folder: the identity of the run, and those that it had before it was
// extended.
//
// One identity per line, the current one first. A checkpoint of any other identity is not of this
// run.
#ifndef SR_TRAINER_RUN_IDENTITY_H
#define SR_TRAINER_RUN_IDENTITY_H

#include <stdbool.h>

#include "kernels/base/status.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

// Adds the lines of FOLDER/identity to 'out' (initialised by the caller); adds nothing if there is
// no such file, or one that serried did not write.
SR_NODISCARD sr_status sr_run_identity_read(const char *folder, sr_text *out);
// Whether this identity is the first line.
bool sr_run_identity_is(const char *lines, const char *identity);
// Whether it is any of the lines.
bool sr_run_identity_has(const char *lines, const char *identity);
// Writes the file: 'identity', then the lines of 'before' ("" or NULL for a new run) without that
// identity.
SR_NODISCARD sr_status sr_run_identity_write(const char *folder, const char *identity,
                                             const char *before);

#ifdef __cplusplus
}
#endif
#endif
