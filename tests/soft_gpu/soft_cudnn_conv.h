// SPDX-License-Identifier: Apache-2.0
// The kernels of the stand-in for cuDNN (soft_cudnn_conv.cu), as C calls them.
//
// A result is the sum of 'slices' sums, each of which takes every slices-th term: the first kernel
// forms them in the workspace, the second adds them up. With one slice, one kernel does both,
// without a workspace.
#ifndef SR_TESTS_SOFT_CUDNN_CONV_H
#define SR_TESTS_SOFT_CUDNN_CONV_H

#include <stdint.h>

#include "kernels/cuda/cuda_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SOFT_CONV_THREADS = 64 };

typedef enum soft_conv_kind {
    SOFT_CONV_FORWARD, // y of x, w
    SOFT_CONV_DATA,    // dx of dy, w
    SOFT_CONV_FILTER,  // dw of x, dy
    SOFT_CONV_KINDS
} soft_conv_kind;

typedef enum soft_conv_step {
    SOFT_CONV_SLICES, // a thread for each float of the workspace
    SOFT_CONV_ADD,    // a thread for each element of the result
    SOFT_CONV_WHOLE,  // the same
    SOFT_CONV_STEPS
} soft_conv_step;

// Tensors are NHWC, filters KRSC.
typedef struct soft_conv_args {
    void *out;
    const void *a, *b;
    float *workspace;
    int64_t count;           // elements of the result
    int64_t workspace_count; // floats of the workspace
    int64_t n, c, h, w;      // of x
    int64_t k, r, s, p, q;   // of w and y
    int64_t pad[2], stride[2], dilation[2];
    int64_t slices;
    // Each 0 or 1: the last slice is added first; sums of slices are rounded to
    // the type of the result; the slices of each element are added in an order that is drawn.
    int64_t backwards, rough, any_order;
    int64_t turn; // elements from this one on are added up in the other direction
} soft_conv_args;

// For tensors of SR_BF16, SR_F16 or SR_F32, whose factors are rounded to TF32.
const sr_cuda_kernel *soft_conv_kernel(soft_conv_kind kind, soft_conv_step step, sr_dtype dtype);
// A number that differs from call to call (soft_cudnn_engines.c).
uint32_t soft_cudnn_draw(void);

#ifdef __cplusplus
}
#endif
#endif
