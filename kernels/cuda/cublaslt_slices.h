// SPDX-License-Identifier: Apache-2.0
// Gradients of weights as sums of products: dw = dy^T x has few results, each the sum of very many
// terms, so that a GPU has too few blocks for them. Their rows are cut into slices, the products of
// which are a batch (cuda_cut.h), and added up by a kernel of ours in a fixed order.
#ifndef SR_KERNELS_CUDA_CUBLASLT_SLICES_H
#define SR_KERNELS_CUDA_CUBLASLT_SLICES_H

#include "kernels/cuda/cuda_cut.h"
#include "kernels/cuda/cuda_plan.h"
#include "kernels/kernel_params.h"

#ifdef __cplusplus
extern "C" {
#endif

// The struct of the kernel.
typedef struct sr_cublaslt_fold_args {
    const float *sums; // [lanes][slices][results]
    const float *rest; // [results], of a single lane; NULL: none
    float *out;        // [lanes][results]
    int64_t results, slices;
    int32_t first, columns; // slices that a thread adds; threads that have other results
} sr_cublaslt_fold_args;

// Enqueues out = the sums of the slices and the rest of each lane, by the binary tree on their
// numbers. 'first' and 'columns' are filled in.
SR_NODISCARD sr_status sr_cublaslt_fold(sr_cublaslt_fold_args *arguments, int lanes, void *stream);

#ifdef __cplusplus
}
#endif
#endif
