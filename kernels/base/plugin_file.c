// SPDX-License-Identifier: Apache-2.0
// Loading plug-in files: checks of owner, content and ABI (plugin_file.h).
//
// The rules of trust are those of sudo and ssh for files that decide what is run: the owner is the
// user or root, and nobody else can write to the file or any folder above it. Links are resolved
// first, so the rules apply to the file that is really loaded. It is opened once: the same
// descriptor is checked, hashed and loaded, so that nobody can replace the file in between. No code
// of a file is executed before these checks pass.
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
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
#include "kernels/base/plugin_file_internal.h"

#define MOST_BYTES ((size_t)1 << 30)

// ---- trust --------------------------------------------------------------------------------------

// 'shown': the path in messages. A world-writable folder with the sticky bit, such as /tmp, is safe
// if root owns it: nobody can replace the files of others there.
static sr_status check_permissions(const struct stat *st, const char *shown, const char *what,
                                   const char *plugin) {
    const bool shared = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) && st->st_uid == 0;
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        return SR_FAIL(SR_E_USAGE,
                       "plug-in %s: %s belongs to user %u, but only code that you or root own is "
                       "loaded; make a copy that you own (%s)",
                       plugin, what, st->st_uid, shown);
    }
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) && !shared) {
        return SR_FAIL(SR_E_USAGE,
                       "plug-in %s: %s can be written by %s, who could replace the code; "
                       "chmod go-w %s",
                       plugin, what, st->st_mode & S_IWOTH ? "everybody" : "a group", shown);
    }
    return SR_OK;
}

// Checks an open folder or file. Owns the descriptor: returns it in *out, or closes it on failure.
static sr_status check_open(int fd, const char *shown, const char *what, const char *plugin,
                            int *out) {
    struct stat st;
    sr_status status = SR_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        status = SR_FAIL(SR_E_NOT_FOUND, "plug-in %s: %s: %s", plugin, shown, strerror(errno));
    else
        status = check_permissions(&st, shown, what, plugin);
    if (status != SR_OK && fd >= 0)
        (void)close(fd);
    if (status == SR_OK)
        *out = fd;
    return status;
}

// Opens an absolute path without links folder by folder and checks each, so that exactly the
// checked folders are used: a link that is created meanwhile is not followed.
static sr_status open_trusted(const char *path, int *out) {
    char shown[PATH_MAX];
    int at;
    const int folder = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    (void)snprintf(shown, sizeof shown, "%s", path);
    SR_TRY(check_open(open("/", folder), "/", "a folder above it", path, &at));
    for (char *name = shown + 1, *slash; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
        *slash = '\0';
        const bool own = strchr(slash + 1, '/') == NULL;
        const int next = openat(at, name, folder);
        const int error = errno;
        (void)close(at);
        errno = error;
        SR_TRY(check_open(next, shown, own ? "its folder" : "a folder above it", path, &at));
        *slash = '/';
    }
    const char *name = strrchr(path, '/') + 1;
    const int file = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const int error = errno;
    (void)close(at);
    errno = error;
    return check_open(file, path, "the file", path, out);
}

static sr_status hash_content(int fd, const char *path, char hex[SR_SHA256_HEX]) {
    struct stat st;
    uint8_t digest[SR_SHA256_BYTES];
    sr_sha256 *sha = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > MOST_BYTES)
        return SR_FAIL(SR_E_UNSUPPORTED, "plug-in %s: not a regular file of at most %zu MiB", path,
                       MOST_BYTES >> 20);
    const size_t bytes = (size_t)st.st_size;
    void *data = sr_alloc(bytes + 1, "plug-in");
    if (data == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_read_at(fd, path, 0, data, bytes);
    if (status != SR_OK)
        sr_error_prefix("plug-in");
    else
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

// The address range of the code of a loaded file, for the crash handler.
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

// The descriptor stays open: the loader identifies the library by this name, which refers to this
// file as long as the descriptor number is not reused.
static sr_status load(sr_plugin_file *file, int fd) {
    char name[64];
    union {
        void *object;
        const sr_plugin *(*function)(void);
    } entry;
    struct link_map *map;
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    sr_float_control_set(); // a library linked with -ffast-math changes it
    if (!handle) {
        const char *why = dlerror(); // begins with the name that was opened
        if (strncmp(why, name, strlen(name)) == 0)
            why += strlen(name) + strspn(why + strlen(name), ": ");
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "plug-in %s cannot be loaded: %s; build it against the installed headers "
                       "and library of this serried",
                       file->path, why);
    }
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
        file->begin = map->l_addr;
        (void)dl_iterate_phdr(find_code, file);
    }
    entry.object = dlsym(handle, "sr_plugin_entry");
    if (!entry.object) {
        return SR_FAIL(
            SR_E_UNSUPPORTED,
            "plug-in %s has no function sr_plugin_entry; kernels/base/plugin.h describes "
            "plug-ins",
            file->path);
    }
    file->plugin = entry.function();
    return SR_OK;
}

// No field after the head is read before its ABI and size are known to match.
static sr_status check_plugin(const sr_plugin_file *file) {
    const sr_plugin *p = file->plugin;
    if (!p)
        return SR_FAIL(SR_E_UNSUPPORTED, "plug-in %s: its sr_plugin_entry returns NULL",
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
    *out = sr_plugin_list_find(path);
    if (*out && strcmp((*out)->hash, hash) != 0)
        return SR_FAIL(SR_E_USAGE,
                       "plug-in %s has changed since this process loaded it; restart the process",
                       path);
    return SR_OK;
}

static sr_status open_new(const char *path, int fd, const char *hash, sr_plugin_file **out) {
    sr_plugin_file *file = sr_plugin_list_next();
    if (!file)
        return SR_FAIL(SR_E_LIMIT, "plug-in %s: at most %d plug-ins at a time", path,
                       SR_PLUGIN_FILES_MAX);
    *file = (sr_plugin_file){.path = sr_strdup(path)};
    if (!file->path)
        return SR_E_MEMORY;
    memcpy(file->hash, hash, sizeof file->hash);
    SR_TRY(sr_plugin_watch_crashes(file->path));
    SR_TRY(load(file, fd));
    SR_TRY(check_plugin(file));
    SR_TRY(sr_plugin_watch_crashes(NULL));
    sr_plugin_list_add();
    *out = file;
    return SR_OK;
}

static sr_status open_checked(const char *path, int fd, const char *hash, bool *kept,
                              sr_plugin_file **out) {
    char found[SR_SHA256_HEX];
    sr_plugin_file *file = NULL;
    SR_TRY(hash_content(fd, path, found));
    if (hash && strcmp(hash, found) != 0)
        return SR_FAIL(SR_E_USAGE, "plug-in %s has changed since the run began; restart the run",
                       path);
    SR_TRY(find_loaded(path, found, &file));
    *kept = file == NULL; // also when loading fails: the loader may keep its name
    if (!file)
        SR_TRY(open_new(path, fd, found, &file));
    *out = file;
    return SR_OK;
}

sr_status sr_plugin_open(const char *path, const char *hash, sr_plugin_file **out) {
    char real[PATH_MAX];
    bool kept = false;
    int fd;
    if (!realpath(path, real))
        return SR_FAIL(SR_E_NOT_FOUND, "plug-in %s: %s", path, strerror(errno));
    SR_TRY(open_trusted(real, &fd));
    sr_status status = open_checked(real, fd, hash, &kept, out);
    if (!kept)
        (void)close(fd);
    return status;
}
