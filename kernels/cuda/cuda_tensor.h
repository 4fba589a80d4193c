// SPDX-License-Identifier: Apache-2.0
// The kernels of numerics class "tensor" for CUDA: faster than those of class "reference", with
// bits of their own. They are the same on any GPU, as the compiler joins no products with sums
// here, either (__fmaf_rn says where), and their order follows from the request.
#ifndef SR_KERNELS_CUDA_TENSOR_H
#define SR_KERNELS_CUDA_TENSOR_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CUDA_TENSOR "tensor"   // provider and class
#define SR_CUDA_TENSOR_NUMERICS 5 // sr_provider.numerics

// prepare of each kernel: fills launch, state and workspace.
sr_status sr_tensor_prepare_batchnorm_train(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_moments(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_sums(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_dx(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_train_relu(const sr_kernel_request *request,
                                                 sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_train_pair_relu(const sr_kernel_request *request,
                                                      sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_infer_relu(const sr_kernel_request *request,
                                                 sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_relu_grad(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_add_relu_grad(const sr_kernel_request *request,
                                                    sr_prepared *out);
// tensor_batchnorm_pool.cu
sr_status sr_tensor_prepare_batchnorm_train_relu_maxpool(const sr_kernel_request *request,
                                                         sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_infer_relu_maxpool(const sr_kernel_request *request,
                                                         sr_prepared *out);
sr_status sr_tensor_prepare_batchnorm_relu_maxpool_grad(const sr_kernel_request *request,
                                                        sr_prepared *out);
// Those of depthwise convolutions.
sr_status sr_tensor_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_conv2d_dx(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out);
// tensor_groupnorm.cu: rows that are whole vectors, which a block can hold.
bool sr_tensor_holds_row(sr_dtype dtype, int64_t channels);
sr_status sr_tensor_prepare_groupnorm(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_groupnorm_grad(const sr_kernel_request *request, sr_prepared *out);
// tensor_sums.cu
sr_status sr_tensor_prepare_channel_sum(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_channel_dot(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_add_groupnorm(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_groupnorm_add_grad(const sr_kernel_request *request, sr_prepared *out);
// tensor_functions.cu
sr_status sr_tensor_prepare_gelu(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_gelu_grad(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_sigmoid(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_silu(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_silu_grad(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_tanh(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_gelu_tanh(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_tensor_prepare_gelu_tanh_grad(const sr_kernel_request *request, sr_prepared *out);

extern const sr_provider sr_provider_cuda_tensor;

#ifdef __cplusplus
}
#endif
#endif
