// SPDX-License-Identifier: Apache-2.0
// A generation that is being read: its folder and its files are opened once.
//
// A job removes old generations while others read them, and links such as 'last' point elsewhere a
// moment later. Descriptors keep what was opened: a removed file can be read to its end, and all
// files are of one generation.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "trainer/checkpoint/checkpoint_internal.h"

static int open_in(int folder, const char *name) {
    int fd;
    do // opening a FIFO must not block
        fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static sr_status fail_missing(const sr_generation *g, const char *name, int error) {
    if (error == ENOENT)
        return SR_FAIL(SR_E_DATA, "%s/%s: missing, though manifest.json lists it", g->path, name);
    return SR_FAIL(SR_E_IO, "%s/%s: %s", g->path, name, strerror(error));
}

// The writer removes the manifest first.
bool sr_generation_is_gone(const sr_generation *g) {
    return g->path != NULL && (g->folder < 0 || faccessat(g->folder, MANIFEST_NAME, F_OK, 0) != 0);
}

// Opens all files. Those for which there are no descriptors left are opened when they are read.
static sr_status open_files(sr_generation *g) {
    g->fds = sr_arena_alloc(&g->arena, (g->files.count + 1) * sizeof *g->fds);
    if (g->fds == NULL)
        return SR_E_MEMORY;
    for (; g->opened < g->files.count; g->opened++) {
        const char *name = g->files.items[g->opened].name;
        const int fd = open_in(g->folder, name);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            return SR_OK;
        if (fd < 0 && sr_generation_is_gone(g))
            return SR_FAIL(SR_E_NOT_FOUND, "%s: removed while it was opened", g->path);
        g->fds[g->opened] = fd; // -1: missing, which matters to who reads it
    }
    return SR_OK;
}

sr_status sr_generation_open(const char *path, sr_generation *out) {
    *out = (sr_generation){.folder = -1};
    sr_arena_init(&out->arena);
    out->path = sr_strdup(path);
    if (out->path == NULL)
        return SR_E_MEMORY;
    out->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->folder < 0)
        return sr_file_fail(path, "cannot open", errno);
    SR_TRY(sr_manifest_read_in(out->folder, path, &out->arena, &out->manifest, &out->files));
    return open_files(out);
}

void sr_generation_release(sr_generation *g) {
    for (size_t i = 0; i < g->opened; i++)
        if (g->fds[i] >= 0)
            (void)close(g->fds[i]);
    if (g->folder >= 0)
        (void)close(g->folder);
    sr_manifest_files_release(&g->files);
    sr_arena_release(&g->arena);
    sr_free(g->path);
    *g = (sr_generation){.folder = -1};
}

sr_status sr_generation_file(const sr_generation *g, const sr_manifest_file *file, int *fd) {
    const size_t index = (size_t)(file - g->files.items);
    if (index < g->opened && g->fds[index] < 0)
        return fail_missing(g, file->name, ENOENT);
    *fd = index < g->opened ? fcntl(g->fds[index], F_DUPFD_CLOEXEC, 0)
                            : open_in(g->folder, file->name);
    return *fd >= 0 ? SR_OK : fail_missing(g, file->name, errno);
}

sr_status sr_generation_check_file(const sr_generation *g, const sr_manifest_file *file,
                                   sr_file_damage *damage) {
    int fd = -1;
    *damage = (sr_file_damage){0};
    SR_TRY(sr_generation_file(g, file, &fd));
    char *path = sr_path_join(g->path, file->name);
    sr_status status =
        path == NULL ? SR_E_MEMORY : sr_file_sums_check_open(fd, path, &file->sums, damage);
    (void)close(fd);
    sr_free(path);
    return status;
}

sr_status sr_generation_check(const sr_generation *g) {
    sr_file_damage damage;
    for (size_t i = 0; i < g->files.count; ++i)
        SR_TRY(sr_generation_check_file(g, &g->files.items[i], &damage));
    return SR_OK;
}

sr_status sr_generation_tensors(const sr_generation *g, const sr_manifest_file *file, bool checked,
                                sr_safetensors **out) {
    int fd = -1;
    SR_TRY(sr_generation_file(g, file, &fd));
    char *path = sr_path_join(g->path, file->name);
    if (path == NULL) {
        (void)close(fd);
        return SR_E_MEMORY;
    }
    const sr_status status = sr_safetensors_open_fd(fd, path, checked ? &file->sums : NULL, out);
    sr_free(path);
    return status;
}
