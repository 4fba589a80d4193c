// SPDX-License-Identifier: Apache-2.0
// Reading whole files, and folders (see file.h); writing is in file_write.c. Data paths of the
// readers do not come here: they have their own descriptors and reads.
#include "kernels/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file_internal.h"
#include "kernels/base/memory.h"

// The limit of a process for the size of files also holds for memory that it shares.
static sr_status fail_large(const char *path, const char *action) {
    struct rlimit limit;
    const char *reason = strerror(EFBIG);
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SR_FAIL(SR_E_IO, "%s: %s: %s for its file system", path, action, reason);
    return SR_FAIL(SR_E_IO,
                   "%s: %s: %s: this process may make files of at most %llu KiB (ulimit -f); lift "
                   "the limit with 'ulimit -f unlimited' and start again",
                   path, action, reason, (unsigned long long)limit.rlim_cur >> 10);
}

sr_status sr_file_fail(const char *path, const char *action, int error) {
    if (error == ENOENT || error == ENOTDIR)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s: %s", path, action, strerror(error));
    if (error == ENOSPC || error == EDQUOT)
        return SR_FAIL(SR_E_NO_SPACE, "%s: %s: %s; free space on its file system and try again",
                       path, action, strerror(error));
    if (error == EFBIG)
        return fail_large(path, action);
    return SR_FAIL(SR_E_IO, "%s: %s: %s", path, action, strerror(error));
}

int sr_file_open_retrying(const char *path, int flags, mode_t mode) {
    int fd;
    do
        fd = open(path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

// Reads to the end: files of /proc say that they have 0 bytes, and files may grow meanwhile.
static sr_status read_all(int fd, const char *path, size_t expected, size_t max_bytes, void **data,
                          size_t *bytes) {
    void *buffer = NULL;
    size_t capacity = 0, used = 0;
    sr_status status;
    for (;;) {
        size_t need = used == 0 ? expected + 2 : used + 2; // one byte to find the end, one for zero
        SR_TRY_GOTO(sr_grow(&buffer, &capacity, need, 1, path), out);
        ssize_t n = read(fd, (char *)buffer + used, capacity - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = sr_file_fail(path, "cannot read", errno);
            goto out;
        }
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > max_bytes) {
            status = SR_FAIL(SR_E_LIMIT, "%s: larger than the %zu bytes allowed here; wrong file?",
                             path, max_bytes);
            goto out;
        }
    }
    ((char *)buffer)[used] = '\0';
    *data = buffer;
    *bytes = used;
    return SR_OK;
out:
    sr_free(buffer);
    return status;
}

// What an open file may be read as whole: its bytes as far as they are known.
static sr_status check_kind(int fd, const char *path, size_t max_bytes, size_t *expected) {
    struct stat info;
    *expected = 0;
    if (fstat(fd, &info) != 0)
        return sr_file_fail(path, "cannot stat", errno);
    if (S_ISDIR(info.st_mode))
        return SR_OK; // reading it fails
    if (!S_ISREG(info.st_mode))
        return SR_FAIL(SR_E_IO,
                       "%s: a pipe or a device, which may never end; write its content to a file "
                       "and name that",
                       path);
    if ((uint64_t)info.st_size > max_bytes)
        return SR_FAIL(SR_E_LIMIT, "%s: %lld bytes, more than the %zu allowed here; wrong file?",
                       path, (long long)info.st_size, max_bytes);
    *expected = (size_t)info.st_size;
    return SR_OK;
}

sr_status sr_file_read(const char *path, size_t max_bytes, void **data, size_t *bytes) {
    size_t expected;
    int fd = sr_file_open_retrying(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return sr_file_fail(path, "cannot open", errno);
    sr_status status = check_kind(fd, path, max_bytes, &expected);
    if (status == SR_OK)
        status = read_all(fd, path, expected, max_bytes, data, bytes);
    (void)close(fd);
    return status;
}

sr_status sr_file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sr_file_fail(path, "cannot read", errno);
        if (n == 0)
            return SR_FAIL(SR_E_DATA, "%s: ends at byte %llu, %zu bytes wanted at %llu; truncated?",
                           path, (unsigned long long)(offset + done), bytes,
                           (unsigned long long)offset);
        done += (size_t)n;
    }
    return SR_OK;
}

char *sr_file_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return sr_strdup(".");
    char *folder = sr_strdup(path);
    if (folder != NULL)
        folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

bool sr_file_is_temporary(const char *name) {
    return strstr(name, SR_TEMPORARY_MARK) != NULL;
}

void sr_remove_temporary_files(const char *folder) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (sr_file_is_temporary(entry->d_name))
            (void)unlinkat(dirfd(dir), entry->d_name, 0); // harmless where it stays
    (void)closedir(dir);
}

static sr_status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0)
        return SR_OK;
    int error = errno;
    if (error == EEXIST && sr_path_is_folder(path))
        return SR_OK;
    char *target = NULL; // of a link that leads nowhere yet
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
    // EINVAL: a file system (some network ones) that has nothing to sync for a folder.
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

bool sr_path_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool sr_path_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool sr_path_is_stream(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

char *sr_path_join(const char *folder, const char *name) {
    size_t n = strlen(folder), m = strlen(name);
    bool slash = n > 0 && folder[n - 1] != '/';
    char *path = sr_alloc(n + slash + m + 1, "a path");
    if (path == NULL)
        return NULL;
    memcpy(path, folder, n);
    if (slash)
        path[n] = '/';
    memcpy(path + n + slash, name, m + 1);
    return path;
}
