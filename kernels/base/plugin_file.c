// SPDX-License-Identifier: Apache-2.0
// Loading plug-in files: who may have written them, what they hold, that they fit (plugin_file.h).
//
// The rules of trust are those of sudo and ssh for files that decide what is run: the owner is the
// user or root, and neither the file nor its folder can be written by anybody else. Links are
// resolved first, so the rules hold for the file that is really loaded. Nothing of a file is
// executed before they are known to hold.
#include "kernels/base/plugin_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"

#define MOST_BYTES ((size_t)1 << 30)

// Read by the crash handler at any time: entries are complete before the count says so.
static sr_plugin_file files[SR_PLUGIN_FILES_MAX];
static int file_count;

const sr_plugin_file *sr_plugin_files(int *count) {
    *count = file_count;
    return files;
}

bool sr_plugin_is_loaded(const char *path) {
    char real[PATH_MAX];
    for (int i = 0; i < file_count && realpath(path, real); i++)
        if (strcmp(files[i].path, real) == 0)
            return true;
    return false;
}

// ---- trust --------------------------------------------------------------------------------------

static sr_status check_place(const char *path, const char *what, const char *plugin) {
    struct stat st;
    if (stat(path, &st) != 0)
        return SR_FAIL(SR_E_NOT_FOUND, "plug-in %s: %s", plugin, strerror(errno));
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        return SR_FAIL(SR_E_USAGE,
                       "plug-in %s: %s belongs to user %u, but only code of your own or of root is "
                       "loaded; take a copy that is yours",
                       plugin, what, st.st_uid);
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        return SR_FAIL(SR_E_USAGE,
                       "plug-in %s: %s can be written by %s, who could put other code there; "
                       "chmod go-w %s",
                       plugin, what, st.st_mode & S_IWOTH ? "everybody" : "a group", path);
    }
    return SR_OK;
}

static sr_status check_trust(const char *path) {
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    slash[slash == folder ? 1 : 0] = '\0';
    SR_TRY(check_place(path, "the file", path));
    return check_place(folder, "its folder", path);
}

static sr_status hash_content(const char *path, char hex[SR_SHA256_HEX]) {
    void *data;
    size_t bytes;
    uint8_t digest[SR_SHA256_BYTES];
    sr_sha256 *sha;
    sr_status status = sr_file_read(path, MOST_BYTES, &data, &bytes);
    if (status != SR_OK) {
        sr_error_prefix("plug-in");
        return status;
    }
    status = sr_sha256_create(&sha);
    if (status == SR_OK) {
        status = sr_sha256_update(sha, data, bytes);
        if (status == SR_OK)
            status = sr_sha256_finish(sha, digest, hex);
        sr_sha256_free(sha);
    }
    sr_free(data);
    return status;
}

// ---- loading ------------------------------------------------------------------------------------

// Where the code of a loaded file lies, for the crash handler.
static int find_code(struct dl_phdr_info *info, size_t size, void *user) {
    sr_plugin_file *file = user;
    (void)size;
    if (info->dlpi_addr != file->begin)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        uintptr_t begin = file->begin + segment->p_vaddr, end = begin + segment->p_memsz;
        if (!file->code[1] || begin < file->code[0])
            file->code[0] = begin;
        if (end > file->code[1])
            file->code[1] = end;
    }
    return 1;
}

static sr_status load(sr_plugin_file *file) {
    union {
        void *object;
        const sr_plugin *(*function)(void);
    } entry;
    struct link_map *map;
    void *handle = dlopen(file->path, RTLD_NOW | RTLD_LOCAL);
    sr_float_control_set(); // one that was linked with -ffast-math has changed it
    if (!handle) {
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "plug-in %s cannot be loaded: %s; build it against the installed headers "
                       "and library of this serried",
                       file->path, dlerror());
    }
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
        file->begin = map->l_addr;
        (void)dl_iterate_phdr(find_code, file);
    }
    entry.object = dlsym(handle, "sr_plugin_entry");
    if (!entry.object) {
        return SR_FAIL(
            SR_E_UNSUPPORTED,
            "plug-in %s has no function sr_plugin_entry; kernels/base/plugin.h says what "
            "a plug-in is",
            file->path);
    }
    file->plugin = entry.function();
    return SR_OK;
}

// Nothing behind the head is read before it is known to be ours.
static sr_status check_plugin(const sr_plugin_file *file) {
    const sr_plugin *p = file->plugin;
    if (!p)
        return SR_FAIL(SR_E_UNSUPPORTED, "plug-in %s: its sr_plugin_entry gives nothing",
                       file->path);
    if (p->abi != SR_PLUGIN_ABI) {
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "plug-in %s was built for plug-in interface %u, but this serried has %u; "
                       "rebuild it against the installed headers",
                       file->path, p->abi, SR_PLUGIN_ABI);
    }
    if (p->struct_size != sizeof(sr_plugin)) {
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "plug-in %s: its struct sr_plugin has %u bytes, but this serried's has %zu; "
                       "rebuild it against the installed headers",
                       file->path, p->struct_size, sizeof(sr_plugin));
    }
    if (!p->name || !p->name[0])
        return SR_FAIL(SR_E_UNSUPPORTED, "plug-in %s has no name", file->path);
    return SR_OK;
}

static sr_status find_loaded(const char *path, const char *hash, sr_plugin_file **out) {
    for (int i = 0; i < file_count; i++)
        if (strcmp(files[i].path, path) == 0)
            *out = &files[i];
    if (*out && strcmp((*out)->hash, hash) != 0)
        return SR_FAIL(SR_E_USAGE,
                       "plug-in %s has changed since this process loaded it; start anew", path);
    return SR_OK;
}

static sr_status open_new(const char *path, const char *hash, sr_plugin_file **out) {
    sr_plugin_file *file = &files[file_count];
    if (file_count == SR_PLUGIN_FILES_MAX)
        return SR_FAIL(SR_E_LIMIT, "plug-in %s: at most %d plug-ins at a time", path,
                       SR_PLUGIN_FILES_MAX);
    *file = (sr_plugin_file){.path = sr_strdup(path)};
    if (!file->path)
        return SR_E_MEMORY;
    memcpy(file->hash, hash, sizeof file->hash);
    SR_TRY(sr_plugin_watch_crashes(file->path));
    SR_TRY(load(file));
    SR_TRY(check_plugin(file));
    SR_TRY(sr_plugin_watch_crashes(NULL));
    file_count++;
    *out = file;
    return SR_OK;
}

sr_status sr_plugin_open(const char *path, const char *hash, sr_plugin_file **out) {
    char real[PATH_MAX], found[SR_SHA256_HEX];
    sr_plugin_file *file = NULL;
    if (!realpath(path, real))
        return SR_FAIL(SR_E_NOT_FOUND, "plug-in %s: %s", path, strerror(errno));
    SR_TRY(check_trust(real));
    SR_TRY(hash_content(real, found));
    if (hash && strcmp(hash, found) != 0)
        return SR_FAIL(SR_E_USAGE, "plug-in %s has changed since the run began; start it anew",
                       real);
    SR_TRY(find_loaded(real, found, &file));
    if (!file)
        SR_TRY(open_new(real, found, &file));
    *out = file;
    return SR_OK;
}
