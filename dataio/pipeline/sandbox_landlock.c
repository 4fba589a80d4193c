// SPDX-License-Identifier: Apache-2.0
// Landlock: a process without rights on files but those to read one data set.
//
// The kernel knows the interface by a version; what an older one does not know is left out, as the
// filter of system calls stands behind it. The structs are written down here because the headers of
// a distribution are older than the kernels that its programs run on. glibc has no wrappers.
// Source: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h of Linux.
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

// The same number on every processor.
#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446

#define ASK_VERSION 1u
#define RULE_PATH_BENEATH 1
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)

// Rights by number of the version that brought them.
#define FS_VERSION_1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)     // 2
#define FS_TRUNCATE (UINT64_C(1) << 14)  // 3
#define NET_TCP UINT64_C(3)              // 4: bind, connect
#define FS_IOCTL_DEV (UINT64_C(1) << 15) // 5
#define SCOPE_ALL UINT64_C(3)            // 6: abstract sockets, signals

// What the ruleset is about: all that it names is forbidden where no rule allows it.
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

// What an open descriptor stands for lies where a link of the data set may lead.
static bool is_allowed(int fd, const char *root) {
    char name[64], target[PATH_MAX];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(name, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    return sr_link_allowed(root, target);
}

// Allows to read what 'name' (in folder 'at') is or links to: a file, or a folder and all beneath
// it. One that is not there needs no rule, and one that leads where no link of the data set in
// 'root' may (NULL: anything) gets none.
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

// Rights go by where a file lies, so what a folder links to needs its own.
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

// A file, or a folder with what its links lead to.
static sr_status allow_dataset(int set, const char *path) {
    char root[PATH_MAX];
    if (!sr_links_root(path, root))
        return allow(set, AT_FDCWD, path, NULL);
    SR_TRY(allow(set, AT_FDCWD, root, NULL));
    return allow_links(set, root, root, 0);
}

sr_status sr_sandbox_landlock(int version, sr_sandbox_rights rights, const char *path) {
    const ruleset rules = rules_of(version);
    // An older kernel takes the longer struct as long as what it does not know is zero.
    const int set = (int)syscall(CREATE_RULESET, &rules, sizeof rules, 0u);
    if (set < 0)
        return SR_FAIL(SR_E_SYSTEM, "Landlock: cannot make rules: %s", strerror(errno));
    sr_status status = rights == SR_SANDBOX_READ ? allow_dataset(set, path) : SR_OK;
    if (status == SR_OK && syscall(RESTRICT_SELF, set, 0u) != 0)
        status = SR_FAIL(SR_E_SYSTEM, "Landlock: cannot enforce the rules: %s", strerror(errno));
    (void)close(set);
    return status;
}
