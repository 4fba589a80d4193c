// SPDX-License-Identifier: Apache-2.0
// The plug-in files that this process has loaded (plugin_file.h).
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/plugin_file_internal.h"

// The crash handler may read the list at any time: an entry is complete before it is counted.
static sr_plugin_file files[SR_PLUGIN_FILES_MAX];
static int file_count;

const sr_plugin_file *sr_plugin_files(int *count) {
    *count = file_count;
    return files;
}

bool sr_plugin_is_loaded(const char *path) {
    char real[PATH_MAX];
    for (int i = 0; i < file_count && realpath(path, real); i++)
        if (strcmp(files[i].path, real) == 0)
            return true;
    return false;
}

sr_plugin_file *sr_plugin_list_find(const char *path) {
    for (int i = 0; i < file_count; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

sr_plugin_file *sr_plugin_list_next(void) {
    return file_count < SR_PLUGIN_FILES_MAX ? &files[file_count] : NULL;
}

void sr_plugin_list_add(void) {
    file_count++;
}
