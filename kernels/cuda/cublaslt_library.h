// SPDX-License-Identifier: Apache-2.0
// cuBLASLt 13, opened at run time.
#ifndef SR_KERNELS_CUDA_CUBLASLT_LIBRARY_H
#define SR_KERNELS_CUDA_CUBLASLT_LIBRARY_H

#include <cublasLt.h>

#include "kernels/cuda/cublaslt_provider.h"

#ifdef __cplusplus
extern "C" {
#endif

// The functions of cuBLASLt that are called.
typedef struct sr_cublaslt_calls {
#define SR_CUBLASLT_CALL(name) __typeof__ (&(name))(name);
#include "kernels/cuda/cublaslt_api.def"
#undef SR_CUBLASLT_CALL
} sr_cublaslt_calls;

// NULL if there is no cuBLASLt that can be used. Opens it in the first call; any thread.
const sr_cublaslt_calls *sr_cublaslt_open(void);

// The handle of the current device, made in the first call for it and kept. It is used by one
// thread at a time: sr_cublaslt_lock.
SR_NODISCARD sr_status sr_cublaslt_handle(cublasLtHandle_t *out);
void sr_cublaslt_lock(void);
void sr_cublaslt_unlock(void);

// Records that a call failed while doing what the format says. SR_E_MEMORY or SR_E_DEVICE.
sr_status sr_cublaslt_fail(cublasStatus_t status, const char *format, ...) SR_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
