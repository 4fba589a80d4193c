// SPDX-License-Identifier: Apache-2.0
// Batch norm with ReLU before max pooling, in class "reference": batchnorm_train_relu or
// _infer_relu into the workspace, and maxpool2d of that, or maxpool2d_grad into the workspace, and
// batchnorm_relu_grad of that.
#include "kernels/cuda/cuda_pair.h"
#include "kernels/norm_pool.h"

static size_t input_bytes(const sr_kernel_request *request) {
    const sr_norm_pool_params *p = (const void *)request->params;
    return sr_cuda_align((size_t)sr_norm_pool_inputs(p) * sr_dtype_size(request->dtype[0]));
}

// x, gamma, beta, y, mean, var, index
static sr_status launch_train(const sr_kernel_launch *launch) {
    const sr_cuda_pair *n = launch->state;
    const sr_address *p = launch->p, rows = launch->workspace, none = sr_address_none();
    const sr_address norm[] = {p[0], none, p[1], p[2], rows, p[4], p[5], none};
    const sr_address pool[] = {rows, p[3], p[6]};
    SR_TRY(sr_cuda_member_launch(launch, &n->first, norm));
    return sr_cuda_member_launch(launch, &n->second, pool);
}

// x, gamma, beta, mean, var, y; the index is behind the rows.
static sr_status launch_infer(const sr_kernel_launch *launch) {
    const sr_cuda_pair *n = launch->state;
    const sr_pool_params *params = (const void *)n->second.request.params;
    const size_t outputs = (size_t)(params->n * params->p * params->q * params->c);
    const sr_address *p = launch->p, rows = launch->workspace, none = sr_address_none();
    const sr_address index = sr_address_add(rows, n->between - sr_cuda_align(outputs));
    const sr_address norm[] = {p[0], none, p[1], p[2], p[3], p[4], rows, none};
    const sr_address pool[] = {rows, p[5], index};
    SR_TRY(sr_cuda_member_launch(launch, &n->first, norm));
    return sr_cuda_member_launch(launch, &n->second, pool);
}

// x, dy, index, gamma, beta, mean, var, dx, dgamma, dbeta
static sr_status launch_grad(const sr_kernel_launch *launch) {
    const sr_cuda_pair *n = launch->state;
    const sr_address *p = launch->p, rows = launch->workspace;
    const sr_address pool[] = {p[1], p[2], rows};
    const sr_address norm[] = {p[0], rows, p[3], p[4], p[5], p[6], p[7], p[8], p[9]};
    SR_TRY(sr_cuda_member_launch(launch, &n->first, pool));
    return sr_cuda_member_launch(launch, &n->second, norm);
}

static sr_status prepare_train(const sr_kernel_request *request, sr_cuda_pair *n) {
    sr_norm_pool_requests(request, &n->first.request, &n->second.request);
    n->between = input_bytes(request);
    SR_TRY(sr_cuda_prepare_batchnorm_train_relu(&n->first.request, &n->first.prepared));
    return sr_cuda_prepare_maxpool2d(&n->second.request, &n->second.prepared);
}

static sr_status prepare_infer(const sr_kernel_request *request, sr_cuda_pair *n) {
    const sr_norm_pool_params *p = (const void *)request->params;
    sr_norm_pool_requests(request, &n->first.request, &n->second.request);
    n->between = input_bytes(request) + sr_cuda_align((size_t)sr_norm_pool_outputs(p));
    SR_TRY(sr_cuda_prepare_batchnorm_infer_relu(&n->first.request, &n->first.prepared));
    return sr_cuda_prepare_maxpool2d(&n->second.request, &n->second.prepared);
}

static sr_status prepare_grad(const sr_kernel_request *request, sr_cuda_pair *n) {
    sr_norm_pool_requests(request, &n->second.request, &n->first.request);
    n->between = input_bytes(request);
    SR_TRY(sr_cuda_prepare_maxpool2d_grad(&n->first.request, &n->first.prepared));
    return sr_cuda_prepare_batchnorm_relu_grad(&n->second.request, &n->second.prepared);
}

sr_status sr_cuda_prepare_batchnorm_train_relu_maxpool(const sr_kernel_request *request,
                                                       sr_prepared *out) {
    return sr_cuda_pair_prepare(request, prepare_train, launch_train, out);
}

sr_status sr_cuda_prepare_batchnorm_infer_relu_maxpool(const sr_kernel_request *request,
                                                       sr_prepared *out) {
    return sr_cuda_pair_prepare(request, prepare_infer, launch_infer, out);
}

sr_status sr_cuda_prepare_batchnorm_relu_maxpool_grad(const sr_kernel_request *request,
                                                      sr_prepared *out) {
    return sr_cuda_pair_prepare(request, prepare_grad, launch_grad, out);
}
