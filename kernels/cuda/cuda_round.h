// SPDX-License-Identifier: Apache-2.0
// Parameters, which are fp32, in the type of the activations, as libraries take them.
#ifndef SR_KERNELS_CUDA_ROUND_H
#define SR_KERNELS_CUDA_ROUND_H

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

// Enqueues to[i] = from[i], rounded to nearest even.
SR_NODISCARD sr_status sr_cuda_round(sr_dtype dtype, sr_cuda_round_args *arguments, void *stream);

#ifdef __cplusplus
}
#endif
#endif
