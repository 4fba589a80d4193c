// SPDX-License-Identifier: Apache-2.0
// The file "identity" of a run folder: what the run is, and what it was before it was extended.
//
// One identity a line, the run's own first. A checkpoint of any other is not this run's.
#ifndef SR_TRAINER_RUN_IDENTITY_H
#define SR_TRAINER_RUN_IDENTITY_H

#include <stdbool.h>

#include "kernels/base/status.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

// The lines of FOLDER/identity added to 'out' (initialised by the caller); nothing where there is
// none, and for somebody else's file of this name.
SR_NODISCARD sr_status sr_run_identity_read(const char *folder, sr_text *out);
// Whether the first line is this one.
bool sr_run_identity_is(const char *lines, const char *identity);
// Whether any line is.
bool sr_run_identity_has(const char *lines, const char *identity);
// Writes the file: 'identity', then the lines before it ("" or NULL for a new run) less itself.
SR_NODISCARD sr_status sr_run_identity_write(const char *folder, const char *identity,
                                             const char *before);

#ifdef __cplusplus
}
#endif
#endif
