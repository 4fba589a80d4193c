// SPDX-License-Identifier: Apache-2.0
// The module libserried-cuda.so: what needs CUDA, opened at run time (kernels/device/module.h).
#include "kernels/cuda/cublaslt_provider.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cuda_mma_provider.h"
#include "kernels/cuda/cuda_reference.h"
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/cudnn_provider.h"
#include "kernels/device/module.h"

const sr_module_head *sr_module_entry(void) {
    static const sr_device_ops *const devices[] = {&sr_device_cuda, NULL};
    static const sr_provider *const providers[] = {
        &sr_provider_cuda_reference, &sr_provider_cuda_tensor, &sr_provider_cudnn,
        &sr_provider_cublaslt,       &sr_provider_mma,         NULL};
    static const sr_module module = {
        .head = SR_MODULE_HEAD("cuda"), .devices = devices, .providers = providers};
    return &module.head;
}
