// SPDX-License-Identifier: Apache-2.0
// The kernels of numerics class "reference" for CUDA: bit for bit those of kernels/cpu/reference,
// in f32, bf16 and f16.
#ifndef SR_KERNELS_CUDA_REFERENCE_H
#define SR_KERNELS_CUDA_REFERENCE_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// prepare of each kernel: fills launch, state and workspace.
#define SR_KERNEL(id, params, doc, ...)                                                            \
    sr_status sr_cuda_prepare_##id(const sr_kernel_request *request, sr_prepared *out);
#include "kernels/kernel_list.def"
#undef SR_KERNEL

extern const sr_provider sr_provider_cuda_reference;

#ifdef __cplusplus
}
#endif
#endif
