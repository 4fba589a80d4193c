// SPDX-License-Identifier: Apache-2.0
// Kernels of the software GPU: those that modules register, and calls that launch or ask about one.
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

enum { SHARED_DEFAULT = 49152 }; // bytes of shared memory that a kernel may have without opting in

static soft_kernel *kernels; // in the order of their functions' addresses
static size_t kernel_count;

static int compare(const void *a, const void *b) {
    const uintptr_t x = (uintptr_t)((const soft_kernel *)a)->entry.function;
    const uintptr_t y = (uintptr_t)((const soft_kernel *)b)->entry.function;
    return x < y ? -1 : x > y;
}

void soft_gpu_register(const void *begin, const void *end) {
    const sr_cuda_kernel *from = begin;
    const size_t count = (size_t)((const sr_cuda_kernel *)end - from);
    soft_lock();
    kernels = realloc(kernels, (kernel_count + count + 1) * sizeof *kernels);
    if (!kernels)
        soft_mistake("no memory of the host is left");
    for (size_t i = 0; i < count; i++)
        kernels[kernel_count++] = (soft_kernel){from[i], SHARED_DEFAULT};
    qsort(kernels, kernel_count, sizeof *kernels, compare);
    soft_unlock();
}

static soft_kernel *find(const void *function) {
    const soft_kernel key = {.entry = {.function = function}};
    return kernel_count > 0 ? bsearch(&key, kernels, kernel_count, sizeof key, compare) : NULL;
}

// ---- Launches ----

static bool is_grid(const dim3 *blocks, const dim3 *threads) {
    return blocks->x > 0 && blocks->y > 0 && blocks->z > 0 && threads->x > 0 && threads->y > 0 &&
           threads->z > 0 && blocks->x <= INT32_MAX && blocks->y <= UINT16_MAX &&
           blocks->z <= UINT16_MAX && threads->x <= 1024 && threads->y <= 1024 &&
           threads->z <= 64 && (uint64_t)threads->x * threads->y * threads->z <= SR_CUDA_THREADS;
}

// Whether the launch has no attribute but that it may begin before the kernel in front has ended.
static bool has_known_attributes(const cudaLaunchConfig_t *c) {
    return c->numAttrs == 0 ||
           (c->numAttrs == 1 &&
            c->attrs[0].id == cudaLaunchAttributeProgrammaticStreamSerialization);
}

// What CUDA checks when a kernel is launched, and that the struct can be passed.
static cudaError_t check(const cudaLaunchConfig_t *c, const soft_kernel *k) {
    const sr_cuda_kernel *e = &k->entry;
    const dim3 *b = &c->blockDim, *g = &c->gridDim;
    if (!is_grid(g, b))
        return soft_refuse(cudaErrorInvalidConfiguration,
                           "kernel %s: no grid of %u x %u x %u blocks of %u x %u x %u threads",
                           e->name, g->x, g->y, g->z, b->x, b->y, b->z);
    if (b->x * b->y * b->z > (unsigned)e->threads)
        return soft_refuse(cudaErrorLaunchOutOfResources,
                           "kernel %s: %u threads; its launch bound is %d", e->name,
                           b->x * b->y * b->z, e->threads);
    if (c->dynamicSmemBytes > (size_t)k->shared_max)
        return soft_refuse(cudaErrorInvalidValue,
                           "kernel %s: %zu bytes of shared memory; it may have %d", e->name,
                           c->dynamicSmemBytes, k->shared_max);
    if (e->argument_bytes <= 16 || e->argument_bytes > SOFT_ARGUMENT_MAX)
        return soft_refuse(cudaErrorInvalidValue,
                           "kernel %s: its struct of %zu bytes has not 17 to %u", e->name,
                           e->argument_bytes, SOFT_ARGUMENT_MAX);
    if (!has_known_attributes(c))
        return soft_refuse(cudaErrorNotSupported, "kernel %s: attributes of a launch", e->name);
    return cudaSuccess;
}

static soft_command *make(const cudaLaunchConfig_t *c, const soft_kernel *k,
                          const void *arguments) {
    soft_command *command = soft_command_new(SOFT_LAUNCH);
    const size_t padded = (k->entry.argument_bytes + 15) / 16 * 16;
    soft_launch *launch = calloc(1, sizeof *launch + padded);
    if (!launch)
        soft_mistake("no memory of the host is left");
    launch->kernel = k->entry;
    launch->blocks = (uint3){c->gridDim.x, c->gridDim.y, c->gridDim.z};
    launch->threads = (uint3){c->blockDim.x, c->blockDim.y, c->blockDim.z};
    launch->shared = c->dynamicSmemBytes;
    launch->overlaps = c->numAttrs > 0 && c->attrs[0].val.programmaticStreamSerializationAllowed;
    memcpy(launch->arguments, arguments, k->entry.argument_bytes);
    command->launch = launch;
    return command;
}

static cudaError_t launch(const cudaLaunchConfig_t *c, const void *function, void **arguments) {
    struct CUstream_st *stream = soft_stream(c->stream);
    const soft_kernel *kernel = find(function);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (!kernel)
        return soft_refuse(cudaErrorInvalidDeviceFunction, "a launch of %p, which is no kernel",
                           (void *)(uintptr_t)function);
    if (stream->device != soft_current_device())
        return soft_refuse(cudaErrorInvalidResourceHandle,
                           "kernel %s: the stream is of device %d, but device %d is current",
                           kernel->entry.name, stream->device, soft_current_device());
    const cudaError_t error = check(c, kernel);
    if (error != cudaSuccess)
        return error;
    if (soft_fault("refuse"))
        return cudaErrorLaunchOutOfResources;
    if (soft_fault("lost")) {
        soft_set_sticky(cudaErrorDevicesUnavailable);
        return cudaErrorDevicesUnavailable;
    }
    soft_command *command = make(c, kernel, arguments[0]);
    soft_check_arguments(command, stream->device);
    stream->computes = true;
    if (command->launch->overlaps)
        (void)soft_count("overlap");
    if (stream->capture)
        return soft_capture_add(stream, command);
    (void)soft_count("alone");
    if (soft_fault("launch"))
        command->fault = cudaErrorLaunchFailure;
    soft_stream_put(stream, command);
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (!blocking || strcmp(blocking, "1") != 0)
        return cudaSuccess;
    soft_stream_wait(stream, stream->put);
    return soft_sticky();
}

SOFT_GPU_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
                                                void **args) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = launch(config, func, args);
        soft_unlock();
    }
    return soft_leave(error);
}

// ---- Attributes ----

SOFT_GPU_EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                                  const void *function) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        const soft_kernel *k = find(function);
        memset(attributes, 0, sizeof *attributes);
        if (k) {
            attributes->maxThreadsPerBlock = k->entry.threads;
            attributes->maxDynamicSharedSizeBytes = k->shared_max;
            attributes->numRegs = 32;
            attributes->ptxVersion = 90;
            attributes->binaryVersion = 90;
        } else {
            error = cudaErrorInvalidDeviceFunction;
        }
        soft_unlock();
    }
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaFuncSetAttribute(const void *function,
                                                 enum cudaFuncAttribute attribute, int value) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        soft_kernel *k = find(function);
        if (!k)
            error = cudaErrorInvalidDeviceFunction;
        else if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
                 value > SOFT_GPU_SHARED_MAX)
            error = cudaErrorInvalidValue;
        else
            k->shared_max = value;
        soft_unlock();
    }
    return soft_leave(error);
}
