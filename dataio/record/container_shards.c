// SPDX-License-Identifier: Apache-2.0
// The container of serried's own shards (format: shard.h): a folder of SPLIT-NNNNN.kpl, or one such
// file. Loading checks every header and index, and that the shards are exactly those of one
// complete split.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/record/container.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

// -- which splits ------------------------------------------------------------------------------

typedef void (*shard_name_fn)(void *user, const char *file, const char *split, uint32_t number);

static sr_status each_name(const char *folder, shard_name_fn fn, void *user) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char split[SR_SPLIT_MAX + 1];
        uint32_t number;
        if (sr_shard_parse_name(entry->d_name, split, &number))
            fn(user, entry->d_name, split, number);
    }
    (void)closedir(dir);
    return SR_OK;
}

static void note_split(void *user, const char *file, const char *split, uint32_t number) {
    (void)file;
    (void)number;
    sr_split_list_add(user, split);
}

static sr_status shards_splits(const char *path, sr_split_list *out) {
    if (sr_path_is_folder(path))
        return each_name(path, note_split, out);
    sr_data_file shard;
    SR_TRY(sr_shard_load(path, &shard));
    sr_split_list_add(out, shard.split);
    sr_data_file_release(&shard);
    return SR_OK;
}

static bool shards_recognises(const char *path) {
    if (sr_path_is_folder(path)) {
        sr_split_list list = {0};
        return each_name(path, note_split, &list) == SR_OK && list.count > 0;
    }
    const char *dot = strrchr(path, '.');
    return sr_path_exists(path) && (sr_shard_is(path) || (dot && strcmp(dot, ".kpl") == 0));
}

// -- loading -----------------------------------------------------------------------------------

typedef struct shard_count {
    const char *split;
    uint32_t count; // highest number + 1
} shard_count;

static void note_number(void *user, const char *file, const char *split, uint32_t number) {
    shard_count *c = user;
    (void)file;
    if (strcmp(split, c->split) == 0 && number >= c->count)
        c->count = number + 1;
}

static sr_status add_shard(sr_data_files *files, const char *path) {
    sr_data_file *next;
    SR_TRY(sr_data_files_grow(files, &next));
    SR_TRY(sr_shard_load(path, next));
    files->count++;
    return SR_OK;
}

static bool same_classes(const sr_data_file *a, const sr_data_file *b) {
    if (a->class_count != b->class_count || strcmp(a->meta, b->meta) != 0)
        return false;
    for (int i = 0; i < a->class_count; i++)
        if (strcmp(a->classes[i], b->classes[i]) != 0)
            return false;
    return true;
}

// Checks that shard i continues the shards before it.
static sr_status check_sequence(const sr_data_files *files, size_t i, const char *split) {
    const sr_data_file *shard = &files->items[i];
    uint64_t before =
        i ? files->items[i - 1].first_record + (uint64_t)files->items[i - 1].count : 0;
    bool last = i + 1 == files->count;
    if (shard->number != i || strcmp(shard->split, split) != 0)
        return SR_FAIL(SR_E_DATA, "%s was renamed: its header says split %s, shard %u", shard->path,
                       shard->split, shard->number);
    if (shard->first_record != before || !same_classes(shard, &files->items[0]))
        return SR_FAIL(SR_E_DATA, "%s does not belong to the same data set as the shards before it",
                       shard->path);
    if (shard->last && !last)
        return SR_FAIL(SR_E_DATA, "%s is the last shard of its split, but %s follows", shard->path,
                       files->items[i + 1].name);
    if (last && !shard->last)
        return SR_FAIL(SR_E_DATA,
                       "the shards after %s are missing: packing was interrupted (run the same "
                       "pack command again) or they were removed",
                       shard->path);
    return SR_OK;
}

static sr_status load_folder(const char *folder, const char *split, sr_data_files *out) {
    shard_count shards = {.split = split};
    SR_TRY(each_name(folder, note_number, &shards));
    if (shards.count == 0)
        return SR_FAIL(SR_E_NOT_FOUND,
                       "%s has no split '%s': no %s-*.kpl is there; copy it again, or pack again",
                       folder, split, split);
    for (uint32_t i = 0; i < shards.count; i++) {
        char name[SR_SHARD_NAME_MAX];
        char *path = sr_path_join(folder, sr_shard_file_name(split, i, name));
        if (path == NULL)
            return SR_E_MEMORY;
        sr_status status = add_shard(out, path);
        sr_free(path);
        SR_TRY(status);
    }
    for (size_t i = 0; i < out->count; i++)
        SR_TRY(check_sequence(out, i, split));
    return SR_OK;
}

static sr_status shards_load(const char *path, const char *split, bool records_only,
                             sr_data_files *out) {
    (void)records_only; // nothing needs a scan
    if (sr_path_is_folder(path))
        return load_folder(path, split ? split : "train", out);
    SR_TRY(add_shard(out, path));
    return sr_container_check_split(&out->items[0], split);
}

// -- verify ------------------------------------------------------------------------------------

typedef struct shard_names {
    sr_arena arena;
    void *items; // char *
    size_t count, capacity;
    sr_status status;
} shard_names;

static void note_name(void *user, const char *file, const char *split, uint32_t number) {
    shard_names *list = user;
    (void)split;
    (void)number;
    if (list->status == SR_OK)
        list->status = sr_grow(&list->items, &list->capacity, list->count + 1, sizeof(char *),
                               "list of shards");
    char *name = list->status == SR_OK ? sr_arena_strdup(&list->arena, file) : NULL;
    if (name != NULL)
        ((char **)list->items)[list->count++] = name;
    else
        list->status = SR_E_MEMORY;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Loading a split checks how its shards fit together; damage of single shards was reported before.
static void verify_splits(const char *folder, sr_damage_fn damage, void *user,
                          sr_verify_result *result) {
    sr_split_list list = {0};
    if (shards_splits(folder, &list) != SR_OK)
        return;
    sr_split_list_sort(&list);
    for (int i = 0; i < list.count; i++) {
        sr_data_files files = {0};
        if (load_folder(folder, list.names[i], &files) != SR_OK) {
            damage(user, sr_error_message());
            result->damaged++;
        }
        sr_data_files_release(&files);
    }
}

static sr_status shards_verify(const char *path, sr_damage_fn damage, void *user,
                               sr_verify_result *result) {
    if (!sr_path_is_folder(path))
        return sr_shard_verify(path, damage, user, result);
    shard_names list = {0};
    sr_arena_init(&list.arena);
    sr_status status = each_name(path, note_name, &list);
    if (status == SR_OK)
        status = list.status;
    if (status == SR_OK && list.count > 0)
        qsort(list.items, list.count, sizeof(char *), by_text);
    for (size_t i = 0; i < list.count && status == SR_OK; i++) {
        char *file = sr_path_join(path, ((char **)list.items)[i]);
        status = file ? sr_shard_verify(file, damage, user, result) : SR_E_MEMORY;
        sr_free(file);
    }
    if (status == SR_OK && result->damaged == 0)
        verify_splits(path, damage, user, result);
    sr_free(list.items);
    sr_arena_release(&list.arena);
    return status;
}

const sr_container sr_container_shards = {
    .struct_size = sizeof(sr_container),
    .abi = SR_CONTAINER_ABI,
    .name = "shards",
    .help = "SPLIT-NNNNN.kpl of a target size, every bit under a checksum",
    .singular = "shard",
    .plural = "shards",
    .recognises = shards_recognises,
    .splits = shards_splits,
    .load = shards_load,
    .verify = shards_verify,
};
