// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU: ranges of addresses to which physical memory is mapped as they grow.
//
// Physical memory comes in pieces of 2 MiB. A range that is smaller than a piece gets pages of a
// shared one, a *slab*, which is freed when none of its pages is in use.
//
// The driver's calls for virtual memory are not part of the runtime library; their addresses are
// looked up at run time, so that nothing links to the driver, which build machines may lack.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <pthread.h>

#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "kernels/cuda/cuda_internal.h"

// Calls of the driver, of the version whose signature these types have.
static struct {
    PFN_cuMemAddressReserve_v10020 reserve;
    PFN_cuMemAddressFree_v10020 free;
    PFN_cuMemCreate_v10020 create;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemMap_v10020 map;
    PFN_cuMemUnmap_v10020 unmap;
    PFN_cuMemSetAccess_v10020 set_access;
    PFN_cuMemGetAllocationGranularity_v10020 granularity;
} driver;

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

static sr_status find_call(const char *name, void *out) {
    enum { VERSION = 10020 };
    enum cudaDriverEntryPointQueryResult found;
    void **const entry = out;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, entry, VERSION, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
        return SR_FAIL(SR_E_DEVICE,
                       "the NVIDIA driver has no %s; install the driver of CUDA 13 (580) or newer",
                       name);
    return SR_OK;
}

static sr_status find_calls(void) {
    const struct {
        const char *name;
        void *out;
    } calls[] = {
        {"cuMemAddressReserve", &driver.reserve},
        {"cuMemAddressFree", &driver.free},
        {"cuMemCreate", &driver.create},
        {"cuMemRelease", &driver.release},
        {"cuMemMap", &driver.map},
        {"cuMemUnmap", &driver.unmap},
        {"cuMemSetAccess", &driver.set_access},
        {"cuMemGetAllocationGranularity", &driver.granularity},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        SR_TRY(find_call(calls[i].name, calls[i].out));
    return SR_OK;
}

static sr_status fail(CUresult error, const char *what, size_t bytes, const sr_device *device) {
    char wanted[16], left[16];
    size_t unused = 0, total;
    cudaError_t lost;
    if (sr_cuda_is_lost(device, &lost))
        return sr_cuda_fail_lost(device, lost);
    if (error != CUDA_ERROR_OUT_OF_MEMORY)
        return SR_FAIL(SR_E_DEVICE, "%s: error %d of the driver as it %s %s",
                       device->properties.name, (int)error, what, sr_text_bytes(bytes, wanted));
    (void)cudaMemGetInfo(&unused, &total);
    return SR_FAIL(SR_E_DEVICE_MEMORY,
                   "%s has %s of memory left, %s more is needed; lower the batch, or raise lanes "
                   "(changes BatchNorm and results)",
                   device->properties.name, sr_text_bytes(unused, left),
                   sr_text_bytes(bytes, wanted));
}

static CUmemAllocationProp physical(const sr_device *device) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->properties.ordinal}};
}

sr_status sr_cuda_memory_open(sr_device *device) {
    const CUmemAllocationProp prop = physical(device);
    (void)pthread_mutex_lock(&driver_lock);
    const sr_status status = driver.granularity ? SR_OK : find_calls();
    (void)pthread_mutex_unlock(&driver_lock);
    SR_TRY(status);
    const CUresult error = driver.granularity(&sr_cuda_state(device)->granularity, &prop,
                                              CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    return error == CUDA_SUCCESS ? SR_OK : fail(error, "described its pages of", 0, device);
}

// ---- Pieces of memory ----

static size_t whole(const sr_device *device, size_t bytes) {
    const size_t granularity = sr_cuda_state(device)->granularity;
    return (bytes + granularity - 1) / granularity * granularity;
}

static void count_mapped(const sr_device *device, size_t more, size_t less) {
    sr_cuda_device *d = sr_cuda_state(device);
    (void)pthread_mutex_lock(&d->memory_lock);
    d->mapped = d->mapped + more - less;
    (void)pthread_mutex_unlock(&d->memory_lock);
}

// Maps new memory at an address, whole pieces.
static CUresult map(const sr_device *device, CUdeviceptr at, size_t bytes) {
    const CUmemAllocationProp prop = physical(device);
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory;
    CUresult error = driver.create(&memory, bytes, &prop, 0);
    if (error != CUDA_SUCCESS)
        return error;
    error = driver.map(at, bytes, 0, memory, 0);
    (void)driver.release(memory); // what is mapped stays
    if (error != CUDA_SUCCESS)
        return error;
    error = driver.set_access(at, bytes, &access, 1);
    if (error != CUDA_SUCCESS)
        (void)driver.unmap(at, bytes);
    return error;
}

static sr_status reserve(const sr_device *device, size_t bytes, CUdeviceptr *out) {
    const CUresult error = driver.reserve(out, bytes, 0, 0, 0);
    char text[16];
    if (error == CUDA_ERROR_OUT_OF_MEMORY)
        return SR_FAIL(SR_E_DEVICE_MEMORY, "%s has no range of %s of addresses left",
                       device->properties.name, sr_text_bytes(bytes, text));
    return error == CUDA_SUCCESS ? SR_OK : fail(error, "reserved", bytes, device);
}

static sr_status clear(const sr_device *device, CUdeviceptr at, size_t bytes) {
    cudaStream_t stream = sr_cuda_state(device)->copies;
    cudaError_t error = cudaMemsetAsync((void *)at, 0, bytes, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess)
        return sr_cuda_fail(device, error, "clearing new memory of %s", device->properties.name);
    return SR_OK;
}

// ---- Slabs ----

enum { SLAB_PAGE = 4096 }; // what ranges are multiples of

typedef struct sr_cuda_slab {
    struct sr_cuda_slab *next;
    CUdeviceptr at;
    size_t used;  // pages
    bool taken[]; // each page
} sr_cuda_slab;

static bool is_small(const sr_device *device, const sr_device_range *range) {
    return range->limit < sr_cuda_state(device)->granularity;
}

// The first of so many free pages beside each other; the number of pages where there are none.
static size_t find_pages(const sr_cuda_slab *slab, size_t all, size_t wanted) {
    size_t run = 0;
    for (size_t i = 0; i < all; i++) {
        run = slab->taken[i] ? 0 : run + 1;
        if (run == wanted)
            return i + 1 - wanted;
    }
    return all;
}

static sr_status add_slab(sr_device *device, sr_cuda_slab **out) {
    sr_cuda_device *d = sr_cuda_state(device);
    const size_t bytes = d->granularity;
    sr_cuda_slab *slab = sr_alloc(sizeof *slab + bytes / SLAB_PAGE * sizeof *slab->taken, "device");
    if (!slab)
        return SR_E_MEMORY;
    sr_status status = reserve(device, bytes, &slab->at);
    if (status == SR_OK) {
        const CUresult error = map(device, slab->at, bytes);
        status = error == CUDA_SUCCESS ? SR_OK : fail(error, "mapped", bytes, device);
        if (status != SR_OK)
            (void)driver.free(slab->at, bytes);
    }
    if (status != SR_OK) {
        sr_free(slab);
        return status;
    }
    d->mapped += bytes;
    slab->next = d->slabs;
    d->slabs = slab;
    *out = slab;
    return SR_OK;
}

// With the lock held.
static sr_status take_pages(sr_device *device, sr_device_range *range) {
    sr_cuda_device *d = sr_cuda_state(device);
    const size_t all = d->granularity / SLAB_PAGE, wanted = range->limit / SLAB_PAGE;
    sr_cuda_slab *slab = d->slabs;
    size_t first = all;
    while (slab && (first = find_pages(slab, all, wanted)) == all)
        slab = slab->next;
    if (!slab) {
        SR_TRY(add_slab(device, &slab));
        first = 0;
    }
    for (size_t i = 0; i < wanted; i++)
        slab->taken[first + i] = true;
    slab->used += wanted;
    range->base.at = slab->at + first * SLAB_PAGE;
    range->mapping = slab;
    return SR_OK;
}

// With the lock held.
static void give_back_pages(sr_device *device, const sr_device_range *range) {
    sr_cuda_device *d = sr_cuda_state(device);
    sr_cuda_slab *slab = range->mapping, **at = &d->slabs;
    const size_t first = (range->base.at - slab->at) / SLAB_PAGE, count = range->limit / SLAB_PAGE;
    for (size_t i = 0; i < count; i++)
        slab->taken[first + i] = false;
    slab->used -= count;
    if (slab->used > 0)
        return;
    while (*at != slab)
        at = &(*at)->next;
    *at = slab->next;
    d->mapped -= d->granularity;
    (void)driver.unmap(slab->at, d->granularity);
    (void)driver.free(slab->at, d->granularity);
    sr_free(slab);
}

// ---- Ranges ----

sr_status sr_cuda_reserve(sr_device *device, sr_device_range *range) {
    sr_cuda_device *d = sr_cuda_state(device);
    CUdeviceptr base;
    SR_TRY(sr_cuda_enter(device));
    if (is_small(device, range)) {
        (void)pthread_mutex_lock(&d->memory_lock);
        const sr_status status = take_pages(device, range);
        (void)pthread_mutex_unlock(&d->memory_lock);
        return status;
    }
    SR_TRY(reserve(device, whole(device, range->limit), &base));
    range->base.at = base;
    return SR_OK;
}

static sr_status commit_pieces(sr_device *device, const sr_device_range *range, size_t bytes) {
    const size_t before = whole(device, range->committed), after = whole(device, bytes);
    if (after == before)
        return SR_OK;
    const CUresult failed = map(device, range->base.at + before, after - before);
    if (failed != CUDA_SUCCESS)
        return fail(failed, "mapped", after - before, device);
    const sr_status status = clear(device, range->base.at + before, after - before);
    if (status == SR_OK)
        count_mapped(device, after - before, 0);
    else
        (void)driver.unmap(range->base.at + before, after - before);
    return status;
}

sr_status sr_cuda_commit(sr_device *device, sr_device_range *range, size_t bytes) {
    SR_TRY(sr_cuda_enter(device));
    if (is_small(device, range))
        return clear(device, range->base.at + range->committed, bytes - range->committed);
    return commit_pieces(device, range, bytes);
}

void sr_cuda_release(sr_device *device, sr_device_range *range) {
    sr_cuda_device *d = sr_cuda_state(device);
    const size_t mapped = whole(device, range->committed);
    if (sr_cuda_enter(device) != SR_OK)
        return;
    if (is_small(device, range)) {
        (void)pthread_mutex_lock(&d->memory_lock);
        give_back_pages(device, range);
        (void)pthread_mutex_unlock(&d->memory_lock);
        return;
    }
    if (mapped > 0)
        (void)driver.unmap(range->base.at, mapped);
    (void)driver.free(range->base.at, whole(device, range->limit));
    count_mapped(device, 0, mapped);
}

bool sr_cuda_get_memory(sr_device *device, sr_device_memory *out) {
    sr_cuda_device *d = sr_cuda_state(device);
    size_t unused, total;
    if (sr_cuda_enter(device) != SR_OK || cudaMemGetInfo(&unused, &total) != cudaSuccess)
        return false;
    (void)pthread_mutex_lock(&d->memory_lock);
    *out = (sr_device_memory){.total = total, .available = unused, .own = d->mapped};
    (void)pthread_mutex_unlock(&d->memory_lock);
    return true;
}

// ---- Host memory ----

sr_status sr_cuda_register_host(sr_device *device, void *memory, size_t bytes) {
    char text[16];
    SR_TRY(sr_cuda_enter(device));
    const cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterDefault);
    return error == cudaSuccess
               ? SR_OK
               : sr_cuda_fail(device, error, "pinning %s of host memory (ulimit -l limits it)",
                              sr_text_bytes(bytes, text));
}

void sr_cuda_unregister_host(sr_device *device, void *memory) {
    if (sr_cuda_enter(device) == SR_OK)
        (void)cudaHostUnregister(memory);
}
