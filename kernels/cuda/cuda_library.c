// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_packaged(const char *file) {
    const char *environment = getenv("VIRTUAL_ENV");
    char pattern[512];
    glob_t found;
    void *library = NULL;
    if (!environment ||
        snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/nvidia/*/lib/%s",
                 environment, file) >= (int)sizeof pattern)
        return NULL;
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0)
        library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

bool sr_cuda_library_open(sr_cuda_library *library, const char *const *names, size_t count,
                          void *functions) {
    void *opened = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        opened = open_packaged(library->file);
    if (!opened) {
        (void)snprintf(library->missing, sizeof library->missing,
                       "no %s was found; install %s, or set LD_LIBRARY_PATH to its folder",
                       library->file, library->product);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *const address = dlsym(opened, names[i]);
        memcpy((char *)functions + i * sizeof address, &address, sizeof address);
        if (!address) {
            (void)snprintf(library->missing, sizeof library->missing, "%s lacks %s; install %s",
                           library->file, names[i], library->product);
            return false;
        }
    }
    return true;
}

bool sr_cuda_library_accept(sr_cuda_library *library, size_t version) {
    const size_t major = version / 10000, minor = version / 100 % 100, patch = version % 100;
    if (major != library->major) {
        (void)snprintf(library->missing, sizeof library->missing,
                       "%s is %s %zu.%zu.%zu, not %zu; install %s", library->file, library->name,
                       major, minor, patch, library->major, library->product);
        return false;
    }
    (void)snprintf(library->version, sizeof library->version, "%s %zu.%zu.%zu", library->name,
                   major, minor, patch);
    return true;
}
