// SPDX-License-Identifier: Apache-2.0
// Short names of run folders (run_names.h).
#include "launcher/commands/run_names.h"

#include <stdbool.h>
#include <string.h>

// Without slashes at the end.
static const char *trim(const char *path, sr_arena *arena) {
    char *out = sr_arena_strdup(arena, path);
    for (size_t n = out ? strlen(out) : 0; n > 1 && out[n - 1] == '/'; n--)
        out[n - 1] = '\0';
    return out;
}

// The last components of a path; all of it if it has no more.
static const char *last_components(const char *path, int components) {
    const char *at = path + strlen(path);
    for (; at > path && (at[-1] != '/' || --components > 0); at--) {
    }
    return at;
}

static bool are_distinct(const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(names[i], names[j]) == 0)
                return false;
    return true;
}

sr_status sr_run_names(const char *const *paths, int count, sr_arena *arena, const char **names) {
    const char **whole = sr_arena_alloc(arena, (size_t)count * sizeof *whole);
    if (!whole)
        return SR_E_MEMORY;
    for (int i = 0; i < count; i++) {
        whole[i] = trim(paths[i], arena);
        if (!whole[i])
            return SR_E_MEMORY;
        for (int j = 0; j < i; j++)
            if (strcmp(whole[i], whole[j]) == 0)
                return SR_FAIL(SR_E_USAGE, "%s is given twice", paths[i]);
    }
    for (int components = 1; components == 1 || !are_distinct(names, count); components++)
        for (int i = 0; i < count; i++)
            names[i] = last_components(whole[i], components);
    return SR_OK;
}
