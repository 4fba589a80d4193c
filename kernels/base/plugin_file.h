// SPDX-License-Identifier: Apache-2.0
// Plug-in files of this process (plugin.h): trust checks, loading, and naming a plug-in that
// crashes the process.
//
// The rooms that own the tables add the content of a plug-in (trainer/engine/plugins.h, and dataio
// for its processes). All functions are called by one thread, before others start. A file stays
// loaded until the process ends.
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
    bool added;        // to this process's tables, by their owners
    uintptr_t begin;   // load address
    uintptr_t code[2]; // its instructions, [begin, end)
} sr_plugin_file;

// Loads the file at 'path', or finds it if it is loaded already. hash: the expected SHA-256
// (SR_E_USAGE if the file has changed), or NULL. SR_E_NOT_FOUND; SR_E_USAGE if anyone but the user
// and root may change it; SR_E_UNSUPPORTED if it is not a library, is incomplete or was built for
// another ABI. Messages name the file and the cure.
SR_NODISCARD sr_status sr_plugin_open(const char *path, const char *hash, sr_plugin_file **out);
// Whether the file at 'path' is loaded, even if its content has changed since.
bool sr_plugin_is_loaded(const char *path);
// All loaded plug-in files, in load order.
const sr_plugin_file *sr_plugin_files(int *count);

#endif
