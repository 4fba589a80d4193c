// SPDX-License-Identifier: Apache-2.0
// Checks where the links of a data set lead (links.h).
#include "dataio/record/links.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
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

typedef struct search {
    const char *root, *noun;
    bool output; // dangling links count
} search;

// Where a file would be made that does not exist: the nearest folder that exists, with links
// resolved, and the rest. False if that is nowhere.
static bool find_missing(const char *path, char out[PATH_MAX]) {
    char rest[PATH_MAX] = "", folder[PATH_MAX], real[PATH_MAX] = "";
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
        return false;
    for (char *slash; (slash = strrchr(folder, '/')) != NULL; *slash = '\0') {
        const char *name = path + (slash - folder);
        if (snprintf(rest, sizeof rest, "%s", name) >= (int)sizeof rest)
            return false;
        *slash = '\0';
        if (realpath(*folder ? folder : "/", real) != NULL)
            break;
    }
    if (strstr(rest, "/../") != NULL)
        return false; // a parent of what does not exist
    return snprintf(out, PATH_MAX, "%s%s", strcmp(real, "/") == 0 ? "" : real, rest) < PATH_MAX;
}

// Whether the link leads somewhere that matters; *target is then where.
static sr_status follow(const search *s, const char *path, char target[PATH_MAX], bool *leads) {
    char *end;
    *leads = realpath(path, target) != NULL;
    if (*leads || !s->output)
        return SR_OK;
    SR_TRY(sr_file_target(path, &end));
    *leads = find_missing(end, target);
    sr_free(end);
    return SR_OK;
}

static sr_status check_folder(const search *s, const char *folder, int depth);

static sr_status check_entry(const search *s, const char *path, int depth) {
    char target[PATH_MAX];
    struct stat info;
    bool leads;
    if (lstat(path, &info) != 0)
        return SR_OK;
    if (S_ISDIR(info.st_mode) && depth + 1 < SR_LINKS_DEPTH)
        return check_folder(s, path, depth + 1);
    if (!S_ISLNK(info.st_mode))
        return SR_OK;
    SR_TRY(follow(s, path, target, &leads));
    if (!leads || sr_link_allowed(s->root, target))
        return SR_OK;
    return SR_FAIL(SR_E_USAGE,
                   "%s: this symbolic link leads out of the %s, to %s; replace it by what it "
                   "points to, or allow it with " SR_LINKS_VARIABLE "=%s if you trust the "
                   "author of the link",
                   path, s->noun, target, target);
}

static sr_status check_folder(const search *s, const char *folder, int depth) {
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
        status = path ? check_entry(s, path, depth) : SR_E_MEMORY;
        sr_free(path);
    }
    (void)closedir(dir);
    return status;
}

sr_status sr_links_check(const char *path) {
    char root[PATH_MAX];
    const search s = {.root = root, .noun = "data set"};
    return sr_links_root(path, root) ? check_folder(&s, root, 0) : SR_OK;
}

sr_status sr_links_check_output(const char *path, const char *noun) {
    char root[PATH_MAX];
    const search s = {.root = root, .noun = noun, .output = true};
    return sr_links_root(path, root) ? check_folder(&s, root, 0) : SR_OK;
}
