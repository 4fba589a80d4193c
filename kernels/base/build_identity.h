// SPDX-License-Identifier: Apache-2.0
// Identifies the build of this program and its libraries that a process runs.
//
// A process that starts the same program again may get another build, since files may be replaced
// while a job runs. So it passes its identity to the new process, which compares it with its own.
#ifndef SR_KERNELS_BASE_BUILD_IDENTITY_H
#define SR_KERNELS_BASE_BUILD_IDENTITY_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Exit code of a process whose build differs from that of the process that started it.
#define SR_EXIT_OTHER_BUILD 86

#define SR_BUILD_IDENTITY_BYTES 8193
// A word made of the build IDs of the program and of its libraries: those that it is linked with,
// in load order, then those that were opened since. Valid until the next call on this thread.
const char *sr_build_identity(void);
// Must be called before this process opens further libraries. SR_E_NUMERICS names the first file
// that differs from that of the process with this identity.
SR_NODISCARD sr_status sr_build_compare(const char *identity);

#ifdef __cplusplus
}
#endif
#endif
