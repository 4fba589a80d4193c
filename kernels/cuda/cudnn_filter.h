// SPDX-License-Identifier: Apache-2.0
// What stands around cuDNN's convolutions: parameters are fp32 and OIHW, cuDNN's filters have the
// type of the activations and are KRSC.
#ifndef SR_KERNELS_CUDA_CUDNN_FILTER_H
#define SR_KERNELS_CUDA_CUDNN_FILTER_H

#include "kernels/cuda/cuda_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

// The struct of these functions.
typedef struct sr_cudnn_filter_args {
    const void *from;
    void *to;
    int64_t count, channels, taps; // of the filters; of the last dimension of y; -
} sr_cudnn_filter_args;

// f32 OIHW to rounded KRSC, and back.
SR_NODISCARD sr_status sr_cudnn_filter_pack(sr_dtype dtype, sr_cudnn_filter_args *arguments,
                                            void *stream);
SR_NODISCARD sr_status sr_cudnn_filter_unpack(sr_dtype dtype, sr_cudnn_filter_args *arguments,
                                              void *stream);
// Adds the f32 'from[channel]' to each element of 'to'.
SR_NODISCARD sr_status sr_cudnn_add_bias(sr_dtype dtype, sr_cudnn_filter_args *arguments,
                                         void *stream);

#ifdef __cplusplus
}
#endif
#endif
