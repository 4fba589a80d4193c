// SPDX-License-Identifier: Apache-2.0
// The provider of CUDA's kernels of numerics class "mma".
#include "kernels/cuda/cuda_mma_provider.h"

#define MMA "mma" // provider and class
#define NUMERICS 2

#define ENTRY(id, supporting)                                                                      \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/" MMA, .provider = MMA, .numerics_class = MMA, .supports = (supporting),     \
        .prepare = sr_mma_prepare_##id, .dtypes = "bf16 f16", .lanes = true,                       \
    }

static const sr_kernel_entry entries[] = {
    ENTRY(attention, sr_mma_supports_attention),
    ENTRY(attention_grad, sr_mma_supports_attention),
    ENTRY(attention_bias_grad, sr_mma_supports_attention),
    ENTRY(batchnorm_relu_linear, sr_mma_supports_norm_linear),
    ENTRY(batchnorm_relu_linear_dw, sr_mma_supports_norm_linear),
    ENTRY(conv2d, sr_mma_supports_stem),
    ENTRY(conv2d_dw, sr_mma_supports_stem),
};

const sr_provider sr_provider_mma = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = MMA,
    .device = "cuda",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .numerics = NUMERICS,
};
