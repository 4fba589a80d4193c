// SPDX-License-Identifier: Apache-2.0
// The kernels of numerics class "mma" for CUDA: products of 16-bit numbers by tensor cores
// (cuda_mma.h). Bits are the same on GPUs of one model.
#ifndef SR_KERNELS_CUDA_MMA_PROVIDER_H
#define SR_KERNELS_CUDA_MMA_PROVIDER_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const sr_provider sr_provider_mma;

bool sr_mma_supports_attention(const sr_kernel_request *request);
bool sr_mma_supports_norm_linear(const sr_kernel_request *request);
bool sr_mma_supports_stem(const sr_kernel_request *request);
// prepare of each kernel: fills launch, state and workspace.
sr_status sr_mma_prepare_attention(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_mma_prepare_attention_grad(const sr_kernel_request *request, sr_prepared *out);

sr_status sr_mma_prepare_batchnorm_relu_linear(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_mma_prepare_batchnorm_relu_linear_dw(const sr_kernel_request *request,
                                                  sr_prepared *out);
sr_status sr_mma_prepare_attention_bias_grad(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_mma_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_mma_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out);

#ifdef __cplusplus
}
#endif
#endif
