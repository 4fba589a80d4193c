// SPDX-License-Identifier: Apache-2.0
// The user's cache folder: $SERRIED_CACHE, or $XDG_CACHE_HOME/serried, or ~/.cache/serried. The
// folder and its files are used only if they belong to this user and no other user may write them.
#ifndef SR_KERNELS_BASE_CACHE_FOLDER_H
#define SR_KERNELS_BASE_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stat;

// The folder, which may not exist yet, in new memory (sr_free); NULL if the environment names none.
SR_NODISCARD sr_status sr_cache_folder_find(char **out);
// Makes the folder and its parents, with mode 0700. SR_E_DATA if it does not belong to this user
// alone.
SR_NODISCARD sr_status sr_cache_folder_make(const char *folder);
// SR_E_DATA for what is not a folder or a regular file, belongs to another user, or is writable by
// others.
SR_NODISCARD sr_status sr_cache_check_owner(const char *path, const struct stat *info, bool folder);

// Reads the file 'name' of the cache folder, as sr_file_read does. SR_E_NOT_FOUND if there is none.
SR_NODISCARD sr_status sr_cache_read(const char *name, size_t max_bytes, void **data,
                                     size_t *bytes);
// Writes it, atomically and with mode 0600. SR_E_NOT_FOUND if the environment names no folder.
SR_NODISCARD sr_status sr_cache_write(const char *name, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
