// SPDX-License-Identifier: Apache-2.0
// Plug-in files of this process (plugin.h): trusted, loaded, and named when they crash.
//
// What a plug-in brings is added to the tables by the rooms that own them
// (trainer/engine/plugins.h, and dataio for its processes). One thread, before others start. A file
// stays loaded until the end.
#ifndef SR_KERNELS_BASE_PLUGIN_FILE_H
#define SR_KERNELS_BASE_PLUGIN_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/hash.h"
#include "kernels/base/plugin.h"
#include "kernels/base/status.h"

#define SR_PLUGIN_FILES_MAX 32

typedef struct sr_plugin_file {
    const char *path; // absolute, without links
    char hash[SR_SHA256_HEX];
    const sr_plugin *plugin;
    bool added;        // to this process's tables, by whoever owns them
    uintptr_t begin;   // where it lies in memory
    uintptr_t code[2]; // its instructions, [begin, end)
} sr_plugin_file;

// Loads the file at 'path', or finds it where it is loaded already. hash: the content that is
// expected (SR_E_USAGE where it has changed), or NULL. SR_E_NOT_FOUND; SR_E_USAGE where others than
// the user and root may change it; SR_E_UNSUPPORTED where it is no library, lacks something or was
// built for another ABI. Messages name the file and the cure.
SR_NODISCARD sr_status sr_plugin_open(const char *path, const char *hash, sr_plugin_file **out);
// Whether the file at 'path' is loaded, whatever it holds now.
bool sr_plugin_is_loaded(const char *path);
// All that are loaded, in order.
const sr_plugin_file *sr_plugin_files(int *count);

#endif
