// SPDX-License-Identifier: Apache-2.0
// Finds and loads the files of modules (module_file.h).
#include "kernels/base/module_file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/float_control.h"

void sr_module_folder(char out[PATH_MAX]) {
    static const char here[] = "";
    Dl_info library;
    out[0] = '\0';
    if (dladdr(here, &library) == 0 || !library.dli_fname)
        return;
    const char *slash = strrchr(library.dli_fname, '/');
    if (slash)
        (void)snprintf(out, PATH_MAX, "%.*s", (int)(slash - library.dli_fname) + 1,
                       library.dli_fname);
}

bool sr_module_file_find(const char *file, char out[PATH_MAX]) {
    char folder[PATH_MAX];
    sr_module_folder(folder);
    if (!folder[0])
        return false;
    const int length = snprintf(out, PATH_MAX, "%s%s", folder, file);
    return length < PATH_MAX && access(out, F_OK) == 0;
}

static sr_status load(const char *path, const sr_module_head **out) {
    union {
        void *object;
        const sr_module_head *(*function)(void);
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

// No field after its ABI and size is read before these are known to match.
static sr_status check(const char *path, const sr_module_expected *expected,
                       const sr_module_head *m) {
    static const char cure[] = "install the module of this version of serried";
    if (!m)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s: its sr_module_entry returns NULL; %s", path, cure);
    if (m->abi != expected->abi)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s was built for module interface %u, but this serried has %u; %s", path,
                       m->abi, expected->abi, cure);
    if (m->struct_size != expected->struct_size)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s: its struct has %u bytes, but this serried's has %u; %s", path,
                       m->struct_size, expected->struct_size, cure);
    if (!m->version || strcmp(m->version, SR_VERSION) != 0)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s is of serried %s, but this is serried %s; %s", path,
                       m->version ? m->version : "of no version", SR_VERSION, cure);
    if (!m->name || strcmp(m->name, expected->name) != 0)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s is the module '%s'; give the file its name", path,
                       m->name ? m->name : "");
    return SR_OK;
}

sr_status sr_module_file_open(const char *path, const sr_module_expected *expected,
                              const sr_module_head **out) {
    const sr_module_head *head = NULL;
    *out = NULL;
    SR_TRY(load(path, &head));
    SR_TRY(check(path, expected, head));
    *out = head;
    return SR_OK;
}

sr_status sr_module_file_fail_missing(const char *file) {
    char folder[PATH_MAX];
    sr_module_folder(folder);
    return SR_FAIL(SR_E_NOT_FOUND, "%s is not installed; put it beside libserried, into %s", file,
                   folder[0] ? folder : "its folder");
}
