// SPDX-License-Identifier: Apache-2.0
// All code that writes files (see file.h); tests/check_layers.py forbids it elsewhere.
//
// The order write, fsync, rename, fsync of the folder is what POSIX file systems need for "the old
// file or the new one, never a mixture" across a power cut (Pillai et al., OSDI'14). A rename
// replaces whatever has the name, so it is only used for regular files: a device or a FIFO is
// written in place, and for a symbolic link its target is replaced (file_link.c).
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/file_internal.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

#define MOST_NAMES 1000
#define PERMISSIONS 0777
#define READER_WAIT_NS (60 * SR_NS_PER_S) // for a reader of a FIFO
#define READER_POLL_NS (20 * SR_NS_PER_MS)

// A FIFO can be opened once it has a reader. O_NONBLOCK is set only while opening.
static sr_status open_in_place(const char *path, int flags, int *out) {
    const int64_t end = sr_clock_ns() + READER_WAIT_NS;
    struct stat info;
    int fd;
    flags |= O_CLOEXEC | O_NOCTTY;
    while ((fd = sr_file_open_retrying(path, flags | O_NONBLOCK, 0666)) < 0 && errno == ENXIO &&
           stat(path, &info) == 0 && S_ISFIFO(info.st_mode)) {
        if (sr_clock_ns() > end)
            return SR_FAIL(SR_E_TIMEOUT,
                           "%s: no process has opened this FIFO for reading within %d s", path,
                           (int)(READER_WAIT_NS / SR_NS_PER_S));
        sr_clock_sleep_ns(READER_POLL_NS);
    }
    if (fd < 0)
        return sr_file_fail(path, "cannot open", errno);
    if (fcntl(fd, F_SETFL, flags & ~(O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY)) != 0) {
        sr_status status = sr_file_fail(path, "cannot open", errno);
        (void)close(fd);
        return status;
    }
    *out = fd;
    return SR_OK;
}

// -- files that appear at once -----------------------------------------------------------------

static const char *name_of(const sr_atomic_file *file) {
    return file->temporary != NULL ? file->temporary : file->path;
}

// A new file beside the target. A name that is taken belongs to a dead process or to somebody else,
// so another name is tried.
static sr_status make_temporary(sr_atomic_file *file, mode_t mode) {
    static atomic_uint counter;
    int error = EEXIST;
    for (int tried = 0; error == EEXIST && tried < MOST_NAMES; tried++) {
        sr_text name;
        sr_text_init(&name);
        sr_text_add(&name, "%s" SR_TEMPORARY_MARK "%ld-%u", file->target, (long)getpid(),
                    atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed));
        sr_status status = sr_text_check(&name);
        sr_free(file->temporary);
        file->temporary = status == SR_OK ? sr_strdup(name.data) : NULL;
        sr_text_release(&name);
        if (file->temporary == NULL)
            return SR_E_MEMORY;
        const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        file->fd = sr_file_open_retrying(file->temporary, flags, mode);
        error = file->fd < 0 ? errno : 0;
    }
    if (error == 0)
        return SR_OK;
    sr_free(file->temporary);
    file->temporary = NULL;
    if (error == ENOENT || error == ENOTDIR)
        return SR_FAIL(SR_E_NOT_FOUND,
                       "%s: cannot create: its folder does not exist; make it first", file->target);
    return sr_file_fail(file->target, "cannot create", error);
}

// Gives the temporary file the owner and mode of the old one, while it is still empty. False if
// that is not permitted.
static bool take_over(const sr_atomic_file *file, const struct stat *old) {
    struct stat own;
    if (fstat(file->fd, &own) != 0)
        return false;
    if ((own.st_uid != old->st_uid || own.st_gid != old->st_gid) &&
        fchown(file->fd, old->st_uid, old->st_gid) != 0)
        return false;
    return fchmod(file->fd, old->st_mode & PERMISSIONS) == 0;
}

static void drop_temporary(sr_atomic_file *file) {
    if (file->fd >= 0)
        (void)close(file->fd);
    if (file->temporary != NULL)
        (void)unlink(file->temporary);
    sr_free(file->temporary);
    file->temporary = NULL;
    file->fd = -1;
}

// A file of another user keeps its owner; if necessary it is written in place.
static sr_status open_over(sr_atomic_file *file, const struct stat *old) {
    SR_TRY(make_temporary(file, 0600));
    if (take_over(file, old))
        return SR_OK;
    drop_temporary(file);
    return open_in_place(file->target, O_WRONLY | O_TRUNC, &file->fd);
}

static sr_status open_target(sr_atomic_file *file, bool private) {
    struct stat old;
    SR_TRY(sr_file_target(file->path, &file->target));
    if (lstat(file->target, &old) != 0)
        return errno == ENOENT ? make_temporary(file, private ? 0600 : 0666)
                               : sr_file_fail(file->path, "cannot be examined", errno);
    if (S_ISDIR(old.st_mode))
        return SR_FAIL(SR_E_IO, "%s: is a folder; give the name of a file", file->path);
    if (S_ISREG(old.st_mode))
        return private ? make_temporary(file, 0600) : open_over(file, &old);
    return open_in_place(file->target, O_WRONLY | O_TRUNC, &file->fd);
}

static sr_status open_atomic(sr_atomic_file *file, const char *path, bool private) {
    *file = (sr_atomic_file){.fd = -1};
    file->path = sr_strdup(path);
    sr_status status = file->path ? open_target(file, private) : SR_E_MEMORY;
    if (status != SR_OK)
        sr_atomic_abort(file);
    return status;
}

sr_status sr_atomic_open(sr_atomic_file *file, const char *path) {
    return open_atomic(file, path, false);
}

sr_status sr_atomic_open_private(sr_atomic_file *file, const char *path) {
    return open_atomic(file, path, true);
}

// Writes all of it, however much each call takes.
static sr_status write_all(int fd, const char *path, const void *data, size_t bytes) {
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
    SR_TRY(write_all(file->fd, name_of(file), data, bytes));
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
            return sr_file_fail(name_of(file), "cannot write", errno);
        done += (size_t)n;
    }
    return SR_OK;
}

sr_status sr_file_sync(int fd, const char *path) {
    // fsync of a pipe or a device fails with one of these errors.
    if (fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP)
        return SR_OK;
    return sr_file_fail(path, "cannot fsync", errno);
}

static sr_status rename_into_place(sr_atomic_file *file) {
    char *folder = sr_file_folder(file->target);
    if (folder == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (rename(file->temporary, file->target) != 0)
        status = sr_file_fail(file->path, "cannot rename the new file into place", errno);
    else {
        sr_free(file->temporary);
        file->temporary = NULL; // it no longer exists
        status = sr_sync_folder(folder);
    }
    sr_free(folder);
    return status;
}

sr_status sr_atomic_commit(sr_atomic_file *file) {
    SR_TRY(sr_file_sync(file->fd, name_of(file)));
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0 && errno != EINTR)
        return sr_file_fail(name_of(file), "cannot close", errno);
    return file->temporary != NULL ? rename_into_place(file) : SR_OK;
}

void sr_atomic_abort(sr_atomic_file *file) {
    drop_temporary(file);
    sr_free(file->path);
    sr_free(file->target);
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

// -- files beside somebody's data --------------------------------------------------------------

// Writes and renames inside the opened folder, which nobody can exchange meanwhile.
static sr_status write_in(int folder, const char *path, const char *name, const void *data,
                          size_t bytes) {
    char temporary[NAME_MAX + 1];
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        return SR_FAIL(SR_E_EXISTS, "%s: exists and is not replaced", path);
    if (snprintf(temporary, sizeof temporary, "%s" SR_TEMPORARY_MARK "%ld", name, (long)getpid()) >=
        (int)sizeof temporary)
        return sr_file_fail(path, "cannot create", ENAMETOOLONG);
    const int fd =
        openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return sr_file_fail(path, "cannot create", errno);
    sr_status status = write_all(fd, path, data, bytes);
    if (status == SR_OK)
        status = sr_file_sync(fd, path);
    if (close(fd) != 0 && errno != EINTR && status == SR_OK)
        status = sr_file_fail(path, "cannot close", errno);
    if (status == SR_OK && renameat(folder, temporary, folder, name) != 0)
        status = sr_file_fail(path, "cannot rename the new file into place", errno);
    if (status != SR_OK)
        (void)unlinkat(folder, temporary, 0);
    return status;
}

sr_status sr_file_write_beside(const char *path, const void *data, size_t bytes) {
    struct stat info;
    const char *slash = strrchr(path, '/');
    char *name = sr_file_folder(path);
    if (name == NULL)
        return SR_E_MEMORY;
    const int folder = sr_file_open_retrying(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    sr_status status = SR_OK;
    if (folder < 0 || fstat(folder, &info) != 0)
        status = sr_file_fail(name, "cannot open the folder", errno);
    else if (info.st_uid != geteuid())
        status = SR_FAIL(SR_E_IO, "%s: the folder belongs to another user", name);
    else
        status = write_in(folder, path, slash ? slash + 1 : path, data, bytes);
    if (folder >= 0)
        (void)close(folder);
    sr_free(name);
    return status;
}

sr_status sr_file_write_quickly(const char *path, const void *data, size_t bytes) {
    int fd;
    SR_TRY(open_in_place(path, O_WRONLY | O_CREAT | O_TRUNC, &fd));
    sr_status status = write_all(fd, path, data, bytes);
    if (close(fd) != 0 && errno != EINTR && status == SR_OK)
        status = sr_file_fail(path, "cannot close", errno);
    return status;
}

// -- links and moves ---------------------------------------------------------------------------

sr_status sr_link_atomic(const char *path, const char *target) {
    struct stat old;
    if (lstat(path, &old) == 0 && !S_ISLNK(old.st_mode))
        return SR_FAIL(SR_E_EXISTS,
                       "%s: is not a symbolic link and is not replaced; remove it first", path);
    sr_text name;
    sr_text_init(&name);
    sr_text_add(&name, "%s" SR_TEMPORARY_MARK "%ld", path, (long)getpid());
    sr_status status = sr_text_check(&name);
    char *folder = sr_file_folder(path);
    if (folder == NULL)
        status = SR_E_MEMORY;
    if (status == SR_OK) {
        (void)unlink(name.data); // left by a killed process that had our pid
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

sr_status sr_move_aside(const char *path, const char *ending, char **moved) {
    char *target;
    sr_text name;
    SR_TRY(sr_file_target(path, &target));
    sr_text_init(&name);
    sr_text_add(&name, "%s%s", target, ending);
    sr_status status = sr_text_check(&name);
    char *copy = status == SR_OK ? sr_strdup(name.data) : NULL;
    if (copy == NULL)
        status = SR_E_MEMORY;
    else if (rename(target, copy) != 0)
        status = errno == ENOTEMPTY || errno == EEXIST
                     ? SR_FAIL(SR_E_EXISTS, "%s: exists already", copy)
                     : sr_file_fail(path, "cannot be set aside", errno);
    sr_text_release(&name);
    sr_free(target);
    if (status == SR_OK)
        *moved = copy;
    else
        sr_free(copy);
    return status;
}

// -- lines -------------------------------------------------------------------------------------

// The end of the last complete line.
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
        return SR_OK; // no file yet, or a pipe
    int fd = sr_file_open_retrying(path, O_RDWR | O_CLOEXEC, 0);
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
    return open_in_place(path, O_WRONLY | O_CREAT | O_APPEND, fd);
}

sr_status sr_file_add_line(int fd, const char *path, const void *line, size_t bytes) {
    struct stat before;
    bool known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    sr_status status = write_all(fd, path, line, bytes);
    if (status != SR_OK && known && ftruncate(fd, before.st_size) != 0)
        sr_error_prefix("an incomplete line could not be removed");
    return status;
}
