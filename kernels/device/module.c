// SPDX-License-Identifier: Apache-2.0
// Finds and opens modules (module.h).
//
// Whoever can put a file into the folder of libserried can replace libserried itself, so that a
// module's file needs no further trust, unlike a plug-in's (kernels/base/plugin_file.c).
#include "kernels/device/module.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/float_control.h"
#include "kernels/device/device_internal.h"
#include "kernels/kernel.h"

enum { MODULES_MAX = 16, NAME_MAX_BYTES = 32 };

static const char *const listed[] = {
#define SR_MODULE(name) name,
#include "kernels/device/module_list.def"
#undef SR_MODULE
    NULL};

// A module that was opened, or could not be: it is tried once.
typedef struct open_module {
    char name[NAME_MAX_BYTES], path[PATH_MAX];
    const sr_module *module;
    sr_kept_error failure;
} open_module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static open_module modules[MODULES_MAX]; // this and the following under the lock
static int module_count;

// ---- Files ----

// The folder that libserried was loaded from, with a slash at its end; "" if it is unknown.
static void find_folder(char out[PATH_MAX]) {
    Dl_info library;
    out[0] = '\0';
    if (dladdr((const void *)listed, &library) == 0 || !library.dli_fname)
        return;
    const char *slash = strrchr(library.dli_fname, '/');
    if (slash)
        (void)snprintf(out, PATH_MAX, "%.*s", (int)(slash - library.dli_fname) + 1,
                       library.dli_fname);
}

// Whether this can be a module's name: nothing that leads into another folder.
static bool is_name(const char *name) {
    const size_t length = strlen(name);
    return length > 0 && length < NAME_MAX_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static bool find_file(const char *name, char out[PATH_MAX]) {
    char folder[PATH_MAX];
    find_folder(folder);
    if (!folder[0] || !is_name(name))
        return false;
    const int length =
        snprintf(out, PATH_MAX, "%s" SR_MODULE_PREFIX "%s" SR_MODULE_SUFFIX, folder, name);
    return length < PATH_MAX && access(out, F_OK) == 0;
}

bool sr_module_is_installed(const char *name) {
    char path[PATH_MAX];
    return find_file(name, path);
}

const char *sr_module_listed(size_t i) {
    return listed[i];
}

bool sr_module_is_listed(const char *name) {
    for (size_t i = 0; listed[i]; i++)
        if (strcmp(listed[i], name) == 0)
            return true;
    return false;
}

// The name of the module that a file of this name is; false if it is not a module's.
static bool name_of_file(const char *file, char out[NAME_MAX_BYTES]) {
    const size_t prefix = strlen(SR_MODULE_PREFIX), suffix = strlen(SR_MODULE_SUFFIX);
    const size_t length = strlen(file);
    if (length <= prefix + suffix || length - prefix - suffix >= NAME_MAX_BYTES ||
        strncmp(file, SR_MODULE_PREFIX, prefix) != 0 ||
        strcmp(file + length - suffix, SR_MODULE_SUFFIX) != 0)
        return false;
    (void)snprintf(out, NAME_MAX_BYTES, "%.*s", (int)(length - prefix - suffix), file + prefix);
    return is_name(out);
}

void sr_module_visit(void (*visit)(void *user, const char *name), void *user) {
    char folder[PATH_MAX], name[NAME_MAX_BYTES];
    for (size_t i = 0; listed[i]; i++)
        visit(user, listed[i]);
    find_folder(folder);
    DIR *files = folder[0] ? opendir(folder) : NULL;
    for (struct dirent *file; files && (file = readdir(files)) != NULL;)
        if (name_of_file(file->d_name, name) && !sr_module_is_listed(name))
            visit(user, name);
    if (files)
        (void)closedir(files);
}

// ---- Opening ----

static sr_status load(const char *path, const sr_module **out) {
    union {
        void *object;
        const sr_module *(*function)(void);
    } entry;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    sr_float_control_set(); // a library that is linked with -ffast-math changes it
    if (!handle) {
        const char *why = dlerror();
        if (strncmp(why, path, strlen(path)) == 0)
            why += strlen(path) + strspn(why + strlen(path), ": ");
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s cannot be loaded: %s; install the module of this version of serried and "
                       "the libraries that it needs",
                       path, why);
    }
    entry.object = dlsym(handle, "sr_module_entry");
    if (!entry.object)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s has no function sr_module_entry, so it is not a module of serried; "
                       "remove it",
                       path);
    *out = entry.function();
    return SR_OK;
}

// No field after the head is read before its ABI and size are known to match.
static sr_status check(const char *path, const char *name, const sr_module *m) {
    static const char cure[] = "install the module of this version of serried";
    if (!m)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s: its sr_module_entry returns NULL; %s", path, cure);
    if (m->abi != SR_MODULE_ABI)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s was built for module interface %u, but this serried has %u; %s", path,
                       m->abi, SR_MODULE_ABI, cure);
    if (m->struct_size != sizeof *m)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s: its struct sr_module has %u bytes, but this serried's has %zu; %s",
                       path, m->struct_size, sizeof *m, cure);
    if (!m->version || strcmp(m->version, SR_VERSION) != 0)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s is of serried %s, but this is serried %s; %s", path,
                       m->version ? m->version : "of no version", SR_VERSION, cure);
    if (!m->name || strcmp(m->name, name) != 0)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s is the module '%s'; give the file its name", path,
                       m->name ? m->name : "");
    return SR_OK;
}

// Kernels first: without their device they do no harm.
static sr_status add_all(const open_module *m) {
    SR_TRY(sr_providers_add(m->module->providers, m->path));
    return sr_device_add_kinds(m->module->devices, m->path);
}

static sr_status open_file(open_module *m) {
    SR_TRY(load(m->path, &m->module));
    SR_TRY(check(m->path, m->name, m->module));
    return add_all(m);
}

static sr_status fail_not_installed(const char *name) {
    char folder[PATH_MAX];
    find_folder(folder);
    return SR_FAIL(SR_E_NOT_FOUND,
                   SR_MODULE_PREFIX "%s" SR_MODULE_SUFFIX
                                    " is not installed; put it beside libserried, into %s",
                   name, folder[0] ? folder : "its folder");
}

// With the lock held.
static sr_status open_once(const char *name) {
    open_module *m = modules;
    while (m < modules + module_count && strcmp(m->name, name) != 0)
        m++;
    if (m < modules + module_count)
        return sr_error_restore(&m->failure);
    if (module_count == MODULES_MAX)
        return SR_FAIL(SR_E_LIMIT, "at most %d modules can be open", MODULES_MAX);
    if (!find_file(name, m->path))
        return fail_not_installed(name);
    (void)snprintf(m->name, sizeof m->name, "%s", name);
    module_count++;
    sr_error_keep(&m->failure, open_file(m));
    return sr_error_restore(&m->failure);
}

sr_status sr_module_open(const char *name) {
    (void)pthread_mutex_lock(&lock);
    const sr_status status = open_once(name);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
