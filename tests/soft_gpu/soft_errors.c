// SPDX-License-Identifier: Apache-2.0
// Errors of the software GPU: what each call returns, messages, and faults on demand.
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

pthread_mutex_t soft_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t soft_progress = PTHREAD_COND_INITIALIZER;

static atomic_int sticky;
static __thread cudaError_t last_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// SOFT_GPU_FAULT, "kind:n": the n-th event of its kind fails.
static char fault_kind[16];
static unsigned long fault_number;
static uint64_t seed;

void soft_lock(void) {
    (void)pthread_mutex_lock(&soft_mutex);
}

void soft_unlock(void) {
    (void)pthread_mutex_unlock(&soft_mutex);
}

static void read_fault(const char *text) {
    static const char *const kinds[] = {"memory", "launch", "refuse", "lost", "copy"};
    const char *colon = strchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : 0;
    if (length > 0 && length < sizeof fault_kind)
        memcpy(fault_kind, text, length);
    fault_number = colon ? strtoul(colon + 1, NULL, 10) : 0;
    bool known = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        known = known || strcmp(fault_kind, kinds[i]) == 0;
    if (fault_number == 0 || !known)
        soft_mistake("SOFT_GPU_FAULT is '%s', not memory:N, launch:N, refuse:N, lost:N or copy:N",
                     text);
}

static void start(void) {
    const char *fault = getenv("SOFT_GPU_FAULT"), *text = getenv("SERRIED_TEST_SEED");
    seed = text ? strtoull(text, NULL, 10) : 0;
    if (fault && *fault)
        read_fault(fault);
    soft_signals_install();
}

cudaError_t soft_sticky(void) {
    return (cudaError_t)atomic_load_explicit(&sticky, memory_order_acquire);
}

void soft_set_sticky(cudaError_t error) {
    int none = 0;
    (void)atomic_compare_exchange_strong_explicit(&sticky, &none, (int)error, memory_order_acq_rel,
                                                  memory_order_acquire);
}

cudaError_t soft_enter(void) {
    (void)pthread_once(&once, start);
    return soft_sticky();
}

cudaError_t soft_leave(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

bool soft_fault(const char *kind) {
    const unsigned long number = soft_count(kind);
    return number == fault_number && strcmp(kind, fault_kind) == 0;
}

uint64_t soft_seed(void) {
    return seed;
}

SOFT_TAKES_TURNS uint32_t soft_below(soft_rng *rng, uint32_t bound) {
    rng->state += 0x9e3779b97f4a7c15u; // splitmix64
    uint64_t x = rng->state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (uint32_t)(((x >> 32) * bound) >> 32);
}

// ---- Messages ----

// One write, so that lines of threads do not mix; safe in a signal handler.
__attribute__((format(printf, 1, 0))) static void print(const char *format, va_list arguments,
                                                        bool where) {
    char text[1024] = "software GPU: ";
    size_t length = strlen(text);
    if (where && soft_running && soft_running->kind == SOFT_LAUNCH) {
        const soft_gpu_thread *t = &soft_gpu_now;
        length += (size_t)snprintf(text + length, sizeof text - length, "kernel %s",
                                   soft_running->launch->kernel.name);
        if (soft_in_thread())
            length += (size_t)snprintf(
                text + length, sizeof text - length, ", block (%u, %u, %u), thread (%u, %u, %u)",
                t->block.x, t->block.y, t->block.z, t->thread.x, t->thread.y, t->thread.z);
        length += (size_t)snprintf(text + length, sizeof text - length, ": ");
    } else if (where && soft_running) {
        length += (size_t)snprintf(text + length, sizeof text - length, "a %s of %zu bytes: ",
                                   soft_running->kind == SOFT_SET ? "memset" : "copy",
                                   soft_running->bytes);
    }
    (void)vsnprintf(text + length, sizeof text - length - 1, format, arguments);
    length = strlen(text);
    text[length++] = '\n';
    (void)!write(STDERR_FILENO, text, length);
}

cudaError_t soft_refuse(cudaError_t error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments, false);
    va_end(arguments);
    return error;
}

void soft_mistake(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments, true);
    va_end(arguments);
    abort();
}

// ---- Calls ----

SOFT_GPU_EXPORT cudaError_t cudaGetLastError(void) {
    const cudaError_t error = soft_sticky() != cudaSuccess ? soft_sticky() : last_error;
    last_error = cudaSuccess;
    return error;
}

SOFT_GPU_EXPORT cudaError_t cudaPeekAtLastError(void) {
    return soft_sticky() != cudaSuccess ? soft_sticky() : last_error;
}

typedef struct error_text {
    cudaError_t error;
    const char *name, *text;
} error_text;

// Those that the software GPU returns.
#define ERROR(name, text)                                                                          \
    { name, #name, text }
static const error_text texts[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is "
                                                "already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory "
                                            "region"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during "
                                             "capture"),
    ERROR(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream"),
    ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another "
                                           "stream"),
    ERROR(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence "
                                             "from another thread"),
    ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a "
                                  "capturing stream"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
};
#undef ERROR

static const error_text *find_text(cudaError_t error) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].error == error)
            return &texts[i];
    return NULL;
}

SOFT_GPU_EXPORT const char *cudaGetErrorName(cudaError_t error) {
    const error_text *found = find_text(error);
    return found ? found->name : "unrecognized error code";
}

SOFT_GPU_EXPORT const char *cudaGetErrorString(cudaError_t error) {
    const error_text *found = find_text(error);
    return found ? found->text : "unrecognized error code";
}
