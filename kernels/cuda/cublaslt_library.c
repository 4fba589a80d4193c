// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cublaslt_library.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cuda_library.h"

enum { DEVICES = 64 };

static struct {
    pthread_once_t once;
    bool found;
    sr_cublaslt_calls calls;
    sr_cuda_library library;
    pthread_mutex_t lock;
    cublasLtHandle_t handles[DEVICES];
} cublaslt = {
    .once = PTHREAD_ONCE_INIT,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .library = {.name = "cuBLASLt",
                .file = "libcublasLt.so.13",
                .product = "cuBLAS of CUDA 13",
                .major = 13,
                .version = "not found"},
};

static void open_once(void) {
#define SR_CUBLASLT_CALL(name) #name,
    static const char *const names[] = {
#include "kernels/cuda/cublaslt_api.def"
    };
#undef SR_CUBLASLT_CALL
    enum { COUNT = sizeof names / sizeof names[0] };
    _Static_assert(sizeof cublaslt.calls == COUNT * sizeof(void *), "one pointer for each call");
    cublaslt.found = sr_cuda_library_open(&cublaslt.library, names, COUNT, &cublaslt.calls) &&
                     sr_cuda_library_accept(&cublaslt.library, cublaslt.calls.cublasLtGetVersion());
}

const sr_cublaslt_calls *sr_cublaslt_open(void) {
    (void)pthread_once(&cublaslt.once, open_once);
    return cublaslt.found ? &cublaslt.calls : NULL;
}

bool sr_cublaslt_is_found(void) {
    return sr_cublaslt_open() != NULL;
}

const char *sr_cublaslt_version(void) {
    (void)sr_cublaslt_open();
    return cublaslt.library.version;
}

const char *sr_cublaslt_missing(void) {
    (void)sr_cublaslt_open();
    return cublaslt.library.missing;
}

void sr_cublaslt_lock(void) {
    (void)pthread_mutex_lock(&cublaslt.lock);
}

void sr_cublaslt_unlock(void) {
    (void)pthread_mutex_unlock(&cublaslt.lock);
}

sr_status sr_cublaslt_fail(cublasStatus_t status, const char *format, ...) {
    char what[128];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return SR_FAIL(status == CUBLAS_STATUS_ALLOC_FAILED ? SR_E_MEMORY : SR_E_DEVICE,
                   "%s failed in %s: %s", what, cublaslt.library.version,
                   cublaslt.calls.cublasLtGetStatusString(status));
}

sr_status sr_cublaslt_handle(cublasLtHandle_t *out) {
    int ordinal = 0;
    const cudaError_t error = cudaGetDevice(&ordinal);
    if (error != cudaSuccess)
        return sr_cuda_fail(NULL, error, "asking for the device in use");
    if (ordinal >= DEVICES)
        return SR_FAIL(SR_E_UNSUPPORTED, "cuBLASLt is used on devices 0 to %d, not on %d",
                       DEVICES - 1, ordinal);
    cublasLtHandle_t *handle = &cublaslt.handles[ordinal];
    if (!*handle) {
        const cublasStatus_t status = cublaslt.calls.cublasLtCreate(handle);
        if (status != CUBLAS_STATUS_SUCCESS) {
            *handle = NULL;
            return sr_cublaslt_fail(status, "using cuda:%d", ordinal);
        }
    }
    *out = *handle;
    return SR_OK;
}
