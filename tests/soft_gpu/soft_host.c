// SPDX-License-Identifier: Apache-2.0
// Memory of the host that the software GPU copies from and to: registered, or allocated for it.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

#define PAGE ((size_t)4096)

typedef struct host_range {
    uint64_t at;
    size_t bytes;
    size_t mapped; // of memory that was allocated, with its guard pages; 0: registered
    struct host_range *next;
} host_range;

static host_range *ranges;

static uint64_t number(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

int soft_host_registered(const void *p, size_t bytes) {
    const uint64_t at = number(p);
    bool some = false;
    for (const host_range *r = ranges; r; r = r->next) {
        if (at >= r->at && at + bytes <= r->at + r->bytes)
            return 1;
        some |= at < r->at + r->bytes && r->at < at + bytes;
    }
    return some ? -1 : 0;
}

bool soft_host_mapped(uint64_t address) {
    unsigned char resident;
    if (address < 65536 || address >> 47 != 0)
        return false;
    return mincore((void *)(uintptr_t)(address / PAGE * PAGE), PAGE, &resident) == 0;
}

static cudaError_t add(void *p, size_t bytes, size_t mapped) {
    host_range *r = malloc(sizeof *r);
    if (!r)
        return cudaErrorMemoryAllocation;
    *r = (host_range){number(p), bytes, mapped, ranges};
    ranges = r;
    return cudaSuccess;
}

// Takes the range that begins at p out of the list. Work that may use it is waited for, as CUDA
// does.
static host_range *take_out(const void *p, bool allocated) {
    for (host_range **at = &ranges; *at; at = &(*at)->next) {
        host_range *r = *at;
        if (r->at == number(p) && (r->mapped > 0) == allocated) {
            *at = r->next;
            soft_streams_wait_all();
            return r;
        }
    }
    return NULL;
}

SOFT_GPU_EXPORT cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags) {
    cudaError_t error = soft_enter();
    (void)soft_count("made");
    (void)flags;
    if (error == cudaSuccess && (!ptr || size == 0 || !soft_host_mapped(number(ptr))))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        soft_lock();
        error = soft_capture_forbids_unsafe("cudaHostRegister");
        if (error == cudaSuccess && soft_host_registered(ptr, size) != 0)
            error = cudaErrorHostMemoryAlreadyRegistered;
        if (error == cudaSuccess)
            error = add(ptr, size, 0);
        soft_unlock();
    }
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaHostUnregister(void *p) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = soft_capture_forbids_unsafe("cudaHostUnregister");
        host_range *r = error == cudaSuccess ? take_out(p, false) : NULL;
        if (error == cudaSuccess && !r)
            error = cudaErrorHostMemoryNotRegistered;
        free(r);
        soft_unlock();
    }
    return soft_leave(error);
}

// Between pages without memory; poisoned.
static cudaError_t allocate(void **out, size_t bytes) {
    const size_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    unsigned char *at = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + PAGE, size, PROT_READ | PROT_WRITE) != 0)
        return cudaErrorMemoryAllocation;
    memset(at + PAGE, 0xff, size);
    *out = at + PAGE;
    return add(at + PAGE, size, size + 2 * PAGE);
}

SOFT_GPU_EXPORT cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags) {
    cudaError_t error = soft_enter();
    (void)soft_count("made");
    (void)flags;
    if (error == cudaSuccess && (!pHost || size == 0))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        soft_lock();
        error = soft_capture_forbids_unsafe("cudaHostAlloc");
        if (error == cudaSuccess)
            error = allocate(pHost, size);
        soft_unlock();
    }
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaFreeHost(void *p) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess && p) {
        soft_lock();
        error = soft_capture_forbids_unsafe("cudaFreeHost");
        host_range *r = error == cudaSuccess ? take_out(p, true) : NULL;
        if (error == cudaSuccess && !r)
            error = cudaErrorInvalidValue;
        if (r)
            (void)munmap((unsigned char *)p - PAGE, r->mapped);
        free(r);
        soft_unlock();
    }
    return soft_leave(error);
}
