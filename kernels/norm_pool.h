// SPDX-License-Identifier: Apache-2.0
// The two kernels that batchnorm_train_relu_maxpool, batchnorm_infer_relu_maxpool and
// batchnorm_relu_maxpool_grad are in class "reference".
#ifndef SR_KERNELS_NORM_POOL_H
#define SR_KERNELS_NORM_POOL_H

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

// Makes the requests of the batch norm, without z and signs, and of the pooling.
static inline void sr_norm_pool_requests(const sr_kernel_request *request, sr_kernel_request *norm,
                                         sr_kernel_request *pool) {
    const sr_norm_pool_params *p = (const void *)request->params;
    const sr_batchnorm_params rows = {
        .rows = p->pool.n * p->pool.h * p->pool.w, .channels = p->pool.c, .eps = p->eps};
    const bool gradient = request->kernel == SR_KERNEL_batchnorm_relu_maxpool_grad;
    sr_kernel_request_init(norm, request->device,
                           gradient ? SR_KERNEL_batchnorm_relu_grad
                           : request->kernel == SR_KERNEL_batchnorm_train_relu_maxpool
                               ? SR_KERNEL_batchnorm_train_relu
                               : SR_KERNEL_batchnorm_infer_relu,
                           request->dtype[0], &rows, sizeof rows);
    if (!gradient)
        norm->dtype[norm->args - 1] = SR_DTYPE_COUNT;
    sr_kernel_request_init(pool, request->device,
                           gradient ? SR_KERNEL_maxpool2d_grad : SR_KERNEL_maxpool2d,
                           request->dtype[0], &p->pool, sizeof p->pool);
}

#endif
