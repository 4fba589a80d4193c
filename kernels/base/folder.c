// SPDX-License-Identifier: Apache-2.0
// Folders: made, checked, synced and cleaned of temporary files (see file.h).
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/file_internal.h"
#include "kernels/base/memory.h"

bool sr_file_is_temporary(const char *name) {
    return strstr(name, SR_TEMPORARY_MARK) != NULL;
}

static bool is_temporary_of(const char *name, long process) {
    const char *mark = strstr(name, SR_TEMPORARY_MARK);
    return mark && (process == 0 || strtol(mark + strlen(SR_TEMPORARY_MARK), NULL, 10) == process);
}

void sr_remove_temporary_files(const char *folder, long process) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (is_temporary_of(entry->d_name, process))
            (void)unlinkat(dirfd(dir), entry->d_name, 0); // a file that stays is harmless
    (void)closedir(dir);
}

static sr_status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0)
        return SR_OK;
    int error = errno;
    if (error == EEXIST && sr_path_is_folder(path))
        return SR_OK;
    char *target = NULL; // of a link whose target does not exist yet
    if (error == EEXIST && sr_file_target(path, &target) == SR_OK && strcmp(path, target) != 0)
        error = mkdir(target, 0777) == 0 ? 0 : errno;
    sr_free(target);
    if (error == 0)
        return SR_OK;
    return sr_file_fail(path, "cannot make the folder", error);
}

sr_status sr_make_folders(const char *path) {
    char *prefix = sr_strdup(path);
    if (prefix == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    for (char *p = prefix + 1; *prefix != '\0' && status == SR_OK; p++) {
        char held = *p;
        if (held != '/' && held != '\0')
            continue;
        *p = '\0';
        status = make_folder(prefix);
        *p = held;
        if (held == '\0')
            break;
    }
    sr_free(prefix);
    return status;
}

sr_status sr_check_folder_writable(const char *path) {
    char *there = sr_strdup(path); // the path, or the nearest of its parents that exists
    if (there == NULL)
        return SR_E_MEMORY;
    const char *nearest = there;
    while (access(nearest, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        char *slash = strrchr(there, '/');
        nearest = slash == NULL ? "." : slash == there ? "/" : there;
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    const bool exists = sr_path_is_folder(path);
    sr_status status = SR_OK;
    if (!sr_path_is_folder(nearest))
        status = sr_file_fail(nearest, "cannot make the folder", EEXIST);
    else if (faccessat(AT_FDCWD, nearest, W_OK | X_OK, AT_EACCESS) != 0)
        status = sr_file_fail(
            path, exists ? "cannot write to the folder" : "cannot make the folder", errno);
    sr_free(there);
    return status;
}

sr_status sr_sync_folder(const char *path) {
    int fd = sr_file_open_retrying(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return sr_file_fail(path, "cannot open the folder", errno);
    // EINVAL: some network file systems cannot fsync a folder.
    int error = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    (void)close(fd);
    return error ? sr_file_fail(path, "cannot fsync the folder", error) : SR_OK;
}

void sr_sync_parents(const char *path) {
    char parent[PATH_MAX] = "";
    if (strlen(path) < sizeof parent)
        memcpy(parent, path, strlen(path) + 1);
    for (char *slash = parent; slash != NULL;) {
        slash = strrchr(parent, '/');
        if (slash != NULL)
            *slash = '\0';
        const char *folder = slash == NULL ? "." : parent[0] == '\0' ? "/" : parent;
        (void)(sr_sync_folder(folder) == SR_OK);
    }
}
