// SPDX-License-Identifier: Apache-2.0
// The one place that launches kernels.
#include <stdatomic.h>
#include <string.h>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cuda_plan.h"
#include "kernels/cuda/cuda_round.h"

static dim3 extent(const uint32_t sizes[3]) {
    return (dim3){.x = sizes[0], .y = sizes[1], .z = sizes[2]};
}

#define SHARED_BYTES 49152 // that a kernel may have without asking

// The bound is a state of the function on the current device.
static cudaError_t allow_shared(const sr_cuda_part *part) {
    if (part->shared <= SHARED_BYTES)
        return cudaSuccess;
    return cudaFuncSetAttribute(part->kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)part->shared);
}

// A process drives one device.
static atomic_bool overlapping;

void sr_cuda_launch_overlapping(void) {
    atomic_store_explicit(&overlapping, true, memory_order_relaxed);
}

sr_status sr_cuda_launch_part(const sr_cuda_part *part, void *arguments, void *stream) {
    void *list[] = {arguments};
    cudaLaunchAttribute overlap = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                   .val.programmaticStreamSerializationAllowed = 1};
    const cudaLaunchConfig_t config = {
        .gridDim = extent(part->blocks),
        .blockDim = extent(part->threads),
        .dynamicSmemBytes = part->shared,
        .stream = stream,
        .attrs = &overlap,
        .numAttrs = atomic_load_explicit(&overlapping, memory_order_relaxed) ? 1 : 0};
    cudaError_t error = allow_shared(part);
    if (error == cudaSuccess)
        error = cudaLaunchKernelExC(&config, part->kernel->function, list);
    if (error != cudaSuccess)
        return sr_cuda_fail(NULL, error, "launching %s", part->kernel->name);
    return SR_OK;
}

sr_status sr_cuda_launch(const sr_kernel_launch *launch) {
    const sr_cuda_plan *plan = launch->state;
    uint64_t arguments[SR_CUDA_ARGUMENT_BYTES / 8];
    const int workspace = plan->pointers - 1;
    memcpy(arguments, plan->arguments, plan->bytes);
    for (int i = 0; i < workspace; i++)
        arguments[i] = launch->p[i].at;
    arguments[workspace] = launch->workspace.at;
    if (plan->packs >= 0) {
        arguments[workspace + 1] = (uint64_t)sr_cuda_packed(launch, plan->packed_at);
        if (launch->is_packed)
            arguments[plan->packs] = 0;
    }
    for (int i = 0; i < plan->parts; i++)
        SR_TRY(sr_cuda_launch_part(&plan->part[i], arguments, launch->stream));
    return SR_OK;
}
