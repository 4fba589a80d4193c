// SPDX-License-Identifier: Apache-2.0
// Products with rows that batch norm and ReLU come before, in class "reference":
// batchnorm_infer_relu into the workspace, and linear or linear_dw of that.
#include "kernels/cuda/cuda_pair.h"
#include "kernels/norm_linear.h"

// x, gamma, beta, mean, var; then w, bias, y, or dy, dw
static sr_status launch_both(const sr_kernel_launch *launch) {
    const sr_cuda_pair *n = launch->state;
    const sr_address *p = launch->p, rows = launch->workspace, none = sr_address_none();
    const bool forward = n->second.request.kernel == SR_KERNEL_linear;
    const sr_address norm[] = {p[0], none, p[1], p[2], p[3], p[4], rows, none};
    const sr_address product[] = {rows, p[5], p[6], forward ? p[7] : none};
    SR_TRY(sr_cuda_member_launch(launch, &n->first, norm));
    return sr_cuda_member_launch(launch, &n->second, product);
}

static sr_status prepare_parts(const sr_kernel_request *request, sr_cuda_pair *n) {
    const sr_norm_linear_params *p = (const void *)request->params;
    const bool forward = request->kernel == SR_KERNEL_batchnorm_relu_linear;
    sr_norm_linear_requests(request, &n->first.request, &n->second.request);
    SR_TRY(sr_cuda_prepare_batchnorm_infer_relu(&n->first.request, &n->first.prepared));
    SR_TRY(forward ? sr_cuda_prepare_linear(&n->second.request, &n->second.prepared)
                   : sr_cuda_prepare_linear_dw(&n->second.request, &n->second.prepared));
    n->between = sr_cuda_align((size_t)(p->n * p->c) * sr_dtype_size(request->dtype[0]));
    return SR_OK;
}

sr_status sr_cuda_prepare_batchnorm_relu_linear(const sr_kernel_request *request,
                                                sr_prepared *out) {
    return sr_cuda_pair_prepare(request, prepare_parts, launch_both, out);
}

sr_status sr_cuda_prepare_batchnorm_relu_linear_dw(const sr_kernel_request *request,
                                                   sr_prepared *out) {
    return sr_cuda_pair_prepare(request, prepare_parts, launch_both, out);
}
