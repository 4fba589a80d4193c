// SPDX-License-Identifier: Apache-2.0
// Matrix products by NVIDIA's cuBLASLt, where it is installed.
#ifndef SR_KERNELS_CUDA_CUBLASLT_PROVIDER_H
#define SR_KERNELS_CUDA_CUBLASLT_PROVIDER_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const sr_provider sr_provider_cublaslt;

// Whether its kernels can be used.
bool sr_cublaslt_is_found(void);
// "cuBLASLt 13.1.0", or "not found". Static storage.
const char *sr_cublaslt_version(void);
// Why cuBLASLt cannot be used, and the cure; "" if it can. Static storage.
const char *sr_cublaslt_missing(void);

#ifdef __cplusplus
}
#endif
#endif
