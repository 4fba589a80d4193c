// SPDX-License-Identifier: Apache-2.0
// Convolutions by NVIDIA's cuDNN 9, where it is installed.
#ifndef SR_KERNELS_CUDA_CUDNN_PROVIDER_H
#define SR_KERNELS_CUDA_CUDNN_PROVIDER_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const sr_provider sr_provider_cudnn;

// Whether its kernels can be used.
bool sr_cudnn_is_found(void);
// "cuDNN 9.19.0", or "not found". Static storage.
const char *sr_cudnn_version(void);
// Why cuDNN cannot be used, and the cure; "" if it can. Static storage.
const char *sr_cudnn_missing(void);

#ifdef __cplusplus
}
#endif
#endif
