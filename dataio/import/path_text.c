// SPDX-License-Identifier: Apache-2.0
// Normalising paths (path_text.h).
#include "dataio/import/path_text.h"

#include <stdio.h>
#include <string.h>

static bool is_parent(const char *part, size_t bytes) {
    return bytes == 2 && part[0] == '.' && part[1] == '.';
}

// Where the last part of out[root..length) begins.
static size_t last_part(const char *out, size_t root, size_t length) {
    while (length > root && out[length - 1] != '/')
        length--;
    return length;
}

// Appends the parts of a path to out, whose first 'root' bytes are '/' or nothing.
static bool append(char out[SR_PATH_TEXT_MAX], size_t root, const char *path,
                   const char *separators) {
    size_t length = strlen(out);
    for (size_t n; *path != '\0'; path += n + (path[n] != '\0')) {
        n = strcspn(path, separators);
        const size_t last = last_part(out, root, length);
        if (n == 0 || (n == 1 && *path == '.'))
            continue;
        if (is_parent(path, n) && length > root && !is_parent(out + last, length - last)) {
            length = last > root ? last - 1 : root;
        } else if (!is_parent(path, n) || root == 0) {
            if (length + n + 2 > SR_PATH_TEXT_MAX)
                return false;
            if (length > root)
                out[length++] = '/';
            memcpy(out + length, path, n);
            length += n;
        }
        out[length] = '\0';
    }
    return true;
}

bool sr_path_normalise(const char *path, sr_path_separator separator, char out[SR_PATH_TEXT_MAX]) {
    const char *separators = separator == SR_PATH_ANY ? "/\\" : "/";
    const size_t root = *path != '\0' && strchr(separators, *path) != NULL;
    (void)snprintf(out, SR_PATH_TEXT_MAX, "%s", root > 0 ? "/" : "");
    const bool fits = append(out, root, path, separators);
    if (!fits)
        out[0] = '\0';
    return fits;
}

bool sr_path_below(const char *folder, const char *path, char out[SR_PATH_TEXT_MAX]) {
    if (!sr_path_normalise(folder, SR_PATH_ANY, out))
        return false;
    const bool fits = append(out, out[0] == '/', path, "/\\");
    if (!fits)
        out[0] = '\0';
    return fits;
}

const char *sr_path_inside(const char *path) {
    const size_t drive = strcspn(path, ":/");
    if (drive == 1 && path[1] == ':')
        path += 2;
    while (*path == '/' || strncmp(path, "../", 3) == 0)
        path += *path == '/' ? 1 : 3;
    return strcmp(path, "..") == 0 ? path + 2 : path;
}
