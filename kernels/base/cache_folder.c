// SPDX-License-Identifier: Apache-2.0
// The user's cache folder (cache_folder.h).
#include "kernels/base/cache_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

sr_status sr_cache_folder_find(char **out) {
    const char *own = getenv("SERRIED_CACHE"), *caches = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    *out = NULL;
    if (own && *own)
        *out = sr_strdup(own);
    else if (caches && *caches == '/')
        *out = sr_path_join(caches, "serried");
    else if (home && *home == '/')
        *out = sr_path_join(home, ".cache/serried");
    else
        return SR_OK;
    return *out ? SR_OK : SR_E_MEMORY;
}

sr_status sr_cache_check_owner(const char *path, const struct stat *info, bool folder) {
    if (folder ? !S_ISDIR(info->st_mode) : !S_ISREG(info->st_mode))
        return SR_FAIL(SR_E_DATA, "%s: is not a %s", path, folder ? "folder" : "regular file");
    if (info->st_uid != geteuid())
        return SR_FAIL(SR_E_DATA, "%s: belongs to another user", path);
    if (info->st_mode & OTHERS_WRITE)
        return SR_FAIL(SR_E_DATA, "%s: others may write it; make it usable with chmod go-w", path);
    return SR_OK;
}

sr_status sr_cache_folder_make(const char *folder) {
    struct stat info;
    char *parent = sr_strdup(folder);
    char *slash = parent ? strrchr(parent, '/') : NULL;
    sr_status status = parent ? SR_OK : SR_E_MEMORY;
    if (slash && slash != parent) {
        *slash = 0;
        status = sr_make_folders(parent);
    }
    sr_free(parent);
    SR_TRY(status);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return sr_file_fail(folder, "cannot be made", errno);
    if (stat(folder, &info) != 0)
        return sr_file_fail(folder, "cannot be examined", errno);
    return sr_cache_check_owner(folder, &info, true);
}

static sr_status read_open(int fd, const char *path, size_t max_bytes, void **data, size_t *bytes) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return sr_file_fail(path, "cannot be examined", errno);
    SR_TRY(sr_cache_check_owner(path, &info, false));
    if ((size_t)info.st_size > max_bytes)
        return SR_FAIL(SR_E_LIMIT, "%s: is too large", path);
    char *content = sr_alloc((size_t)info.st_size + 1, "cached file");
    if (content == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_read_at(fd, path, 0, content, (size_t)info.st_size);
    if (status != SR_OK) {
        sr_free(content);
        return status;
    }
    *data = content;
    *bytes = (size_t)info.st_size;
    return SR_OK;
}

// The path of a file of the cache folder, and the folder, in new memory.
static sr_status find_file(const char *name, char **folder, char **path) {
    SR_TRY(sr_cache_folder_find(folder));
    if (*folder == NULL) {
        (void)SR_FAIL(SR_E_NOT_FOUND, "no cache folder: neither SERRIED_CACHE, XDG_CACHE_HOME nor "
                                      "HOME names one");
        return SR_E_NOT_FOUND;
    }
    *path = sr_path_join(*folder, name);
    if (*path == NULL)
        sr_free(*folder);
    return *path ? SR_OK : SR_E_MEMORY;
}

sr_status sr_cache_read(const char *name, size_t max_bytes, void **data, size_t *bytes) {
    char *folder = NULL, *path = NULL;
    struct stat info;
    SR_TRY(find_file(name, &folder, &path));
    int fd = -1;
    sr_status status = SR_OK;
    if (stat(folder, &info) != 0)
        status = sr_file_fail(folder, "cannot be examined", errno);
    else
        status = sr_cache_check_owner(folder, &info, true);
    if (status == SR_OK && (fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) < 0)
        status = sr_file_fail(path, "cannot be opened", errno);
    if (status == SR_OK)
        status = read_open(fd, path, max_bytes, data, bytes);
    if (fd >= 0)
        (void)close(fd);
    sr_free(folder);
    sr_free(path);
    return status;
}

sr_status sr_cache_write(const char *name, const void *data, size_t bytes) {
    char *folder = NULL, *path = NULL;
    sr_atomic_file file = {.fd = -1};
    SR_TRY(find_file(name, &folder, &path));
    sr_status status = sr_cache_folder_make(folder);
    if (status == SR_OK)
        status = sr_atomic_open_private(&file, path);
    if (status == SR_OK)
        status = sr_atomic_write(&file, data, bytes);
    if (status == SR_OK)
        status = sr_atomic_commit(&file);
    sr_atomic_abort(&file);
    sr_free(folder);
    sr_free(path);
    return status;
}
