// SPDX-License-Identifier: Apache-2.0
// Whole files and files that appear at once (see file.h).
//
// The order write, fsync, rename, fsync of the folder is what POSIX file systems need for "the old
// file or the new one, never a mixture" across a power cut (Pillai et al., OSDI'14). Data paths of
// the readers do not come here: they have their own descriptors and reads.
#include "kernels/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/memory.h"
#include "kernels/base/text.h"

#define TEMPORARY_MARK ".tmp-"

sr_status sr_file_fail(const char *path, const char *action, int error) {
    if (error == ENOENT || error == ENOTDIR)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s: %s", path, action, strerror(error));
    if (error == ENOSPC || error == EDQUOT)
        return SR_FAIL(SR_E_NO_SPACE, "%s: %s: %s; free space on its file system and try again",
                       path, action, strerror(error));
    if (error == EFBIG)
        return SR_FAIL(SR_E_IO, "%s: %s: %s; see ulimit -f", path, action, strerror(error));
    return SR_FAIL(SR_E_IO, "%s: %s: %s", path, action, strerror(error));
}

static int open_retrying(const char *path, int flags, mode_t mode) {
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

sr_status sr_file_read(const char *path, size_t max_bytes, void **data, size_t *bytes) {
    int fd = open_retrying(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return sr_file_fail(path, "cannot open", errno);
    struct stat info;
    sr_status status;
    if (fstat(fd, &info) != 0)
        status = sr_file_fail(path, "cannot stat", errno);
    else if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > max_bytes)
        status = SR_FAIL(SR_E_LIMIT, "%s: %lld bytes, more than the %zu allowed here; wrong file?",
                         path, (long long)info.st_size, max_bytes);
    else
        status = read_all(fd, path, S_ISREG(info.st_mode) ? (size_t)info.st_size : 0, max_bytes,
                          data, bytes);
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

sr_status sr_atomic_open(sr_atomic_file *file, const char *path) {
    static atomic_uint counter;
    *file = (sr_atomic_file){.fd = -1};
    sr_text name;
    sr_text_init(&name);
    sr_text_add(&name, "%s" TEMPORARY_MARK "%ld-%u", path, (long)getpid(),
                atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed));
    sr_status status = sr_text_check(&name);
    if (status == SR_OK) {
        file->path = sr_strdup(path);
        file->temporary = file->path ? sr_strdup(name.data) : NULL;
        if (file->temporary == NULL)
            status = SR_E_MEMORY;
    }
    sr_text_release(&name);
    if (status == SR_OK) {
        // O_TRUNC, not O_EXCL: a dead process with our number may have left this name behind.
        file->fd = open_retrying(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (file->fd < 0)
            status = sr_file_fail(file->temporary, "cannot create", errno);
    }
    if (status != SR_OK)
        sr_atomic_abort(file);
    return status;
}

sr_status sr_file_write(int fd, const char *path, const void *data, size_t bytes) {
    const char *next = data;
    while (bytes > 0) {
        ssize_t n = write(fd, next, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sr_file_fail(path, "cannot write", errno);
        next += n;
        bytes -= (size_t)n;
    }
    return SR_OK;
}

sr_status sr_atomic_write(sr_atomic_file *file, const void *data, size_t bytes) {
    SR_TRY(sr_file_write(file->fd, file->temporary, data, bytes));
    file->bytes += (uint64_t)bytes;
    return SR_OK;
}

sr_status sr_atomic_write_at(sr_atomic_file *file, uint64_t offset, const void *data,
                             size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n =
            pwrite(file->fd, (const char *)data + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sr_file_fail(file->temporary, "cannot write", errno);
        done += (size_t)n;
    }
    return SR_OK;
}

// The folder part of a path ("." without a slash), in new memory.
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return sr_strdup(".");
    char *folder = sr_strdup(path);
    if (folder != NULL)
        folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

sr_status sr_atomic_commit(sr_atomic_file *file) {
    if (fsync(file->fd) != 0)
        return sr_file_fail(file->temporary, "cannot fsync", errno);
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0 && errno != EINTR)
        return sr_file_fail(file->temporary, "cannot close", errno);
    char *folder = folder_of(file->path);
    if (folder == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (rename(file->temporary, file->path) != 0)
        status = sr_file_fail(file->path, "cannot rename the new file into place", errno);
    else {
        sr_free(file->temporary);
        file->temporary = NULL; // nothing to remove any more
        status = sr_sync_folder(folder);
    }
    sr_free(folder);
    return status;
}

void sr_atomic_abort(sr_atomic_file *file) {
    if (file->fd >= 0)
        (void)close(file->fd);
    if (file->temporary != NULL)
        (void)unlink(file->temporary);
    sr_free(file->path);
    sr_free(file->temporary);
    *file = (sr_atomic_file){.fd = -1};
}

sr_status sr_file_write_atomic(const char *path, const void *data, size_t bytes) {
    sr_atomic_file file;
    SR_TRY(sr_atomic_open(&file, path));
    sr_status status = sr_atomic_write(&file, data, bytes);
    if (status == SR_OK)
        status = sr_atomic_commit(&file);
    sr_atomic_abort(&file);
    return status;
}

bool sr_file_is_temporary(const char *name) {
    return strstr(name, TEMPORARY_MARK) != NULL;
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

sr_status sr_link_atomic(const char *path, const char *target) {
    sr_text name;
    sr_text_init(&name);
    sr_text_add(&name, "%s" TEMPORARY_MARK "%ld", path, (long)getpid());
    sr_status status = sr_text_check(&name);
    char *folder = folder_of(path);
    if (folder == NULL)
        status = SR_E_MEMORY;
    if (status == SR_OK) {
        (void)unlink(name.data); // left by a killed process of our number
        if (symlink(target, name.data) != 0 || rename(name.data, path) != 0) {
            status = sr_file_fail(path, "cannot be linked", errno);
            (void)unlink(name.data);
        } else {
            status = sr_sync_folder(folder);
        }
    }
    sr_free(folder);
    sr_text_release(&name);
    return status;
}

// The end of the last whole line.
static sr_status end_of_lines(int fd, const char *path, off_t size, off_t *end) {
    char block[4096];
    for (*end = size; *end > 0;) {
        size_t bytes = *end < (off_t)sizeof block ? (size_t)*end : sizeof block;
        SR_TRY(sr_file_read_at(fd, path, (uint64_t)*end - bytes, block, bytes));
        const char *newline = memrchr(block, '\n', bytes);
        if (newline != NULL) {
            *end += newline + 1 - (block + bytes);
            return SR_OK;
        }
        *end -= (off_t)bytes;
    }
    return SR_OK;
}

static sr_status cut_torn_line(const char *path) {
    struct stat info;
    off_t end = 0;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return SR_OK; // nothing there yet, or a pipe
    int fd = open_retrying(path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return sr_file_fail(path, "cannot open", errno);
    sr_status status = end_of_lines(fd, path, info.st_size, &end);
    if (status == SR_OK && end < info.st_size && ftruncate(fd, end) != 0)
        status = sr_file_fail(path, "cannot cut off a torn line", errno);
    (void)close(fd);
    return status;
}

sr_status sr_file_open_lines(const char *path, int *fd) {
    SR_TRY(cut_torn_line(path));
    int opened = open_retrying(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (opened < 0)
        return sr_file_fail(path, "cannot open", errno);
    *fd = opened;
    return SR_OK;
}

sr_status sr_file_add_line(int fd, const char *path, const void *line, size_t bytes) {
    struct stat before;
    bool known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    sr_status status = sr_file_write(fd, path, line, bytes);
    if (status != SR_OK && known && ftruncate(fd, before.st_size) != 0)
        sr_error_prefix("a part of a line stays");
    return status;
}

static sr_status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0)
        return SR_OK;
    int error = errno;
    if (error == EEXIST && sr_path_is_folder(path))
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

sr_status sr_sync_folder(const char *path) {
    int fd = open_retrying(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
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
