// SPDX-License-Identifier: Apache-2.0
// Landlock: revokes all rights on files except to read one data set.
//
// The ABI is versioned; rights that an older kernel does not know are omitted, because the seccomp
// filter covers them. The structs are defined here because a distribution's headers may be older
// than the kernel at run time. glibc has no wrappers. Source:
// Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h of Linux.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataio/pipeline/sandbox_internal.h"
#include "dataio/record/links.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

// System call numbers, the same on every architecture.
#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446

#define ASK_VERSION 1u
#define RULE_PATH_BENEATH 1
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)

// Rights by the ABI version that introduced them.
#define FS_VERSION_1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)     // 2
#define FS_TRUNCATE (UINT64_C(1) << 14)  // 3
#define NET_TCP UINT64_C(3)              // 4: bind, connect
#define FS_IOCTL_DEV (UINT64_C(1) << 15) // 5
#define SCOPE_ALL UINT64_C(3)            // 6: abstract sockets, signals

// The rights that the ruleset handles: they are denied unless a rule allows them.
typedef struct ruleset {
    uint64_t fs, net, scope;
} ruleset;

typedef struct __attribute__((packed)) path_rule {
    uint64_t allowed;
    int32_t fd;
} path_rule;

int sr_sandbox_landlock_version(void) {
    const long version = syscall(CREATE_RULESET, NULL, (size_t)0, ASK_VERSION);
    return version > 0 ? (int)version : 0;
}

static ruleset rules_of(int version) {
    ruleset r = {.fs = FS_VERSION_1};
    r.fs |= version >= 2 ? FS_REFER : 0;
    r.fs |= version >= 3 ? FS_TRUNCATE : 0;
    r.net = version >= 4 ? NET_TCP : 0;
    r.fs |= version >= 5 ? FS_IOCTL_DEV : 0;
    r.scope = version >= 6 ? SCOPE_ALL : 0;
    return r;
}

// Whether an open descriptor refers to a path that a link of the data set may point to.
static bool is_allowed(int fd, const char *root) {
    char name[64], target[PATH_MAX];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(name, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    return sr_link_allowed(root, target);
}

// Allows reading of 'name' (in folder 'at') or its link target: a file, or a folder and everything
// beneath it. A missing file needs no rule. A target that links of the data set in 'root' must not
// point to gets none (root NULL: any target is allowed).
static sr_status allow(int set, int at, const char *name, const char *root) {
    struct stat info;
    const int fd = openat(at, name, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return SR_OK;
    if (root != NULL && !is_allowed(fd, root)) {
        (void)close(fd);
        return SR_OK;
    }
    const bool folder = fstat(fd, &info) != 0 || S_ISDIR(info.st_mode);
    const path_rule rule = {.allowed = FS_READ_FILE | (folder ? FS_READ_DIR : 0), .fd = fd};
    const long failed = syscall(ADD_RULE, set, RULE_PATH_BENEATH, &rule, 0u);
    const int error = errno;
    (void)close(fd);
    if (failed != 0)
        return SR_FAIL(SR_E_SYSTEM, "%s: Landlock: %s", name, strerror(error));
    return SR_OK;
}

static bool is_link(int at, const char *name) {
    struct stat info;
    return fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

// Rights depend on a file's location, so the target of a link needs its own rule.
static sr_status allow_links(int set, const char *root, const char *folder, int depth) {
    DIR *dir = opendir(folder);
    sr_status status = SR_OK;
    if (dir == NULL)
        return SR_OK;
    for (struct dirent *entry; status == SR_OK && (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name;
        if (is_link(dirfd(dir), name)) {
            status = allow(set, dirfd(dir), name, root);
        } else if (depth + 1 < SR_LINKS_DEPTH && name[0] != '.') {
            char *below = sr_path_join(folder, name);
            status = below ? allow_links(set, root, below, depth + 1) : SR_E_MEMORY;
            sr_free(below);
        }
    }
    (void)closedir(dir);
    return status;
}

// Allows a file, or a folder and the targets of its links.
static sr_status allow_dataset(int set, const char *path) {
    char root[PATH_MAX];
    if (!sr_links_root(path, root))
        return allow(set, AT_FDCWD, path, NULL);
    SR_TRY(allow(set, AT_FDCWD, root, NULL));
    return allow_links(set, root, root, 0);
}

sr_status sr_sandbox_landlock(int version, sr_sandbox_rights rights, const char *path) {
    const ruleset rules = rules_of(version);
    // An older kernel accepts a longer struct if the fields that it does not know are zero.
    const int set = (int)syscall(CREATE_RULESET, &rules, sizeof rules, 0u);
    if (set < 0)
        return SR_FAIL(SR_E_SYSTEM, "Landlock: cannot create a ruleset: %s", strerror(errno));
    sr_status status = rights == SR_SANDBOX_READ ? allow_dataset(set, path) : SR_OK;
    if (status == SR_OK && syscall(RESTRICT_SELF, set, 0u) != 0)
        status = SR_FAIL(SR_E_SYSTEM, "Landlock: cannot enforce the rules: %s", strerror(errno));
    (void)close(set);
    return status;
}
