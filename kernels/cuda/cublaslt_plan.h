// SPDX-License-Identifier: Apache-2.0
// Plans of cuBLASLt for matrix products.
//
// The algorithm is the first one of cuBLASLt's heuristics that does not divide a sum between blocks
// (split-K), so that each sum has one order. It follows from the product, the version of cuBLASLt
// and the model of the GPU, never from a measurement. Of lanes side by side it is that of one. Sums
// are fp32.
#ifndef SR_KERNELS_CUDA_CUBLASLT_PLAN_H
#define SR_KERNELS_CUDA_CUBLASLT_PLAN_H

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

#ifdef __cplusplus
extern "C" {
#endif

// c = alpha a b + bias for each batch, as in matmul. Products are compared as bytes.
typedef struct sr_cublaslt_product {
    sr_matmul_params p;
    sr_dtype dtype, result; // of a, b and the bias: bf16 or f16; of c: the same, or f32 without a
                            // bias
    int32_t bias;           // 1: bias[columns] is added to each row of c
    int32_t lanes;          // side by side in the product; 0: one
} sr_cublaslt_product;

typedef struct sr_cublaslt_plan sr_cublaslt_plan;

// What a plan is executed on. The workspace and the bias are aligned to SR_CUDA_LIBRARY_ALIGNMENT,
// the others as arguments of kernels.
typedef struct sr_cublaslt_memory {
    const void *a, *b, *bias; // bias: NULL without one
    void *c, *workspace;
} sr_cublaslt_memory;

// The plan of a product on the current device; NULL if no algorithm serves it. It is made in the
// first call, and kept. lane: the product of one of its lanes; NULL if there are none. Any thread.
SR_NODISCARD sr_status sr_cublaslt_plan_find(const sr_cublaslt_product *product,
                                             const sr_cublaslt_product *lane,
                                             const sr_cublaslt_plan **out);
// Bytes that an execution needs.
size_t sr_cublaslt_plan_workspace(const sr_cublaslt_plan *plan);
// Enqueues it on a stream of the plan's device.
SR_NODISCARD sr_status sr_cublaslt_plan_execute(const sr_cublaslt_plan *plan, void *stream,
                                                const sr_cublaslt_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
