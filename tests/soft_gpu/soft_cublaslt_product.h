// SPDX-License-Identifier: Apache-2.0
// The kernels of the stand-in for cuBLASLt (soft_cublaslt_product.cu), as C calls them.
//
// A result is the sum of 'slices' sums, each of which takes every slices-th term. The first kernel
// forms them in the workspace, the second adds them up; or one kernel does both, with one slice and
// without a workspace.
#ifndef SR_TESTS_SOFT_CUBLASLT_PRODUCT_H
#define SR_TESTS_SOFT_CUBLASLT_PRODUCT_H

#include <stdint.h>

#include "kernels/cuda/cuda_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SOFT_PRODUCT_THREADS = 64 };

typedef enum soft_product_step {
    SOFT_PRODUCT_SLICES, // a thread for each float of the workspace
    SOFT_PRODUCT_ADD,    // a thread for each result
    SOFT_PRODUCT_WHOLE,  // the same
    SOFT_PRODUCT_STEPS
} soft_product_step;

// d[m,n] = alpha op(a)[m,k] op(b)[k,n] + bias[m], matrices by columns.
typedef struct soft_product_args {
    void *d;
    const void *a, *b, *bias;
    float *workspace;
    int64_t m, n, k, batches, slices;
    int64_t step_a, step_b, step_d;    // elements of a matrix, to the next column
    int64_t batch_a, batch_b, batch_d; // to the next matrix
    int64_t workspace_count;           // floats of the workspace
    int64_t transpose_a, transpose_b;  // 0 or 1
    int64_t wide;                      // 1: d is float
    int64_t toward_zero;               // 1: sums are rounded toward 0
    int64_t any_order;                 // 1: slices are added in an order that is drawn
    int64_t apart;                     // so many terms have a sum of the results' type
    float alpha;
} soft_product_args;

// For factors of SR_BF16, SR_F16 or SR_F32, which are rounded to TF32.
const sr_cuda_kernel *soft_product_kernel(soft_product_step step, sr_dtype dtype);
// A number that differs from call to call (soft_cublaslt_matmul.c).
uint32_t soft_product_draw(void);

#ifdef __cplusplus
}
#endif
#endif
