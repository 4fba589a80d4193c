// SPDX-License-Identifier: Apache-2.0
// Which build of this program and its libraries a process runs.
//
// A process that starts the same program again may get another build: files are replaced while a
// job runs. It passes its identity to the new process, which compares it with its own.
#ifndef SR_KERNELS_BASE_BUILD_IDENTITY_H
#define SR_KERNELS_BASE_BUILD_IDENTITY_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Exit code of a process that is of another build than the one that started it.
#define SR_EXIT_OTHER_BUILD 86

#define SR_BUILD_IDENTITY_BYTES 8193
// A word made of the build IDs of the program and of the libraries that it is linked with, in the
// order in which they were loaded, followed by those that were opened since. In memory of the
// calling thread, until its next call.
const char *sr_build_identity(void);
// To be called before this process opens further libraries. SR_E_NUMERICS naming the file that is
// not the one of the process with this identity.
SR_NODISCARD sr_status sr_build_compare(const char *identity);

#ifdef __cplusplus
}
#endif
#endif
