// SPDX-License-Identifier: Apache-2.0
// Finds and lists the shipped recipes.
//
// They are in the folders of SERRIED_RECIPES if it is set; else in the first of these that exists,
// relative to the library and then to the command, so that a build tree and an installed tree work
// wherever they were moved to: recipes (build tree: a link to the source folder),
// ../share/serried/recipes, ../../share/serried/recipes (library in lib/x86_64-linux-gnu). No path
// is compiled in.
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "trainer/recipe/recipe_internal.h"

#define MAX_FOLDERS 16

typedef struct folders {
    const char *path[MAX_FOLDERS];
    int count;
} folders;

// FOLDER/REST, where FOLDER is the first 'length' bytes of 'folder'.
static sr_status join(sr_arena *arena, const char *folder, size_t length, const char *rest,
                      char **out) {
    size_t bytes = length + strlen(rest) + 2;
    char *path = sr_arena_alloc(arena, bytes);
    if (!path)
        return SR_E_MEMORY;
    snprintf(path, bytes, "%.*s%s%s", (int)length, folder, *rest ? "/" : "", rest);
    *out = path;
    return SR_OK;
}

static sr_status add_relative_to(sr_arena *arena, const char *file, folders *out) {
    static const char *const relative[] = {"recipes", "../share/serried/recipes",
                                           "../../share/serried/recipes"};
    char real[PATH_MAX], *path;
    if (!realpath(file, real))
        return SR_OK;
    const char *slash = strrchr(real, '/');
    for (size_t i = 0; slash && i < sizeof relative / sizeof *relative; i++) {
        SR_TRY(join(arena, real, (size_t)(slash - real), relative[i], &path));
        char found[PATH_MAX];
        if (!realpath(path, found))
            continue;
        out->path[out->count] = sr_arena_strdup(arena, found);
        return out->path[out->count++] ? SR_OK : SR_E_MEMORY;
    }
    return SR_OK;
}

static sr_status find_folders(sr_arena *arena, folders *out) {
    out->count = 0;
    const char *list = getenv("SERRIED_RECIPES");
    while (list && *list && out->count < MAX_FOLDERS) {
        size_t length = strcspn(list, ":");
        char *path;
        if (length > 0) {
            SR_TRY(join(arena, list, length, "", &path));
            out->path[out->count++] = path;
        }
        list += length + (list[length] == ':');
    }
    if (out->count > 0)
        return SR_OK;
    Dl_info library;
    static const char anchor = 0; // any address inside the library
    if (dladdr(&anchor, &library) != 0)
        SR_TRY(add_relative_to(arena, library.dli_fname, out));
    return out->count > 0 ? SR_OK : add_relative_to(arena, "/proc/self/exe", out);
}

sr_status sr_recipe_shipped(sr_arena *arena, const char *name, const char **out) {
    *out = NULL;
    if (strchr(name, '/') || name[0] == '.')
        return SR_OK;
    folders found;
    SR_TRY(find_folders(arena, &found));
    const char *ending = strrchr(name, '.');
    bool full = ending && strcmp(ending, ".yaml") == 0;
    size_t bytes = strlen(name) + 6;
    char *file = sr_arena_alloc(arena, bytes);
    if (!file)
        return SR_E_MEMORY;
    snprintf(file, bytes, "%s%s", name, full ? "" : ".yaml");
    for (int i = 0; i < found.count && !*out; i++) {
        char *path;
        SR_TRY(join(arena, found.path[i], strlen(found.path[i]), file, &path));
        if (sr_path_exists(path))
            *out = path;
    }
    return SR_OK;
}

// The text of a line without blanks and, if it has them on both ends, quotation marks.
static const char *unquoted(char *text) {
    text += strspn(text, " \t");
    size_t length = strcspn(text, "\r\n");
    while (length > 0 && strchr(" \t", text[length - 1]))
        length--;
    const bool quoted = length > 1 && strchr("\"'", text[0]) && text[length - 1] == text[0];
    text[quoted ? length - 1 : length] = '\0';
    return quoted ? text + 1 : text;
}

// The value of the top-level key "about", found without parsing the file; "" if there is none.
static sr_status about_of(sr_arena *arena, const char *path, const char **out) {
    FILE *file = fopen(path, "re");
    char line[512];
    sr_status status = SR_OK;
    *out = "";
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "about:", 6) != 0)
            continue;
        *out = sr_arena_strdup(arena, unquoted(line + 6));
        status = *out ? SR_OK : SR_E_MEMORY;
        break;
    }
    if (file)
        (void)fclose(file);
    return status;
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

static sr_status add_recipe(sr_arena *arena, const char *folder, const char *file,
                            sr_recipe_listing *items, int *count) {
    const char *ending = strrchr(file, '.');
    if (!ending || strcmp(ending, ".yaml") != 0 || file[0] == '.')
        return SR_OK;
    char *name = sr_arena_strdup(arena, file), *path;
    if (!name)
        return SR_E_MEMORY;
    name[ending - file] = '\0';
    if (listed(items, *count, name))
        return SR_OK;
    SR_TRY(join(arena, folder, strlen(folder), file, &path));
    sr_recipe_listing *item = &items[*count];
    *item = (sr_recipe_listing){name, path, ""};
    SR_TRY(about_of(arena, path, &item->about));
    (*count)++;
    return SR_OK;
}

static sr_status list_folder(sr_arena *arena, const char *folder, sr_recipe_listing *items,
                             int *count) {
    DIR *handle = opendir(folder);
    const struct dirent *entry;
    sr_status status = SR_OK;
    while (status == SR_OK && handle && *count < MAX_RECIPES && (entry = readdir(handle)) != NULL)
        status = add_recipe(arena, folder, entry->d_name, items, count);
    if (handle)
        (void)closedir(handle);
    return status;
}

sr_status sr_recipe_list(sr_arena *arena, sr_recipe_listing **items, int *count) {
    folders found;
    SR_TRY(find_folders(arena, &found));
    sr_recipe_listing *list = sr_arena_alloc(arena, MAX_RECIPES * sizeof *list);
    if (!list)
        return SR_E_MEMORY;
    int n = 0;
    for (int i = 0; i < found.count; i++)
        SR_TRY(list_folder(arena, found.path[i], list, &n));
    qsort(list, (size_t)n, sizeof *list, by_name);
    *items = list;
    *count = n;
    return SR_OK;
}
