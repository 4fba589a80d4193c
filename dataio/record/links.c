// SPDX-License-Identifier: Apache-2.0
// Checks where the links of a data set lead (links.h).
#include "dataio/record/links.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

static bool is_beneath(const char *path, const char *folder) {
    const size_t n = strlen(folder);
    if (n == 0 || strncmp(path, folder, n) != 0)
        return false;
    return folder[n - 1] == '/' || path[n] == '/' || path[n] == '\0';
}

static bool is_named(const char *target) {
    char word[PATH_MAX], folder[PATH_MAX];
    const char *at = getenv(SR_LINKS_VARIABLE);
    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        if (n == 0 || n >= sizeof word)
            continue;
        memcpy(word, at, n);
        word[n] = '\0';
        if (realpath(word, folder) != NULL && is_beneath(target, folder))
            return true;
    }
    return false;
}

bool sr_link_allowed(const char *root, const char *target) {
    return is_beneath(target, root) || is_named(target);
}

bool sr_links_root(const char *path, char *root) {
    return sr_path_is_folder(path) && realpath(path, root) != NULL;
}

static sr_status check_folder(const char *root, const char *folder, int depth);

static sr_status check_entry(const char *root, const char *path, int depth) {
    char target[PATH_MAX];
    struct stat info;
    if (lstat(path, &info) != 0)
        return SR_OK;
    if (S_ISDIR(info.st_mode) && depth + 1 < SR_LINKS_DEPTH)
        return check_folder(root, path, depth + 1);
    if (!S_ISLNK(info.st_mode) || realpath(path, target) == NULL || sr_link_allowed(root, target))
        return SR_OK;
    return SR_FAIL(SR_E_USAGE,
                   "%s: this symbolic link leads out of the data set, to %s; replace it by what it "
                   "points to, or allow it with " SR_LINKS_VARIABLE "=%s if you trust the "
                   "author of the link",
                   path, target, target);
}

static sr_status check_folder(const char *root, const char *folder, int depth) {
    DIR *dir = opendir(folder);
    sr_status status = SR_OK;
    if (dir == NULL)
        return SR_OK; // reported when it is read
    for (struct dirent *entry; status == SR_OK && (entry = readdir(dir)) != NULL;) {
        const unsigned char type = entry->d_type;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (type != DT_LNK && type != DT_DIR && type != DT_UNKNOWN))
            continue;
        char *path = sr_path_join(folder, entry->d_name);
        status = path ? check_entry(root, path, depth) : SR_E_MEMORY;
        sr_free(path);
    }
    (void)closedir(dir);
    return status;
}

sr_status sr_links_check(const char *path) {
    char root[PATH_MAX];
    return sr_links_root(path, root) ? check_folder(root, root, 0) : SR_OK;
}
