// SPDX-License-Identifier: Apache-2.0
// The table of containers, and what they share: lists of data files and of splits, folders of
// splits (container.h).
#include "dataio/record/container.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

#define CONTAINER(name) extern const sr_container sr_container_##name;
#include "dataio/record/container_list.def"
#undef CONTAINER

static const sr_container *const containers[] = {
#define CONTAINER(name) &sr_container_##name,
#include "dataio/record/container_list.def"
#undef CONTAINER
};

const sr_container *sr_container_at(size_t index) {
    return index < sizeof containers / sizeof *containers ? containers[index] : NULL;
}

const sr_container *sr_container_find(const char *path) {
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++)
        if (containers[i]->recognises(path))
            return containers[i];
    return NULL;
}

sr_status sr_data_files_grow(sr_data_files *files, sr_data_file **next) {
    void *items = files->items;
    SR_TRY(sr_grow(&items, &files->capacity, files->count + 1, sizeof *files->items, "data files"));
    files->items = items;
    *next = &files->items[files->count];
    return SR_OK;
}

void sr_data_files_release(sr_data_files *files) {
    for (size_t i = 0; i < files->count; i++)
        sr_data_file_release(&files->items[i]);
    sr_free(files->items);
    *files = (sr_data_files){0};
}

// -- splits ------------------------------------------------------------------------------------

void sr_split_list_add(sr_split_list *list, const char *split) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->names[i], split) == 0)
            return;
    if (list->count < SR_CONTAINER_MAX_SPLITS)
        (void)snprintf(list->names[list->count++], SR_SPLIT_MAX + 1, "%s", split);
}

static int rank_of(const char *split) {
    static const char *const known[] = {"train", "val", "test"};
    for (int i = 0; i < 3; i++)
        if (strcmp(split, known[i]) == 0)
            return i;
    return 3;
}

static int by_rank(const void *a, const void *b) {
    int x = rank_of(a), y = rank_of(b);
    return x != y ? x - y : strcmp(a, b);
}

void sr_split_list_sort(sr_split_list *list) {
    qsort(list->names, (size_t)list->count, sizeof list->names[0], by_rank);
}

sr_status sr_container_list_folders(const char *path, bool (*matches)(const char *),
                                    sr_split_list *out) {
    DIR *dir = opendir(path);
    if (dir == NULL)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    sr_status status = SR_OK;
    for (struct dirent *entry; status == SR_OK && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > SR_SPLIT_MAX)
            continue;
        char *folder = sr_path_join(path, entry->d_name);
        if (folder == NULL)
            status = SR_E_MEMORY;
        else if (matches(folder))
            sr_split_list_add(out, entry->d_name);
        sr_free(folder);
    }
    (void)closedir(dir);
    return status;
}

bool sr_container_has_folder(const char *path, bool (*matches)(const char *)) {
    sr_split_list list = {0};
    if (!sr_path_is_folder(path))
        return false;
    return matches(path) ||
           (sr_container_list_folders(path, matches, &list) == SR_OK && list.count > 0);
}

sr_status sr_container_folder(const char *path, const char *split, bool (*matches)(const char *),
                              char **out, bool *own) {
    *own = matches(path);
    char *folder = *own ? sr_strdup(path) : sr_path_join(path, split ? split : "train");
    if (folder == NULL)
        return SR_E_MEMORY;
    if (!matches(folder)) {
        sr_free(folder);
        return SR_FAIL(SR_E_NOT_FOUND, "%s has no split '%s'; copy it again, or pack again", path,
                       split ? split : "train");
    }
    *out = folder;
    return SR_OK;
}

sr_status sr_container_check_split(const sr_data_file *file, const char *split) {
    if (split == NULL || file->split[0] == '\0' || strcmp(file->split, split) == 0)
        return SR_OK;
    return SR_FAIL(SR_E_NOT_FOUND, "%s contains split '%s', not '%s'", file->path, file->split,
                   split);
}

typedef struct folder_check {
    const char *path;
    sr_load_folder_fn load;
    sr_locate_fn locate;
    sr_damage_fn damage;
    void *user;
} folder_check;

static sr_status verify_folder(const folder_check *check, const char *folder,
                               sr_verify_result *result) {
    sr_data_file file = {0};
    sr_status status = check->load(folder, check->path, &file);
    if (status >= SR_E_DATA && status < SR_E_PEER) {
        check->damage(check->user, sr_error_message());
        result->damaged++;
        result->files++;
        return SR_OK;
    }
    SR_TRY(status);
    status = sr_data_file_verify(&file, check->locate, check->damage, check->user, result);
    sr_data_file_release(&file);
    return status;
}

sr_status sr_container_verify_folders(const char *path, bool (*matches)(const char *),
                                      sr_load_folder_fn load, sr_locate_fn locate,
                                      sr_damage_fn damage, void *user, sr_verify_result *result) {
    const folder_check check = {path, load, locate, damage, user};
    sr_split_list list = {0};
    if (matches(path))
        return verify_folder(&check, path, result);
    SR_TRY(sr_container_list_folders(path, matches, &list));
    sr_split_list_sort(&list);
    for (int i = 0; i < list.count; i++) {
        char *folder = sr_path_join(path, list.names[i]);
        const sr_status status = folder ? verify_folder(&check, folder, result) : SR_E_MEMORY;
        sr_free(folder);
        SR_TRY(status);
    }
    return SR_OK;
}
