// SPDX-License-Identifier: Apache-2.0
// Plans of cuDNN for convolutions and their gradients.
//
// The engine is the first one of cuDNN's heuristics that is deterministic, sums in fp32, filters
// directly and was compiled beforehand. It follows from the request, the version of cuDNN and the
// model of the GPU, never from a measurement. Of lanes side by side it is that of one. Activations
// are NHWC, weights KRSC; weights and their gradients have the type of the activations.
#ifndef SR_KERNELS_CUDA_CUDNN_PLAN_H
#define SR_KERNELS_CUDA_CUDNN_PLAN_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_cudnn_plan sr_cudnn_plan;

// What the plan is of, by its memory.
typedef enum sr_cudnn_tensor {
    SR_CUDNN_PICTURE, // x or dx
    SR_CUDNN_FILTER,  // w or dw
    SR_CUDNN_RESULT,  // y or dy
    SR_CUDNN_TENSORS,
} sr_cudnn_tensor;

// The plan of a request of conv2d, conv2d_dx or conv2d_dw on the current device, without its bias;
// NULL if no engine serves it. It is made in the first call, and kept. Lanes share the filter, and
// divide the samples. Any thread.
SR_NODISCARD sr_status sr_cudnn_plan_find(const sr_kernel_request *request, sr_cudnn_plan **out);
// Bytes that an execution needs, aligned to 256.
size_t sr_cudnn_plan_workspace(const sr_cudnn_plan *plan);
// Enqueues it on a stream of the plan's device.
SR_NODISCARD sr_status sr_cudnn_plan_execute(sr_cudnn_plan *plan, void *stream,
                                             void *const memory[SR_CUDNN_TENSORS], void *workspace);

#ifdef __cplusplus
}
#endif
#endif
