// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_internal.h"

#define FILE_NAME "libcudnn.so.9"

enum { DEVICES = 64, FIRST = 90000, BEYOND = 100000 }; // versions of cuDNN 9

static struct {
    pthread_once_t once;
    bool found;
    sr_cudnn_calls calls;
    char version[32], missing[256];
    pthread_mutex_t lock;
    cudnnHandle_t handles[DEVICES];
} cudnn = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .version = "not found"};

// Of the virtual environment whose Python has NVIDIA's package.
static void *open_packaged(void) {
    const char *environment = getenv("VIRTUAL_ENV");
    char pattern[512];
    glob_t found;
    void *library = NULL;
    if (!environment || snprintf(pattern, sizeof pattern,
                                 "%s/lib/python3*/site-packages/nvidia/cudnn/lib/" FILE_NAME,
                                 environment) >= (int)sizeof pattern)
        return NULL;
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0)
        library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

static void *open_library(void) {
    void *library = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = open_packaged();
    return library;
}

// The address of a function as a pointer to one.
static bool find(void *library, const char *name, void *function) {
    void *const address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    if (!address)
        (void)snprintf(cudnn.missing, sizeof cudnn.missing, "%s lacks %s; install cuDNN 9",
                       FILE_NAME, name);
    return address != NULL;
}

static void open_once(void) {
    void *library = open_library();
    if (!library) {
        (void)snprintf(
            cudnn.missing, sizeof cudnn.missing,
            "no %s was found; install cuDNN 9 for CUDA 13, or set LD_LIBRARY_PATH to its "
            "folder",
            FILE_NAME);
        return;
    }
#define SR_CUDNN_CALL(name)                                                                        \
    if (!find(library, #name, &cudnn.calls.name))                                                  \
        return;
#include "kernels/cuda/cudnn_api.def"
#undef SR_CUDNN_CALL
    const size_t version = cudnn.calls.cudnnGetVersion();
    if (version < FIRST || version >= BEYOND) {
        (void)snprintf(
            cudnn.missing, sizeof cudnn.missing,
            "%s has version %zu, which is not one of cuDNN 9; install cuDNN 9 for CUDA 13",
            FILE_NAME, version);
        return;
    }
    (void)snprintf(cudnn.version, sizeof cudnn.version, "cuDNN %zu.%zu.%zu", version / 10000,
                   version / 100 % 100, version % 100);
    cudnn.found = true;
}

const sr_cudnn_calls *sr_cudnn_open(void) {
    (void)pthread_once(&cudnn.once, open_once);
    return cudnn.found ? &cudnn.calls : NULL;
}

bool sr_cudnn_is_found(void) {
    return sr_cudnn_open() != NULL;
}

const char *sr_cudnn_version(void) {
    (void)sr_cudnn_open();
    return cudnn.version;
}

const char *sr_cudnn_missing(void) {
    (void)sr_cudnn_open();
    return cudnn.missing;
}

void sr_cudnn_lock(void) {
    (void)pthread_mutex_lock(&cudnn.lock);
}

void sr_cudnn_unlock(void) {
    (void)pthread_mutex_unlock(&cudnn.lock);
}

sr_status sr_cudnn_fail(cudnnStatus_t status, const char *format, ...) {
    char what[128], detail[256] = "";
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    cudnn.calls.cudnnGetLastErrorString(detail, sizeof detail);
    for (char *c = detail; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return SR_FAIL(status == CUDNN_STATUS_ALLOC_FAILED ? SR_E_MEMORY : SR_E_DEVICE,
                   "%s failed in %s: %s%s%s", what, cudnn.version,
                   cudnn.calls.cudnnGetErrorString(status), detail[0] ? ": " : "", detail);
}

sr_status sr_cudnn_handle(void *stream, cudnnHandle_t *out) {
    int ordinal = 0;
    const cudaError_t error = cudaGetDevice(&ordinal);
    if (error != cudaSuccess)
        return sr_cuda_fail(NULL, error, "asking for the device in use");
    if (ordinal >= DEVICES)
        return SR_FAIL(SR_E_UNSUPPORTED, "cuDNN is used on devices 0 to %d, not on %d", DEVICES - 1,
                       ordinal);
    cudnnHandle_t *handle = &cudnn.handles[ordinal];
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (!*handle)
        status = cudnn.calls.cudnnCreate(handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn.calls.cudnnSetStream(*handle, stream);
    if (status != CUDNN_STATUS_SUCCESS)
        return sr_cudnn_fail(status, "using cuda:%d", ordinal);
    *out = *handle;
    return SR_OK;
}
