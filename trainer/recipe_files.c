// SPDX-License-Identifier: Apache-2.0
// Where the shipped recipes lie.
//
// SERRIED_RECIPES where it is set; else the first of these folders that exists, seen from the
// library and then from the command, so that a build tree and an installed tree work wherever they
// were moved to: recipes (build tree: a link to the sources'), ../share/serried/recipes,
// ../../share/serried/recipes (library in lib/x86_64-linux-gnu). No path is compiled in.
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "trainer/recipe_internal.h"

#define MAX_FOLDERS 16

typedef struct folders {
    const char *path[MAX_FOLDERS];
    int count;
} folders;

static char *join(sr_arena *arena, const char *folder, size_t length, const char *rest) {
    size_t bytes = length + strlen(rest) + 2;
    char *path = sr_arena_alloc(arena, bytes);
    if (path)
        snprintf(path, bytes, "%.*s/%s", (int)length, folder, rest);
    return path;
}

static char *copy_part(sr_arena *arena, const char *text, size_t length) {
    char *copy = sr_arena_alloc(arena, length + 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

static bool add_seen_from(sr_arena *arena, const char *file, folders *out) {
    static const char *const places[] = {"recipes", "../share/serried/recipes",
                                         "../../share/serried/recipes"};
    char real[PATH_MAX];
    if (!realpath(file, real))
        return false;
    const char *slash = strrchr(real, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        char *path = join(arena, real, (size_t)(slash - real), places[i]);
        if (path && sr_path_exists(path) && realpath(path, real)) {
            out->path[out->count++] = sr_arena_strdup(arena, real);
            return true;
        }
    }
    return false;
}

static void find_folders(sr_arena *arena, folders *out) {
    out->count = 0;
    const char *list = getenv("SERRIED_RECIPES");
    while (list && *list && out->count < MAX_FOLDERS) {
        size_t length = strcspn(list, ":");
        if (length > 0)
            out->path[out->count++] = copy_part(arena, list, length);
        list += length + (list[length] == ':');
    }
    if (out->count > 0)
        return;
    Dl_info library;
    static const char anchor = 0; // any address inside the library
    if (dladdr(&anchor, &library) == 0 || !add_seen_from(arena, library.dli_fname, out))
        add_seen_from(arena, "/proc/self/exe", out);
}

const char *sr_recipe_shipped(sr_arena *arena, const char *name) {
    if (strchr(name, '/') || name[0] == '.')
        return NULL;
    folders where;
    find_folders(arena, &where);
    size_t bytes = strlen(name) + 6;
    char *file = sr_arena_alloc(arena, bytes);
    if (!file)
        return NULL;
    const char *ending = strrchr(name, '.');
    bool full = ending && strcmp(ending, ".yaml") == 0;
    snprintf(file, bytes, "%s%s", name, full ? "" : ".yaml");
    for (int i = 0; i < where.count; i++) {
        char *path = where.path[i] ? join(arena, where.path[i], strlen(where.path[i]), file) : NULL;
        if (path && sr_path_exists(path))
            return path;
    }
    return NULL;
}

// The value of a top-level "about:" without parsing the rest; "" where there is none.
static const char *about_of(sr_arena *arena, const char *path) {
    FILE *file = fopen(path, "re");
    const char *about = "";
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "about:", 6) != 0)
            continue;
        char *text = line + 6 + strspn(line + 6, " \t\"'");
        text[strcspn(text, "\"\r\n")] = '\0';
        char *copy = sr_arena_strdup(arena, text);
        about = copy ? copy : "";
        break;
    }
    if (file)
        (void)fclose(file);
    return about;
}

static int by_name(const void *a, const void *b) {
    const sr_recipe_listing *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static bool listed(const sr_recipe_listing *items, int count, const char *name) {
    for (int i = 0; i < count; i++) {
        if (strcmp(items[i].name, name) == 0)
            return true;
    }
    return false;
}

#define MAX_RECIPES 1000

static void list_folder(sr_arena *arena, const char *folder, sr_recipe_listing *items, int *count) {
    DIR *handle = opendir(folder);
    const struct dirent *entry;
    while (handle && *count < MAX_RECIPES && (entry = readdir(handle)) != NULL) {
        const char *ending = strrchr(entry->d_name, '.');
        if (!ending || strcmp(ending, ".yaml") != 0 || entry->d_name[0] == '.')
            continue;
        char *path = join(arena, folder, strlen(folder), entry->d_name);
        char *name = sr_arena_strdup(arena, entry->d_name);
        if (!path || !name)
            break;
        name[ending - entry->d_name] = '\0';
        if (!listed(items, *count, name))
            items[(*count)++] = (sr_recipe_listing){name, path, about_of(arena, path)};
    }
    if (handle)
        (void)closedir(handle);
}

sr_status sr_recipe_list(sr_arena *arena, sr_recipe_listing **items, int *count) {
    folders where;
    find_folders(arena, &where);
    sr_recipe_listing *list = sr_arena_alloc(arena, MAX_RECIPES * sizeof *list);
    if (!list)
        return SR_E_MEMORY;
    int n = 0;
    for (int i = 0; i < where.count; i++) {
        if (where.path[i])
            list_folder(arena, where.path[i], list, &n);
    }
    qsort(list, (size_t)n, sizeof *list, by_name);
    *items = list;
    *count = n;
    return SR_OK;
}
