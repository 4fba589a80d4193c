// SPDX-License-Identifier: Apache-2.0
// Names of files and folders of checkpoints, and which of them exist in a run folder.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "trainer/checkpoint/checkpoint_internal.h"

const char *sr_weights_file_name(sr_weights_kind kind) {
    return kind == SR_WEIGHTS_EMA ? "model_ema.safetensors" : "model.safetensors";
}

char *sr_checkpoint_shard_name(int rank, int ranks, char *out) {
    snprintf(out, 64, "optimizer-%05d-of-%05d.safetensors", rank, ranks);
    return out;
}

char *sr_generation_name(int64_t generation, char *out) {
    snprintf(out, 64, CHECKPOINTS_FOLDER "/%08" PRId64, generation);
    return out;
}

bool sr_checkpoint_has(const char *folder, const char *name) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && n < PATH_MAX && sr_path_exists(path);
}

bool sr_checkpoint_is(const char *path) {
    return sr_checkpoint_has(path, MANIFEST_NAME) || sr_checkpoint_has(path, CHECKPOINTS_FOLDER) ||
           (sr_checkpoint_has(path, "identity") && sr_checkpoint_has(path, "recipe.yaml"));
}

// The name of a generation's folder is at least eight digits and nothing else.
static bool parse_generation(const char *name, int64_t *generation) {
    size_t digits = strspn(name, "0123456789");
    if (digits < 8 || digits > 18 || name[digits] != 0)
        return false;
    *generation = strtoll(name, NULL, 10);
    return *generation > 0;
}

int64_t sr_generation_linked(const char *run, const char *link) {
    char target[64] = "";
    int64_t generation = 0;
    char path[PATH_MAX]; // no sr_alloc: 0 after a failed allocation would let 'best' be removed
    int length = snprintf(path, sizeof path, "%s/%s", run, link);
    ssize_t n = length > 0 && length < PATH_MAX ? readlink(path, target, sizeof target - 1) : -1;
    size_t folder = sizeof CHECKPOINTS_FOLDER; // length with a slash
    if (n <= 0 || strncmp(target, CHECKPOINTS_FOLDER "/", folder) != 0 ||
        !parse_generation(target + folder, &generation))
        return 0;
    return generation;
}

static int compare_newest_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

sr_status sr_generations_list(const char *run, int64_t **generations, size_t *count) {
    void *list = NULL;
    size_t n = 0, capacity = 0;
    sr_status status = SR_OK;
    char *folder = sr_path_join(run, CHECKPOINTS_FOLDER);
    if (folder == NULL)
        return SR_E_MEMORY;
    DIR *dir = opendir(folder);
    if (dir == NULL && errno != ENOENT && errno != ENOTDIR)
        status = SR_FAIL(SR_E_IO, "%s: %s", folder, strerror(errno));
    struct dirent *entry;
    int64_t generation;
    while (dir != NULL && status == SR_OK && (entry = readdir(dir)) != NULL) {
        if (!parse_generation(entry->d_name, &generation))
            continue;
        status = sr_grow(&list, &capacity, n + 1, sizeof generation, "generations");
        if (status == SR_OK)
            ((int64_t *)list)[n++] = generation;
    }
    if (dir != NULL)
        closedir(dir);
    sr_free(folder);
    if (status != SR_OK) {
        sr_free(list);
        return status;
    }
    if (n > 0)
        qsort(list, n, sizeof(int64_t), compare_newest_first);
    *generations = list;
    *count = n;
    return SR_OK;
}

void sr_checkpoint_remove_temporary_files(const char *run) {
    int64_t *list = NULL;
    size_t count = 0;
    char name[64];
    if (sr_generations_list(run, &list, &count) != SR_OK)
        return; // reported by whatever reads them
    for (size_t i = 0; i < count; i++) {
        char *folder = sr_path_join(run, sr_generation_name(list[i], name));
        if (folder != NULL)
            sr_remove_temporary_files(folder, 0);
        sr_free(folder);
    }
    sr_free(list);
}
