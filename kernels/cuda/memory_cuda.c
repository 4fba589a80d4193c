// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU: ranges of addresses to which physical memory is mapped as they grow.
//
// The driver's calls for virtual memory are not part of the runtime library; their addresses are
// asked for, so that nothing links to the driver, which machines that build do not have.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <pthread.h>

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
    if (error != CUDA_ERROR_OUT_OF_MEMORY)
        return SR_FAIL(SR_E_DEVICE, "%s: error %d of the driver as it %s %s",
                       device->properties.name, (int)error, what, sr_text_bytes(bytes, wanted));
    (void)cudaMemGetInfo(&unused, &total);
    return SR_FAIL(SR_E_MEMORY,
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

// ---- Ranges ----

static size_t whole(const sr_device *device, size_t bytes) {
    const size_t granularity = sr_cuda_state(device)->granularity;
    return (bytes + granularity - 1) / granularity * granularity;
}

sr_status sr_cuda_reserve(sr_device *device, sr_device_range *range) {
    const size_t bytes = whole(device, range->limit);
    CUdeviceptr base;
    SR_TRY(sr_cuda_enter(device));
    const CUresult error = driver.reserve(&base, bytes, 0, 0, 0);
    if (error != CUDA_SUCCESS)
        return fail(error, "reserved", bytes, device);
    range->base.at = base;
    return SR_OK;
}

// Maps new memory at an address.
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

sr_status sr_cuda_commit(sr_device *device, sr_device_range *range, size_t bytes) {
    const size_t before = whole(device, range->committed), after = whole(device, bytes);
    cudaStream_t stream = sr_cuda_state(device)->copies;
    if (after == before)
        return SR_OK;
    SR_TRY(sr_cuda_enter(device));
    const CUresult failed = map(device, range->base.at + before, after - before);
    if (failed != CUDA_SUCCESS)
        return fail(failed, "mapped", after - before, device);
    void *const fresh = (void *)(range->base.at + before);
    cudaError_t error = cudaMemsetAsync(fresh, 0, after - before, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess)
        return SR_OK;
    (void)driver.unmap(range->base.at + before, after - before);
    return sr_cuda_fail(error, "clearing new memory of %s", device->properties.name);
}

void sr_cuda_release(sr_device *device, sr_device_range *range) {
    const size_t mapped = whole(device, range->committed);
    if (sr_cuda_enter(device) != SR_OK)
        return;
    if (mapped > 0)
        (void)driver.unmap(range->base.at, mapped);
    (void)driver.free(range->base.at, whole(device, range->limit));
}

// ---- Host memory ----

sr_status sr_cuda_register_host(sr_device *device, void *memory, size_t bytes) {
    char text[16];
    SR_TRY(sr_cuda_enter(device));
    const cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterDefault);
    return error == cudaSuccess
               ? SR_OK
               : sr_cuda_fail(error, "pinning %s of host memory (ulimit -l limits it)",
                              sr_text_bytes(bytes, text));
}

void sr_cuda_unregister_host(sr_device *device, void *memory) {
    if (sr_cuda_enter(device) == SR_OK)
        (void)cudaHostUnregister(memory);
}
