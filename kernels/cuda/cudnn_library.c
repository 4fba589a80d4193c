// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_library.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cuda_library.h"

enum { DEVICES = 64 };

static struct {
    pthread_once_t once;
    bool found;
    sr_cudnn_calls calls;
    sr_cuda_library library;
    pthread_mutex_t lock;
    cudnnHandle_t handles[DEVICES];
} cudnn = {
    .once = PTHREAD_ONCE_INIT,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .library = {.name = "cuDNN",
                .file = "libcudnn.so.9",
                .product = "cuDNN 9 for CUDA 13",
                .major = 9,
                .version = "not found"},
};

static void open_once(void) {
#define SR_CUDNN_CALL(name) #name,
    static const char *const names[] = {
#include "kernels/cuda/cudnn_api.def"
    };
#undef SR_CUDNN_CALL
    enum { COUNT = sizeof names / sizeof names[0] };
    _Static_assert(sizeof cudnn.calls == COUNT * sizeof(void *), "one pointer for each call");
    cudnn.found = sr_cuda_library_open(&cudnn.library, names, COUNT, &cudnn.calls) &&
                  sr_cuda_library_accept(&cudnn.library, cudnn.calls.cudnnGetVersion());
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
    return cudnn.library.version;
}

const char *sr_cudnn_missing(void) {
    (void)sr_cudnn_open();
    return cudnn.library.missing;
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
                   "%s failed in %s: %s%s%s", what, cudnn.library.version,
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
    if (!*handle) {
        status = cudnn.calls.cudnnCreate(handle);
        if (status != CUDNN_STATUS_SUCCESS)
            *handle = NULL;
    }
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn.calls.cudnnSetStream(*handle, stream);
    if (status != CUDNN_STATUS_SUCCESS)
        return sr_cudnn_fail(status, "using cuda:%d", ordinal);
    *out = *handle;
    return SR_OK;
}
