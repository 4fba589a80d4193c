// SPDX-License-Identifier: Apache-2.0
// Shared by the files that load plug-ins: the list of loaded plug-ins, and the crash handler.
#ifndef SR_KERNELS_BASE_PLUGIN_FILE_INTERNAL_H
#define SR_KERNELS_BASE_PLUGIN_FILE_INTERNAL_H

#include "kernels/base/plugin_file.h"

// The loaded file with this absolute path, or NULL.
sr_plugin_file *sr_plugin_list_find(const char *path);
// The entry of the next file, to be filled; NULL when SR_PLUGIN_FILES_MAX files are loaded.
sr_plugin_file *sr_plugin_list_next(void);
// Adds the next entry, which is complete, to the list.
void sr_plugin_list_add(void);

// Installs a crash handler that names the plug-in whose code crashes this process, before the
// process ends in the usual way. 'loading': a file that is being loaded, or NULL.
SR_NODISCARD sr_status sr_plugin_watch_crashes(const char *loading);

#endif
