// SPDX-License-Identifier: Apache-2.0
// Finds and opens modules of devices (module.h).
#include "kernels/device/module.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/device/device_internal.h"
#include "kernels/kernel.h"

enum { MODULES_MAX = 16, NAME_MAX_BYTES = 32, FILE_MAX_BYTES = 64 };

static const char *const listed[] = {
#define SR_MODULE(name) name,
#include "kernels/device/module_list.def"
#undef SR_MODULE
    NULL};

// A module that was opened or failed to open: it is tried only once.
typedef struct open_module {
    char name[NAME_MAX_BYTES], path[PATH_MAX];
    const sr_module *module;
    sr_kept_error failure;
} open_module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static open_module modules[MODULES_MAX]; // this and the following are guarded by the lock
static int module_count;

// ---- Files ----

// Whether this is a valid module name, which must not lead to another folder.
static bool is_name(const char *name) {
    const size_t length = strlen(name);
    return length > 0 && length < NAME_MAX_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static void file_of(const char *name, char out[FILE_MAX_BYTES]) {
    (void)snprintf(out, FILE_MAX_BYTES, SR_MODULE_PREFIX "%s" SR_MODULE_SUFFIX, name);
}

static bool find_file(const char *name, char out[PATH_MAX]) {
    char file[FILE_MAX_BYTES];
    file_of(name, file);
    return is_name(name) && sr_module_file_find(file, out);
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

// Gets a module's name from its file name; false if it is not the file name of a module.
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
    sr_module_folder(folder);
    DIR *files = folder[0] ? opendir(folder) : NULL;
    for (struct dirent *file; files && (file = readdir(files)) != NULL;)
        if (name_of_file(file->d_name, name) && !sr_module_is_listed(name))
            visit(user, name);
    if (files)
        (void)closedir(files);
}

// ---- Opening ----

// Adds kernels first: without their device they are harmless.
static sr_status add_all(const open_module *m) {
    SR_TRY(sr_providers_add(m->module->providers, m->path));
    return sr_device_add_kinds(m->module->devices, m->path);
}

static sr_status open_file(open_module *m) {
    const sr_module_expected expected = {m->name, sizeof(sr_module), SR_MODULE_ABI};
    const sr_module_head *head;
    SR_TRY(sr_module_file_open(m->path, &expected, &head));
    m->module = (const sr_module *)(const void *)head;
    return add_all(m);
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
    if (!find_file(name, m->path)) {
        char file[FILE_MAX_BYTES];
        file_of(name, file);
        return sr_module_file_fail_missing(file);
    }
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
