// SPDX-License-Identifier: Apache-2.0
// The two walls of dataio/pipeline/sandbox.c.
#ifndef SR_DATAIO_SANDBOX_INTERNAL_H
#define SR_DATAIO_SANDBOX_INTERNAL_H

#include "dataio/pipeline/sandbox.h"

// Whether this kernel takes filters of system calls of this processor.
bool sr_sandbox_has_filter(void);
// Puts the filter up in all threads of this process.
SR_NODISCARD sr_status sr_sandbox_filter(sr_sandbox_rights rights);

// Version of Landlock's interface; 0: none.
int sr_sandbox_landlock_version(void);
// Takes all rights on files from this process, but for reading what belongs to the data set.
SR_NODISCARD sr_status sr_sandbox_landlock(int version, sr_sandbox_rights rights, const char *path);

#endif
