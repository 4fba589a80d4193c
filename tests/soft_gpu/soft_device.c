// SPDX-License-Identifier: Apache-2.0
// Devices of the software GPU and their properties: those of an H200, under a name that says what
// it is.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

static __thread int current;

int soft_current_device(void) {
    return current;
}

size_t soft_device_memory(void) {
    const char *text = getenv("SOFT_GPU_MEMORY");
    return text && *text ? strtoull(text, NULL, 10) : (size_t)1 << 30;
}

size_t soft_others_memory(void) {
    const char *text = getenv("SOFT_GPU_OTHERS");
    return text ? strtoull(text, NULL, 10) : 0;
}

uint64_t soft_page(void) {
    enum { PAGE = 4096 };
    const char *text = getenv("SOFT_GPU_PAGE");
    const uint64_t page = text && *text ? strtoull(text, NULL, 10) : PAGE;
    if (page == 0 || page % PAGE != 0)
        soft_mistake("SOFT_GPU_PAGE is '%s', not a multiple of %d", text, PAGE);
    return page;
}

static bool is_device(int device) {
    return device >= 0 && device < SOFT_DEVICES;
}

SOFT_GPU_EXPORT cudaError_t cudaGetDeviceCount(int *count) {
    (void)soft_enter();
    *count = SOFT_DEVICES;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaSetDevice(int device) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess && !is_device(device))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess)
        current = device;
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return soft_leave(soft_enter());
}

SOFT_GPU_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    (void)soft_enter();
    if (!is_device(device))
        return soft_leave(cudaErrorInvalidDevice);
    memset(prop, 0, sizeof *prop);
    (void)snprintf(prop->name, sizeof prop->name, "software GPU");
    memset(prop->uuid.bytes, 0x50 + device, sizeof prop->uuid.bytes);
    prop->totalGlobalMem = soft_device_memory();
    prop->sharedMemPerBlock = 49152;
    prop->sharedMemPerBlockOptin = SOFT_GPU_SHARED_MAX;
    prop->sharedMemPerMultiprocessor = 233472;
    prop->reservedSharedMemPerBlock = 1024;
    prop->regsPerBlock = 65536;
    prop->regsPerMultiprocessor = 65536;
    prop->warpSize = 32;
    prop->memPitch = 2147483647;
    prop->maxThreadsPerBlock = SR_CUDA_THREADS;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->maxBlocksPerMultiProcessor = 32;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 2147483647;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->totalConstMem = 65536;
    prop->major = 9;
    prop->multiProcessorCount = 132;
    prop->canMapHostMemory = 1;
    prop->concurrentKernels = 1;
    prop->ECCEnabled = 1;
    prop->pciBusID = 0x18 + device;
    prop->asyncEngineCount = 3;
    prop->unifiedAddressing = 1;
    prop->memoryBusWidth = 6016;
    prop->l2CacheSize = 62914560;
    prop->streamPrioritiesSupported = 1;
    prop->canUseHostPointerForRegisteredMem = 1;
    prop->cooperativeLaunch = 1;
    prop->hostRegisterSupported = 1;
    prop->memoryPoolsSupported = 1;
    prop->textureAlignment = 512;
    prop->surfaceAlignment = 512;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr,
                                                   int device) {
    (void)soft_enter();
    static const struct {
        enum cudaDeviceAttr attr;
        int value;
    } values[] = {
        {cudaDevAttrMaxThreadsPerBlock, SR_CUDA_THREADS},
        {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, SOFT_GPU_SHARED_MAX},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 233472},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxRegistersPerBlock, 65536},
        {cudaDevAttrMultiProcessorCount, 132},
        {cudaDevAttrComputeCapabilityMajor, 9},
        {cudaDevAttrComputeCapabilityMinor, 0},
        {cudaDevAttrClockRate, 1980000},
        {cudaDevAttrMemoryClockRate, 3201000},
        {cudaDevAttrGlobalMemoryBusWidth, 6016},
        {cudaDevAttrL2CacheSize, 62914560},
        {cudaDevAttrIntegrated, 0},
        {cudaDevAttrEccEnabled, 1},
        {cudaDevAttrAsyncEngineCount, 3},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrPageableMemoryAccess, 0},
        {cudaDevAttrConcurrentManagedAccess, 1},
        {cudaDevAttrHostRegisterSupported, 1},
        {cudaDevAttrComputeMode, cudaComputeModeDefault},
        {cudaDevAttrMaxGridDimX, 2147483647},
        {cudaDevAttrMaxGridDimY, 65535},
        {cudaDevAttrMaxGridDimZ, 65535},
        {cudaDevAttrMemoryPoolsSupported, 1},
        {cudaDevAttrCooperativeLaunch, 1},
        {cudaDevAttrStreamPrioritiesSupported, 1},
        {cudaDevAttrConcurrentKernels, 1},
    };
    if (!is_device(device))
        return soft_leave(cudaErrorInvalidDevice);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i].attr == attr) {
            *value = values[i].value;
            return cudaSuccess;
        }
    }
    return soft_leave(soft_refuse(cudaErrorInvalidValue,
                                  "cudaDeviceGetAttribute: attribute %d has no value; add it to "
                                  "soft_device.c",
                                  (int)attr));
}

SOFT_GPU_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device,
                                                    int peerDevice) {
    (void)soft_enter();
    if (!is_device(device) || !is_device(peerDevice))
        return soft_leave(cudaErrorInvalidDevice);
    *canAccessPeer = device != peerDevice;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
    (void)soft_enter();
    if (!is_device(device))
        return soft_leave(cudaErrorInvalidDevice);
    if (!id || length < 13)
        return soft_leave(cudaErrorInvalidValue);
    (void)snprintf(id, (size_t)length, "0000:%02x:00.0", 0x18 + device);
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaDriverGetVersion(int *version) {
    (void)soft_enter();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaRuntimeGetVersion(int *version) {
    (void)soft_enter();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    const cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        *total = soft_device_memory();
        *free_bytes = soft_memory_left(current);
        soft_unlock();
    }
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaDeviceSynchronize(void) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = soft_capture_forbids_unsafe("cudaDeviceSynchronize");
        (void)soft_count("wait_for_all");
        if (error == cudaSuccess)
            soft_streams_wait_all();
        soft_unlock();
        if (error == cudaSuccess)
            error = soft_sticky();
    }
    return soft_leave(error);
}
