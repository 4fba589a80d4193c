// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: simulates file systems whose locks differ from a local disk's. TEST_LOCKS
// selects:
//
//   nfs    flock is emulated by fcntl's locks: a descriptor without write access cannot be locked
//   none   no locks of any kind
//
// So the command under test can be tested for NFS where none can be mounted.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_mode(const char *wanted) {
    const char *mode = getenv("TEST_LOCKS");
    return mode && strcmp(mode, wanted) == 0;
}

int flock(int fd, int operation) {
    if (is_mode("none")) {
        errno = ENOLCK;
        return -1;
    }
    const long flags = syscall(SYS_fcntl, fd, F_GETFL, 0);
    if (is_mode("nfs") && (operation & LOCK_EX) && flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static int forward(int fd, int command, void *argument) {
    const bool lock = command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_SETLK;
    if (lock && is_mode("none")) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fcntl(int fd, int cmd, ...) {
    va_list arguments;
    va_start(arguments, cmd);
    void *argument = va_arg(arguments, void *); // a number is passed in the same register
    va_end(arguments);
    return forward(fd, cmd, argument);
}

int fcntl64(int fd, int cmd, ...) {
    va_list arguments;
    va_start(arguments, cmd);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return forward(fd, cmd, argument);
}
