// SPDX-License-Identifier: Apache-2.0
// Execution of plans of the stand-in for cuDNN: kernels on the stream of the handle. Wrong
// pointers, which cuDNN does not find for certain, end the process.
#include <stdio.h>

#include "tests/soft_gpu/soft_cudnn.h"
#include "tests/soft_gpu/soft_gpu.h"

// ---- Pointers ----

static int64_t tensor_bytes(const soft_tensor *t) {
    return 2 * t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static void check_memory(const char *what, const void *pointer, int64_t bytes, int64_t alignment,
                         int device) {
    const size_t left = soft_gpu_bytes_at(pointer, device);
    if (!pointer)
        soft_gpu_mistake("cuDNN: %s is NULL", what);
    if (left == 0)
        soft_gpu_mistake("cuDNN: %s, %p, is no memory that device %d may access", what, pointer,
                         device);
    if (left < (size_t)bytes)
        soft_gpu_mistake("cuDNN: %s needs %lld bytes, but %zu are left at %p", what,
                         (long long)bytes, left, pointer);
    if ((uintptr_t)pointer % (uintptr_t)alignment != 0)
        soft_gpu_mistake("cuDNN: %s, %p, is not aligned to %lld bytes", what, pointer,
                         (long long)alignment);
}

static void *find(const soft_pack *pack, int64_t uid, bool *found) {
    for (int64_t i = 0; i < pack->uids; i++) {
        if (pack->uid[i] == uid) {
            *found = true;
            return pack->pointer[i];
        }
    }
    return NULL;
}

static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}

// The workspace overlaps no tensor, and the result no operand.
static void check_overlaps(const soft_tensor *const tensors[3], void *const pointers[3], int result,
                           const void *workspace, int64_t workspace_bytes) {
    for (int i = 0; i < 3; i++) {
        const int64_t bytes = tensor_bytes(tensors[i]);
        if (workspace_bytes > 0 && overlap(pointers[i], bytes, workspace, workspace_bytes))
            soft_gpu_mistake("cuDNN: the workspace overlaps the tensor with unique id %lld",
                             (long long)tensors[i]->uid);
        if (i != result &&
            overlap(pointers[i], bytes, pointers[result], tensor_bytes(tensors[result])))
            soft_gpu_mistake("cuDNN: the result overlaps the tensor with unique id %lld",
                             (long long)tensors[i]->uid);
    }
}

cudnnStatus_t soft_cudnn_bind(const soft_plan *plan, const soft_pack *pack, int device,
                              soft_conv_args *out) {
    const soft_operation *o = &plan->config.engine.graph.operation;
    const soft_tensor *const tensors[3] = {&o->x, &o->w, &o->y};
    void *pointers[3], *workspace = plan->workspace > 0 ? pack->workspace : NULL;
    const soft_conv_kind kind = soft_cudnn_kind(o);
    const int result = (const int[]){2, 0, 1}[kind];
    for (int i = 0; i < 3; i++) {
        const soft_tensor *t = tensors[i];
        char what[64];
        bool found = false;
        pointers[i] = find(pack, t->uid, &found);
        if (!found)
            return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                     "variant pack: the tensor with unique id %lld is missing",
                                     (long long)t->uid);
        (void)snprintf(what, sizeof what, "the tensor with unique id %lld", (long long)t->uid);
        check_memory(what, pointers[i], tensor_bytes(t), t->alignment, device);
    }
    for (int64_t i = 0; i < pack->uids; i++)
        if (pack->uid[i] != o->x.uid && pack->uid[i] != o->w.uid && pack->uid[i] != o->y.uid)
            soft_gpu_mistake("cuDNN: the plan has no tensor with unique id %lld",
                             (long long)pack->uid[i]);
    if (plan->workspace > 0)
        check_memory("the workspace", workspace, plan->workspace, SOFT_CUDNN_ALIGNMENT, device);
    check_overlaps(tensors, pointers, result, workspace, plan->workspace);
    *out = soft_cudnn_arguments(plan);
    out->out = pointers[result];
    out->a = kind == SOFT_CONV_DATA ? pointers[2] : pointers[0];
    out->b = kind == SOFT_CONV_FILTER ? pointers[2] : pointers[1];
    out->workspace = workspace;
    return CUDNN_STATUS_SUCCESS;
}

// ---- Launches ----

static sr_dtype dtype_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_HALF ? SR_F16 : type == CUDNN_DATA_BFLOAT16 ? SR_BF16 : SR_F32;
}

static cudnnStatus_t launch(const soft_operation *o, soft_conv_step step, soft_conv_args args,
                            cudaStream_t stream) {
    const sr_cuda_kernel *kernel = soft_conv_kernel(soft_cudnn_kind(o), step, dtype_of(o->x.type));
    const int64_t threads = step == SOFT_CONV_SLICES ? args.workspace_count : args.count;
    void *list[] = {&args};
    const cudaLaunchConfig_t config = {
        .gridDim = {(unsigned)((threads + SOFT_CONV_THREADS - 1) / SOFT_CONV_THREADS), 1, 1},
        .blockDim = {SOFT_CONV_THREADS, 1, 1},
        .stream = stream};
    const cudaError_t error = cudaLaunchKernelExC(&config, kernel->function, list);
    if (error != cudaSuccess)
        return soft_cudnn_refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "launching %s: %s",
                                 kernel->name, cudaGetErrorName(error));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t soft_cudnn_enqueue(const soft_plan *plan, const soft_conv_args *args,
                                 cudaStream_t stream) {
    const soft_operation *o = &plan->config.engine.graph.operation;
    if (args->slices == 1)
        return launch(o, SOFT_CONV_WHOLE, *args, stream);
    const cudnnStatus_t status = launch(o, SOFT_CONV_SLICES, *args, stream);
    return status == CUDNN_STATUS_SUCCESS ? launch(o, SOFT_CONV_ADD, *args, stream) : status;
}
