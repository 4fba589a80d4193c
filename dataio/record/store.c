// SPDX-License-Identifier: Apache-2.0
// The table of stores, and what stores with a folder for each split share (store_internal.h).
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/record/split.h"
#include "dataio/record/store_internal.h"
#include "kernels/base/file.h"

#define STORE(name) extern const sr_store sr_store_##name;
#include "dataio/record/store_list.def"
#undef STORE

static const sr_store *const stores[] = {
#define STORE(name) &sr_store_##name,
#include "dataio/record/store_list.def"
#undef STORE
};

const sr_store *sr_store_at(size_t index) {
    return index < sizeof stores / sizeof *stores ? stores[index] : NULL;
}

char *sr_store_split_folder(const sr_writer *writer) {
    return sr_path_join(writer->folder, writer->header.split);
}

sr_status sr_store_make_folder(const sr_writer *writer, char **out) {
    char *folder = sr_store_split_folder(writer);
    if (folder == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_make_folders(folder);
    if (status == SR_OK)
        status = sr_sync_folder(writer->folder);
    if (status != SR_OK) {
        sr_free(folder);
        return status;
    }
    *out = folder;
    return SR_OK;
}

// FILE, or FILE with the suffix of sr_atomic_open.
static bool is_named(const char *entry, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(entry, names[i], n) == 0 &&
            (entry[n] == '\0' || sr_file_is_temporary(entry + n)))
            return true;
    }
    return false;
}

sr_status sr_store_remove_files(const char *folder, const char *const *names, size_t count) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return errno == ENOENT || errno == ENOTDIR
                   ? SR_OK
                   : sr_file_fail(folder, "cannot be listed", errno);
    sr_status status = SR_OK;
    for (struct dirent *entry; status == SR_OK && (entry = readdir(dir)) != NULL;)
        if (is_named(entry->d_name, names, count) && unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            status = SR_FAIL(SR_E_IO, "%s/%s: cannot remove: %s", folder, entry->d_name,
                             strerror(errno));
    (void)closedir(dir);
    if (status == SR_OK)
        (void)rmdir(folder); // fails where it contains other files, which stay
    return status;
}

sr_status sr_store_sweep(const char *folder) {
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        for (int s = 0; s < SR_SPLIT_COUNT && stores[i]->sweep != NULL; s++) {
            char *path = sr_path_join(folder, sr_split_names[s]);
            sr_status status = path ? stores[i]->sweep(path) : SR_E_MEMORY;
            sr_free(path);
            SR_TRY(status);
        }
    }
    return SR_OK;
}
