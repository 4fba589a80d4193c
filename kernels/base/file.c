// SPDX-License-Identifier: Apache-2.0
// Reading whole files, paths, and errors of both (see file.h). Writing is in file_write.c, folders
// are in folder.c, symbolic links in file_link.c. The data readers do not use this file: they have
// their own descriptors and reads.
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file_internal.h"
#include "kernels/base/memory.h"

// The limit of a process on file sizes also applies to shared memory.
static sr_status fail_large(const char *path, const char *action) {
    struct rlimit limit;
    const char *reason = strerror(EFBIG);
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SR_FAIL(SR_E_IO, "%s: %s: %s for its file system", path, action, reason);
    return SR_FAIL(SR_E_IO,
                   "%s: %s: %s: the limit of this process on file sizes is %llu KiB (ulimit -f); "
                   "raise it with 'ulimit -f unlimited' and start again",
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

// Reads to the end: files of /proc report a size of 0 bytes, and files may grow meanwhile.
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
            status =
                SR_FAIL(SR_E_LIMIT, "%s: larger than the limit of %zu bytes; is it the right file?",
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

// Checks that an open file can be read as a whole; *expected is its size as far as it is known.
static sr_status check_kind(int fd, const char *path, size_t max_bytes, size_t *expected) {
    struct stat info;
    *expected = 0;
    if (fstat(fd, &info) != 0)
        return sr_file_fail(path, "cannot stat", errno);
    if (S_ISDIR(info.st_mode))
        return SR_OK; // reading it fails
    if (!S_ISREG(info.st_mode)) {
        return SR_FAIL(
            SR_E_IO,
            "%s: a pipe or a device, which may never end; copy its content to a file and "
            "use that",
            path);
    }
    if ((uint64_t)info.st_size > max_bytes)
        return SR_FAIL(SR_E_LIMIT, "%s: %lld bytes, over the limit of %zu; is it the right file?",
                       path, (long long)info.st_size, max_bytes);
    *expected = (size_t)info.st_size;
    return SR_OK;
}

static sr_status read_opened(int fd, const char *path, size_t max_bytes, void **data,
                             size_t *bytes) {
    size_t expected;
    if (fd < 0)
        return sr_file_fail(path, "cannot open", errno);
    sr_status status = check_kind(fd, path, max_bytes, &expected);
    if (status == SR_OK)
        status = read_all(fd, path, expected, max_bytes, data, bytes);
    (void)close(fd);
    return status;
}

sr_status sr_file_read(const char *path, size_t max_bytes, void **data, size_t *bytes) {
    return read_opened(sr_file_open_retrying(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0), path,
                       max_bytes, data, bytes);
}

sr_status sr_file_read_in(int folder, const char *name, const char *path, size_t max_bytes,
                          void **data, size_t *bytes) {
    int fd;
    do
        fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    return read_opened(fd, path, max_bytes, data, bytes);
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
            return SR_FAIL(
                SR_E_DATA,
                "%s: ends at byte %llu, but %zu bytes at %llu were expected; is it truncated?",
                path, (unsigned long long)(offset + done), bytes, (unsigned long long)offset);
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
