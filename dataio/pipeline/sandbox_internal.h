// SPDX-License-Identifier: Apache-2.0
// The two layers of dataio/pipeline/sandbox.c.
#ifndef SR_DATAIO_SANDBOX_INTERNAL_H
#define SR_DATAIO_SANDBOX_INTERNAL_H

#include "dataio/pipeline/sandbox.h"

// Whether the kernel supports seccomp filters on this architecture.
bool sr_sandbox_has_filter(void);
// Installs the filter in all threads of this process.
SR_NODISCARD sr_status sr_sandbox_filter(sr_sandbox_rights rights);

// Version of Landlock's ABI; 0: not supported.
int sr_sandbox_landlock_version(void);
// Revokes all rights on files, except to read the data set with SR_SANDBOX_READ.
SR_NODISCARD sr_status sr_sandbox_landlock(int version, sr_sandbox_rights rights, const char *path);

#endif
