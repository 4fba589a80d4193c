// SPDX-License-Identifier: Apache-2.0
// Shared by the source files for files and folders.
#ifndef SR_KERNELS_BASE_FILE_INTERNAL_H
#define SR_KERNELS_BASE_FILE_INTERNAL_H

#include <sys/types.h>

#define SR_TEMPORARY_MARK ".tmp-"

// open(2), retried when a signal interrupts it.
int sr_file_open_retrying(const char *path, int flags, mode_t mode);
// The folder part of a path ("." if it has no slash), in new memory (sr_free); NULL with the error
// set when memory is out.
char *sr_file_folder(const char *path);

#endif
