// SPDX-License-Identifier: Apache-2.0
// cuDNN 9, opened at run time: serried runs without it, and finds the one that a Python package
// brings, too.
#ifndef SR_KERNELS_CUDA_CUDNN_LIBRARY_H
#define SR_KERNELS_CUDA_CUDNN_LIBRARY_H

#include <cudnn.h>

#include "kernels/cuda/cudnn_provider.h"

#ifdef __cplusplus
extern "C" {
#endif

// The functions of cuDNN that are called.
typedef struct sr_cudnn_calls {
#define SR_CUDNN_CALL(name) __typeof__ (&(name))(name);
#include "kernels/cuda/cudnn_api.def"
#undef SR_CUDNN_CALL
} sr_cudnn_calls;

// NULL if there is no cuDNN that can be used. Opens it in the first call; any thread.
const sr_cudnn_calls *sr_cudnn_open(void);

// The handle of the current device, made in the first call for it and kept, whose work is enqueued
// on 'stream'. Calls with handles are made one at a time: sr_cudnn_lock.
SR_NODISCARD sr_status sr_cudnn_handle(void *stream, cudnnHandle_t *out);
void sr_cudnn_lock(void);
void sr_cudnn_unlock(void);

// Records that a call failed while doing what the format says.
sr_status sr_cudnn_fail(cudnnStatus_t status, const char *format, ...) SR_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
