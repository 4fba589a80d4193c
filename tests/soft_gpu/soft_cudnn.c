// SPDX-License-Identifier: Apache-2.0
// The calls of the stand-in for cuDNN: errors, handles, and the life of descriptors.
#include "tests/soft_gpu/soft_cudnn.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu.h"

#define DESCRIPTOR_MAGIC UINT64_C(0x5d6e8f1c2b3a4907)
#define HANDLE_MAGIC UINT64_C(0x1f2e3d4c5b6a7988)
#define OLD_VERSION 8907 // 8.9.7

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static soft_descriptor *descriptors; // all that there ever were
static struct cudnnContext *handles;
static __thread char last_error[256];

static void lock(void) {
    (void)pthread_mutex_lock(&mutex);
}

static void unlock(void) {
    (void)pthread_mutex_unlock(&mutex);
}

static void *allocate(size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p)
        soft_gpu_mistake("no memory of the host is left");
    return p;
}

// ---- Errors ----

bool soft_cudnn_set_to(const char *value) {
    static const char *const known[] = {"",    "absent", "few",   "none",
                                        "old", "plans",  "rough", "samples"};
    const char *text = getenv("SOFT_CUDNN");
    bool found = !text;
    for (size_t i = 0; !found && i < sizeof known / sizeof *known; i++)
        found = strcmp(text, known[i]) == 0;
    if (!found)
        soft_gpu_mistake("SOFT_CUDNN is '%s', not absent, few, none, old, plans, rough or samples",
                         text);
    return text && strcmp(text, value) == 0;
}

cudnnStatus_t soft_cudnn_refuse(cudnnStatus_t status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

SOFT_GPU_EXPORT void cudnnGetLastErrorString(char *message, size_t max_size) {
    if (max_size > 0)
        (void)snprintf(message, max_size, "%s", last_error);
    last_error[0] = '\0';
}

SOFT_GPU_EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
    static const struct {
        cudnnStatus_t status;
        const char *name;
    } names[] = {
#define STATUS(name) {name, #name}
        STATUS(CUDNN_STATUS_SUCCESS),
        STATUS(CUDNN_STATUS_NOT_INITIALIZED),
        STATUS(CUDNN_STATUS_BAD_PARAM),
        STATUS(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH),
        STATUS(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE),
        STATUS(CUDNN_STATUS_NOT_SUPPORTED),
        STATUS(CUDNN_STATUS_EXECUTION_FAILED_CUDART),
#undef STATUS
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status)
            return names[i].name;
    return "CUDNN_STATUS_UNKNOWN";
}

SOFT_GPU_EXPORT size_t cudnnGetVersion(void) {
    return soft_cudnn_set_to("old") ? OLD_VERSION : CUDNN_VERSION;
}

// ---- Handles ----

struct cudnnContext *soft_cudnn_handle(cudnnHandle_t handle) {
    if (!handle || handle->magic != HANDLE_MAGIC)
        soft_gpu_mistake("cuDNN: %p is no handle", (void *)handle);
    if (!handle->live)
        soft_gpu_mistake("cuDNN: a call with a handle that was destroyed");
    return handle;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    int device = 0;
    if (soft_cudnn_set_to("absent"))
        return soft_cudnn_refuse(CUDNN_STATUS_NOT_INITIALIZED,
                                 "cudnnCreate: the libraries that it opens are absent");
    const int error = soft_gpu_allocates("cudnnCreate");
    if (error != 0 || cudaGetDevice(&device) != cudaSuccess)
        return soft_cudnn_refuse(CUDNN_STATUS_NOT_INITIALIZED, "cudnnCreate: CUDA's error %d",
                                 error);
    struct cudnnContext *h = allocate(sizeof *h);
    h->magic = HANDLE_MAGIC;
    h->live = true;
    h->device = device;
    lock();
    h->next = handles;
    handles = h;
    unlock();
    soft_gpu_count_event("cudnn_made");
    *handle = h;
    return CUDNN_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    lock();
    soft_cudnn_handle(handle)->live = false;
    unlock();
    soft_gpu_count_event("cudnn_destroyed");
    (void)soft_gpu_allocates("cudnnDestroy"); // frees memory, which a capture forbids as well
    return CUDNN_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    lock();
    struct cudnnContext *h = soft_cudnn_handle(handle);
    const int device = soft_gpu_stream_device(stream);
    if (device >= 0 && device != h->device)
        status = soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
                                   "cudnnSetStream: a stream of device %d, a handle of device %d",
                                   device, h->device);
    else
        h->stream = stream;
    unlock();
    return status;
}

// ---- Descriptors ----

const char *soft_cudnn_type_name(cudnnBackendDescriptorType_t type) {
    static const struct {
        cudnnBackendDescriptorType_t type;
        const char *name;
    } names[] = {
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor"},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution"},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "forward operation"},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, "backward data operation"},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         "backward filter operation"},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph"},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics"},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, "engine"},
        {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "knob choice"},
        {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine configuration"},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "execution plan"},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type)
            return names[i].name;
    return NULL;
}

bool soft_cudnn_is_operation(cudnnBackendDescriptorType_t type) {
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

soft_descriptor *soft_cudnn_descriptor(const void *descriptor) {
    union {
        const void *given;
        soft_descriptor *d;
    } p = {descriptor};
    if (!descriptor || p.d->magic != DESCRIPTOR_MAGIC)
        soft_gpu_mistake("cuDNN: %p is no descriptor", p.given);
    if (!p.d->body)
        soft_gpu_mistake("cuDNN: a call with a descriptor (%s) that was destroyed",
                         soft_cudnn_type_name(p.d->type));
    return p.d;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t descriptorType, cudnnBackendDescriptor_t *descriptor) {
    if (!soft_cudnn_type_name(descriptorType))
        soft_gpu_mistake("cuDNN: the stand-in has no descriptors of type %d", (int)descriptorType);
    soft_descriptor *d = allocate(sizeof *d);
    d->magic = DESCRIPTOR_MAGIC;
    d->type = descriptorType;
    d->body = allocate(sizeof *d->body);
    if (soft_cudnn_is_operation(descriptorType))
        d->body->operation.type = descriptorType;
    lock();
    d->next = descriptors;
    descriptors = d;
    unlock();
    soft_gpu_count_event("cudnn_made");
    *descriptor = d;
    return CUDNN_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    lock();
    soft_descriptor *d = soft_cudnn_descriptor(descriptor);
    free(d->body);
    d->body = NULL;
    unlock();
    soft_gpu_count_event("cudnn_destroyed");
    return CUDNN_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                       cudnnBackendAttributeName_t attributeName,
                                                       cudnnBackendAttributeType_t attributeType,
                                                       int64_t elementCount,
                                                       const void *arrayOfElements) {
    lock();
    const cudnnStatus_t status = soft_cudnn_set(soft_cudnn_descriptor(descriptor), attributeName,
                                                attributeType, elementCount, arrayOfElements);
    unlock();
    return status;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                       cudnnBackendAttributeName_t attributeName,
                                                       cudnnBackendAttributeType_t attributeType,
                                                       int64_t requestedElementCount,
                                                       int64_t *elementCount,
                                                       void *arrayOfElements) {
    lock();
    const cudnnStatus_t status =
        soft_cudnn_get(soft_cudnn_descriptor(descriptor), attributeName, attributeType,
                       requestedElementCount, elementCount, arrayOfElements);
    unlock();
    return status;
}

static cudnnStatus_t complete(const soft_descriptor *d) {
    soft_body *b = d->body;
    switch ((int)d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        soft_cudnn_check_tensor(&b->tensor);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return soft_cudnn_check_window(&b->window);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        soft_cudnn_check_graph(&b->graph);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        soft_cudnn_heuristics(&b->heuristics);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return soft_cudnn_engine(&b->engine);
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
        return CUDNN_STATUS_SUCCESS; // which knobs there are depends on the engine
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return soft_cudnn_config(&b->config);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return soft_cudnn_plan(&b->plan);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return soft_cudnn_check_pack(&b->pack);
    default:
        return soft_cudnn_check_operation(&b->operation);
    }
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    lock();
    soft_descriptor *d = soft_cudnn_descriptor(descriptor);
    cudnnStatus_t status = soft_cudnn_check_set(d);
    if (d->finalized)
        status = soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "%s: it was finalized before",
                                   soft_cudnn_type_name(d->type));
    if (status == CUDNN_STATUS_SUCCESS)
        status = complete(d);
    d->finalized = d->finalized || status == CUDNN_STATUS_SUCCESS;
    unlock();
    return status;
}

// ---- Execution ----

static const soft_body *finalized(cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendDescriptorType_t type) {
    const soft_descriptor *d = soft_cudnn_descriptor(descriptor);
    if (d->type != type || !d->finalized)
        soft_gpu_mistake("cuDNN: cudnnBackendExecute with a descriptor (%s%s) in the place of one "
                         "(%s)",
                         soft_cudnn_type_name(d->type), d->finalized ? "" : ", not finalized",
                         soft_cudnn_type_name(type));
    return d->body;
}

SOFT_GPU_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                                  cudnnBackendDescriptor_t executionPlan,
                                                  cudnnBackendDescriptor_t variantPack) {
    soft_conv_args args;
    lock();
    const struct cudnnContext *h = soft_cudnn_handle(handle);
    const cudaStream_t stream = h->stream;
    const soft_plan plan = finalized(executionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)->plan;
    const soft_body *pack = finalized(variantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if (plan.handle != handle)
        soft_gpu_mistake("cuDNN: a plan is executed by a handle that it was not made for");
    cudnnStatus_t status = soft_cudnn_bind(&plan, &pack->pack, h->device, &args);
    unlock();
    if (status == CUDNN_STATUS_SUCCESS)
        status = soft_cudnn_enqueue(&plan, &args, stream);
    if (status == CUDNN_STATUS_SUCCESS)
        soft_gpu_count_event("cudnn_executed");
    return status;
}
