// SPDX-License-Identifier: Apache-2.0
// Interposed file system calls (see crash_files.h). Each performs its system call directly.
#include "tests/unit/support/crash_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

crash_control crash;

enum { FDS = 256 };
static int inode_of[FDS]; // 1 + inode of files created under the root; 0: not ours
static int inodes;

void crash_reset(void) {
    for (int i = 0; i < crash.op_count; ++i)
        free(crash.ops[i].data);
    memset(&crash, 0, sizeof crash);
    memset(inode_of, 0, sizeof inode_of);
    inodes = 0;
}

static bool inside(const char *path) {
    return crash.root != NULL && strncmp(path, crash.root, strlen(crash.root)) == 0;
}

static bool path_of(int fd, char *out, size_t bytes) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, out, bytes - 1);
    if (n <= 0)
        return false;
    out[n] = 0;
    return inside(out);
}

// Counts a call; returns true if it has to fail (errno is set).
static bool fails(void) {
    ++crash.calls;
    if (crash.kill_at == crash.calls)
        _exit(CRASH_EXIT);
    if (crash.fail_at == 0 || crash.calls < crash.fail_at ||
        (crash.calls > crash.fail_at && !crash.fail_on))
        return false;
    errno = crash.fail_errno;
    return true;
}

static crash_op *add_op(crash_kind kind, const char *path, const char *target, int inode) {
    static crash_op lost;
    if (!crash.record)
        return &lost;
    if (crash.op_count == CRASH_MAX_OPS)
        abort();
    crash_op *op = &crash.ops[crash.op_count++];
    *op = (crash_op){.kind = kind, .inode = inode};
    if (strlen(path) >= sizeof op->path || strlen(target) >= sizeof op->target)
        abort(); // a truncated path would test another file
    memcpy(op->path, path, strlen(path) + 1);
    memcpy(op->target, target, strlen(target) + 1);
    return op;
}

// The system's headers use reserved parameter names (__fd).
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list list;
        va_start(list, flags);
        mode =
            va_arg(list, mode_t); // NOLINT(clang-analyzer-valist.Uninitialized): it is initialised
        va_end(list);
    }
    bool creates = (flags & O_CREAT) != 0 && inside(path);
    if (creates && fails())
        return -1;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && fd < FDS) {
        inode_of[fd] = creates ? ++inodes : 0;
        if (creates)
            add_op(CRASH_CREATE, path, "", inodes - 1);
    }
    return fd;
}

int close(int fd) {
    if (fd >= 0 && fd < FDS)
        inode_of[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

// Records what will be written to one of our files; returns false if the call has to fail.
static bool note_write(int fd, const void *data, size_t *bytes, off_t offset) {
    bool ours = fd >= 0 && fd < FDS && inode_of[fd] > 0;
    if (ours && fails())
        return false;
    if (ours && crash.short_writes)
        *bytes = (*bytes + 1) / 2;
    if (ours && crash.record) {
        crash_op *op = add_op(CRASH_WRITE, "", "", inode_of[fd] - 1);
        op->data = malloc(*bytes);
        op->bytes = *bytes;
        op->offset = (size_t)offset;
        if (op->data == NULL)
            abort();
        memcpy(op->data, data, *bytes);
    }
    return true;
}

ssize_t write(int fd, const void *data, size_t bytes) {
    bool ours = fd >= 0 && fd < FDS && inode_of[fd] > 0;
    off_t at = ours ? lseek(fd, 0, SEEK_CUR) : 0;
    return note_write(fd, data, &bytes, at) ? syscall(SYS_write, fd, data, bytes) : -1;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    return note_write(fd, data, &bytes, offset) ? syscall(SYS_pwrite64, fd, data, bytes, offset)
                                                : -1;
}

int ftruncate(int fd, off_t length) {
    bool ours = fd >= 0 && fd < FDS && inode_of[fd] > 0;
    if (ours && fails())
        return -1;
    if (ours)
        add_op(CRASH_TRUNCATE, "", "", inode_of[fd] - 1)->bytes = (size_t)length;
    return (int)syscall(SYS_ftruncate, fd, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    bool ours = fd >= 0 && fd < FDS && inode_of[fd] > 0;
    if (ours && fails())
        return -1;
    if (ours && crash.no_space) {
        errno = ENOSPC;
        return -1;
    }
    if (ours)
        add_op(CRASH_RESERVE, "", "", inode_of[fd] - 1)->bytes = (size_t)length;
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int fsync(int fd) {
    char path[PATH_MAX];
    bool file = fd >= 0 && fd < FDS && inode_of[fd] > 0;
    bool folder = !file && path_of(fd, path, sizeof path);
    if ((file || folder) && fails())
        return -1;
    if (file)
        add_op(CRASH_SYNC_FILE, "", "", inode_of[fd] - 1);
    if (folder)
        add_op(CRASH_SYNC_FOLDER, path, "", -1);
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    if (inside(from) && fails())
        return -1;
    if (inside(from))
        add_op(CRASH_RENAME, from, to, -1);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode) {
    if (inside(path) && fails())
        return -1;
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0 && inside(path))
        add_op(CRASH_MAKE_FOLDER, path, "", -1);
    return result;
}

int symlink(const char *target, const char *path) {
    if (inside(path) && fails())
        return -1;
    if (inside(path))
        add_op(CRASH_SYMLINK, path, target, -1);
    return (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

int unlink(const char *path) {
    if (inside(path) && fails())
        return -1;
    int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result == 0 && inside(path))
        add_op(CRASH_UNLINK, path, "", -1);
    return result;
}

int unlinkat(int folder, const char *name, int flags) {
    char parent[PATH_MAX], path[2 * PATH_MAX];
    bool ours = path_of(folder, parent, sizeof parent);
    if (ours && fails())
        return -1;
    int result = (int)syscall(SYS_unlinkat, folder, name, flags);
    if (result == 0 && ours) {
        snprintf(path, sizeof path, "%s/%s", parent, name);
        add_op(CRASH_UNLINK, path, "", -1);
    }
    return result;
}

int rmdir(const char *path) {
    if (inside(path) && fails())
        return -1;
    int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    if (result == 0 && inside(path))
        add_op(CRASH_REMOVE_FOLDER, path, "", -1);
    return result;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)
