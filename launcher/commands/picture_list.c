// SPDX-License-Identifier: Apache-2.0
// Collecting pictures (picture_list.h).
#include "launcher/commands/picture_list.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dataio/image/picture.h"
#include "kernels/base/file.h"

static sr_status add(sr_picture_list *list, sr_arena *arena, const char *path) {
    char *copy = sr_arena_strdup(arena, path);
    if (!copy)
        return SR_E_MEMORY;
    SR_TRY(sr_grow(&list->items, &list->capacity, list->count + 1, sizeof copy, "pictures"));
    ((char **)list->items)[list->count++] = copy;
    return SR_OK;
}

static int is_shown(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static sr_status add_folder(sr_picture_list *list, sr_arena *arena, const char *folder);

static sr_status add_entry(sr_picture_list *list, sr_arena *arena, const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0)
        return SR_OK; // removed since the folder was listed
    if (S_ISDIR(info.st_mode))
        return add_folder(list, arena, path);
    return sr_picture_named(path) && !sr_path_is_folder(path) ? add(list, arena, path) : SR_OK;
}

static sr_status add_folder(sr_picture_list *list, sr_arena *arena, const char *folder) {
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_shown, alphasort);
    if (count < 0)
        return sr_file_fail(folder, "cannot be listed", errno);
    sr_status status = SR_OK;
    for (int i = 0; i < count; i++) {
        char *path = status == SR_OK ? sr_path_join(folder, entries[i]->d_name) : NULL;
        if (status == SR_OK)
            status = path ? add_entry(list, arena, path) : SR_E_MEMORY;
        sr_free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static sr_status add_lines(sr_picture_list *list, sr_arena *arena) {
    char *line = NULL;
    size_t capacity = 0;
    sr_status status = SR_OK;
    while (status == SR_OK && getline(&line, &capacity, stdin) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0')
            status = add(list, arena, line);
    }
    free(line);
    return status;
}

sr_status sr_picture_list_add(sr_picture_list *list, sr_arena *arena, const char *argument) {
    const size_t before = list->count;
    if (strcmp(argument, "-") == 0)
        return add_lines(list, arena);
    if (!sr_path_is_folder(argument))
        return add(list, arena, argument);
    SR_TRY(add_folder(list, arena, argument));
    return list->count > before
               ? SR_OK
               : SR_FAIL(SR_E_NOT_FOUND, "%s: no pictures in this folder", argument);
}

const char *sr_picture_list_get(const sr_picture_list *list, size_t index) {
    return ((char *const *)list->items)[index];
}

void sr_picture_list_release(sr_picture_list *list) {
    sr_free(list->items);
    *list = (sr_picture_list){0};
}
