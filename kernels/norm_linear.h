// SPDX-License-Identifier: Apache-2.0
// The two kernels that batchnorm_relu_linear and its gradient of weights are in class "reference".
#ifndef SR_KERNELS_NORM_LINEAR_H
#define SR_KERNELS_NORM_LINEAR_H

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

// Makes the requests of batchnorm_infer_relu without signs, and of linear or linear_dw of its
// result.
static inline void sr_norm_linear_requests(const sr_kernel_request *request,
                                           sr_kernel_request *norm, sr_kernel_request *product) {
    const sr_norm_linear_params *p = (const void *)request->params;
    const sr_batchnorm_params rows = {.rows = p->n, .channels = p->c, .eps = p->eps};
    const sr_linear_params linear = {.n = p->n, .c = p->c, .k = p->k};
    const bool forward = request->kernel == SR_KERNEL_batchnorm_relu_linear;
    sr_kernel_request_init(norm, request->device, SR_KERNEL_batchnorm_infer_relu, request->dtype[0],
                           &rows, sizeof rows);
    norm->dtype[norm->args - 1] = SR_DTYPE_COUNT;
    sr_kernel_request_init(product, request->device,
                           forward ? SR_KERNEL_linear : SR_KERNEL_linear_dw, request->dtype[0],
                           &linear, sizeof linear);
}

#endif
