// SPDX-License-Identifier: Apache-2.0
// "cuda": NVIDIA GPUs. "cuda:N" is number N of those that the process sees (CUDA_VISIBLE_DEVICES).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/cuda/cublaslt_provider.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cuda_plan.h"
#include "kernels/cuda/cudnn_provider.h"

enum { ALIGNMENT = 256 }; // of allocations inside ranges, as of cudaMalloc

// Why no GPU can be used, with the cure.
static sr_status fail_absent(cudaError_t error) {
    (void)cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        return SR_FAIL(SR_E_DEVICE, "no NVIDIA driver of CUDA 13 or newer is loaded; install "
                                    "driver 580 or newer");
    if (error == cudaErrorNoDevice)
        return SR_FAIL(SR_E_DEVICE, "the NVIDIA driver finds no GPU; look at nvidia-smi, and at "
                                    "CUDA_VISIBLE_DEVICES");
    return SR_FAIL(SR_E_DEVICE, "%s (%s); look at nvidia-smi", cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

sr_status sr_cuda_enter(const sr_device *device) {
    static _Thread_local int current = -1;
    const int ordinal = device->properties.ordinal;
    if (current == ordinal)
        return SR_OK;
    const cudaError_t error = cudaSetDevice(ordinal);
    if (error != cudaSuccess)
        return sr_cuda_fail(device, error, "using %s", device->properties.name);
    current = ordinal;
    return SR_OK;
}

// ---- What a GPU is ----

static sr_status count(int *out) {
    const cudaError_t error = cudaGetDeviceCount(out);
    if (error != cudaSuccess)
        return fail_absent(error);
    return *out > 0 ? SR_OK : fail_absent(cudaErrorNoDevice);
}

static sr_status describe(int ordinal, sr_device_properties *out) {
    struct cudaDeviceProp p;
    const cudaError_t error = cudaGetDeviceProperties(&p, ordinal);
    if (error != cudaSuccess)
        return fail_absent(error);
    (void)snprintf(out->model, sizeof out->model, "%.90s", p.name);
    out->memory = p.totalGlobalMem;
    out->alignment = ALIGNMENT;
    out->asynchronous = true;
    out->executors = 1;
    return SR_OK;
}

// Sums of tensor cores, and what libraries choose, depend on the model.
static char *numerics(int ordinal, uint32_t features, char out[SR_DEVICE_TEXT]) {
    struct cudaDeviceProp p = {.name = "unknown"};
    (void)features;
    (void)cudaGetDeviceProperties(&p, ordinal);
    (void)snprintf(out, SR_DEVICE_TEXT, "cuda %.40s, %d SMs", p.name, p.multiProcessorCount);
    return out;
}

static char *identity(int ordinal, char out[SR_DEVICE_IDENTITY]) {
    struct cudaDeviceProp p = {.name = "unknown"};
    int driver = 0;
    (void)cudaGetDeviceProperties(&p, ordinal);
    (void)cudaDriverGetVersion(&driver);
    (void)snprintf(out, SR_DEVICE_IDENTITY, "%.90s; %d SMs; sm_%d%d; driver of CUDA %d.%d", p.name,
                   p.multiProcessorCount, p.major, p.minor, driver / 1000, driver % 1000 / 10);
    return out;
}

// Exchanges between GPUs are faster where each reaches the memory of the others.
static char *details(int ordinal, char out[SR_DEVICE_IDENTITY]) {
    int driver = 0, runtime = 0, devices = 0, peers = 0, reached;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetDeviceCount(&devices);
    for (int i = 0; i < devices; i++)
        if (i != ordinal && cudaDeviceCanAccessPeer(&reached, ordinal, i) == cudaSuccess)
            peers += reached;
    int length = snprintf(out, SR_DEVICE_IDENTITY, "CUDA %d.%d, driver of CUDA %d.%d, %s, %s",
                          runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10,
                          sr_cudnn_is_found() ? sr_cudnn_version() : "no cuDNN",
                          sr_cublaslt_is_found() ? sr_cublaslt_version() : "no cuBLASLt");
    if (devices > 1)
        (void)snprintf(out + length, SR_DEVICE_IDENTITY - (size_t)length,
                       ", peer access to %d of %d others", peers, devices - 1);
    return out;
}

// ---- Opening ----

static void close_device(sr_device *device) {
    sr_cuda_device *state = sr_cuda_state(device);
    if (state->copies)
        (void)cudaStreamDestroy(state->copies);
    (void)pthread_mutex_destroy(&state->memory_lock);
    (void)pthread_mutex_destroy(&state->log_lock);
    sr_free(state);
    device->state = NULL;
}

static void warn_of_missing(void) {
    const bool convolutions = !sr_cudnn_is_found(), products = !sr_cublaslt_is_found();
    if (convolutions || products)
        SR_WARN("%s%s%s in bf16 and fp16 are slow: %s%s%s", convolutions ? "convolutions" : "",
                convolutions && products ? " and " : "", products ? "matrix products" : "",
                sr_cudnn_missing(), convolutions && products ? "; " : "", sr_cublaslt_missing());
}

static sr_cuda_graphs graphs_asked_for(void) {
    const char *graphs = getenv("SERRIED_CUDA_GRAPHS");
    if (graphs && strcmp(graphs, "off") == 0)
        return SR_CUDA_GRAPHS_NONE;
    if (graphs && strcmp(graphs, "chain") == 0)
        return SR_CUDA_GRAPHS_CHAINED;
    if (graphs && *graphs)
        SR_WARN("SERRIED_CUDA_GRAPHS is '%s': only 'off' and 'chain' have an effect", graphs);
    return SR_CUDA_GRAPHS_BRANCHED;
}

// Whether kernels follow each other without a gap, where their machine code can.
static bool may_overlap(int ordinal) {
    struct cudaDeviceProp p;
    const char *overlap = getenv("SERRIED_CUDA_OVERLAP");
    const bool off = overlap && strcmp(overlap, "off") == 0;
    if (overlap && *overlap && !off)
        SR_WARN("SERRIED_CUDA_OVERLAP is '%s': only 'off' has an effect", overlap);
    return !off && cudaGetDeviceProperties(&p, ordinal) == cudaSuccess &&
           p.major * 100 + p.minor * 10 == SR_CUDA_OVERLAPPING;
}

static pthread_once_t warned = PTHREAD_ONCE_INIT; // a process opens its device several times

static sr_status open_device(sr_device *device) {
    sr_cuda_device *state = sr_alloc(sizeof *state, "device");
    if (!state)
        return SR_E_MEMORY;
    (void)pthread_mutex_init(&state->memory_lock, NULL);
    (void)pthread_mutex_init(&state->log_lock, NULL);
    (void)pthread_once(&warned, warn_of_missing);
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    state->blocking = blocking && strcmp(blocking, "1") == 0;
    state->graphs = state->blocking ? SR_CUDA_GRAPHS_NONE : graphs_asked_for();
    if (may_overlap(device->properties.ordinal))
        sr_cuda_launch_overlapping();
    device->state = state;
    sr_status status = sr_cuda_enter(device);
    if (status == SR_OK) {
        const cudaError_t error =
            cudaStreamCreateWithPriority(&state->copies, cudaStreamNonBlocking, 0);
        status = error == cudaSuccess ? sr_cuda_memory_open(device)
                                      : sr_cuda_fail(device, error, "making a stream of %s",
                                                     device->properties.name);
    }
    if (status != SR_OK)
        close_device(device);
    return status;
}

const sr_device_ops sr_device_cuda = {
    .struct_size = sizeof(sr_device_ops),
    .abi = SR_DEVICE_ABI,
    .name = "cuda",
    .help = "NVIDIA GPUs",
    .kernels = "cuda",
    .count = count,
    .describe = describe,
    .numerics = numerics,
    .identity = identity,
    .details = details,
    .open = open_device,
    .close = close_device,
    .reserve = sr_cuda_reserve,
    .commit = sr_cuda_commit,
    .release = sr_cuda_release,
    .get_memory = sr_cuda_get_memory,
    .register_host = sr_cuda_register_host,
    .unregister_host = sr_cuda_unregister_host,
    .upload = sr_cuda_upload,
    .download = sr_cuda_download,
    .copy = sr_cuda_copy,
    .stream_create = sr_cuda_stream_create,
    .stream_free = sr_cuda_stream_free,
    .stream_flush = sr_cuda_stream_flush,
    .stream_clear = sr_cuda_stream_clear,
    .stream_launch = sr_cuda_stream_launch,
    .stream_wait_event = sr_cuda_stream_wait_event,
    .stream_wait = sr_cuda_stream_wait,
    .event_create = sr_cuda_event_create,
    .event_free = sr_cuda_event_free,
    .event_record = sr_cuda_event_record,
    .event_done = sr_cuda_event_done,
    .event_wait = sr_cuda_event_wait,
    .event_elapsed_ns = sr_cuda_event_elapsed_ns,
};
