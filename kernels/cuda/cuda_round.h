// SPDX-License-Identifier: Apache-2.0
// Parameters, which are fp32, in the type and order in which products take them. Kernels of all
// classes pack alike, so that they can share what one of them has packed (sr_kernel_packing).
#ifndef SR_KERNELS_CUDA_ROUND_H
#define SR_KERNELS_CUDA_ROUND_H

#include "kernels/cuda/cuda_lanes.h"
#include "kernels/cuda/cuda_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

// Two arrays, so that weights and bias are one launch. A second one of no elements may be NULL.
typedef struct sr_cuda_round_args {
    const void *from[2];
    void *to[2];
    int64_t count[2];
} sr_cuda_round_args;

// Weights as 'dtype', OIHW with so many channels and taps as OHWI, and room to align them.
static inline sr_kernel_packing sr_cuda_packing(int argument, sr_dtype dtype, int64_t count,
                                                int64_t channels, int64_t taps) {
    sr_kernel_packing out;
    out.bytes = SR_CUDA_LIBRARY_ALIGNMENT + sr_cuda_align((size_t)count * sr_dtype_size(dtype));
    out.argument = argument;
    out.layout = (uint64_t)dtype;
    if (taps > 1) // else both orders are the same
        out.layout |= (uint64_t)channels << 32 | (uint64_t)taps << 8;
    return out;
}

// Where a launch's packed argument is; at: where it begins in the workspace.
static inline void *sr_cuda_packed(const sr_kernel_launch *launch, size_t at) {
    const sr_address own = sr_address_add(launch->workspace, at);
    const sr_address packed = sr_address_is_none(launch->packed) ? own : launch->packed;
    return (void *)sr_cuda_align((size_t)packed.at);
}

// Enqueues to[i] = from[i], rounded to nearest even.
SR_NODISCARD sr_status sr_cuda_round(sr_dtype dtype, sr_cuda_round_args *arguments, void *stream);

#ifdef __cplusplus
}
#endif
#endif
