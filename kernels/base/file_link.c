// SPDX-License-Identifier: Apache-2.0
// Where a path leads: symbolic links in its last component (see file.h).
//
// Links are followed one by one and not by realpath, which does not support targets that do not
// exist yet, nor the rule about other users' links in folders such as /tmp (the kernel's
// fs.protected_symlinks).
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/file_internal.h"
#include "kernels/base/memory.h"

#define MOST_LINKS 40 // as the kernel's own limit

// In a sticky, world-writable folder, another user's link may be a trap.
static sr_status check_link(const char *path, const struct stat *link) {
    struct stat folder;
    char *name = sr_file_folder(path);
    if (name == NULL)
        return SR_E_MEMORY;
    const bool known = stat(name, &folder) == 0;
    sr_free(name);
    const mode_t shared = S_ISVTX | S_IWOTH;
    if (!known || (folder.st_mode & shared) != shared || link->st_uid == geteuid() ||
        link->st_uid == folder.st_uid)
        return SR_OK;
    return SR_FAIL(SR_E_IO,
                   "%s: a symbolic link of user %u in a world-writable folder is not "
                   "followed; give its target instead, or remove the link",
                   path, (unsigned)link->st_uid);
}

// The target of one link, in new memory; NULL if the path is not a link, or is a link of /proc,
// which denotes an open file and not a path.
static sr_status read_link(const char *path, char **out) {
    struct stat info;
    struct statfs system;
    char target[PATH_MAX];
    ssize_t length = 0;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    *out = NULL;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISLNK(info.st_mode) ||
        (fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC)) {
        if (fd >= 0)
            (void)close(fd);
        return SR_OK; // an error of open appears again when the file is written
    }
    sr_status status = check_link(path, &info);
    if (status == SR_OK && (length = readlinkat(fd, "", target, sizeof target - 1)) < 0)
        status = sr_file_fail(path, "cannot read the link", errno);
    (void)close(fd);
    SR_TRY(status);
    target[length] = '\0';
    char *folder = target[0] == '/' ? sr_strdup("") : sr_file_folder(path);
    *out = folder == NULL     ? NULL
           : target[0] == '/' ? sr_strdup(target)
                              : sr_path_join(folder, target);
    sr_free(folder);
    return *out == NULL ? SR_E_MEMORY : SR_OK;
}

sr_status sr_file_target(const char *path, char **out) {
    char *at = sr_strdup(path), *next = NULL;
    sr_status status = at ? SR_OK : SR_E_MEMORY;
    for (int hop = 0; status == SR_OK; hop++) {
        status =
            hop < MOST_LINKS ? read_link(at, &next) : sr_file_fail(path, "cannot be opened", ELOOP);
        if (status != SR_OK || next == NULL)
            break;
        sr_free(at);
        at = next;
    }
    if (status == SR_OK)
        *out = at;
    else
        sr_free(at);
    return status;
}
