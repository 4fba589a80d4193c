// SPDX-License-Identifier: Apache-2.0
// Products with rows that batch norm and ReLU come before: batchnorm_infer_relu into the workspace,
// and linear or linear_dw of that, stage by stage.
#include "kernels/cpu/reference/reference_pair.h"
#include "kernels/norm_linear.h"

// x, gamma, beta, mean, var, ...
static sr_status run_norm(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const sr_reference_pair *n = args->state;
    void *const arguments[] = {args->p[0], NULL,       args->p[1],      args->p[2],
                               args->p[3], args->p[4], args->workspace, NULL};
    return sr_reference_member_run(n, &n->first, 0, arguments, args->workspace, block, worker);
}

// ..., w, bias, y; or dy, dw
static sr_status run_product(const sr_kernel_args *args, int stage, int64_t block,
                             sr_worker *worker) {
    const sr_reference_pair *n = args->state;
    const bool forward = n->second.request.kernel == SR_KERNEL_linear;
    void *const arguments[] = {args->workspace, args->p[5], args->p[6],
                               forward ? args->p[7] : NULL};
    return sr_reference_member_run(n, &n->second, stage, arguments, args->workspace, block, worker);
}
static sr_status run_first(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return run_product(args, 0, block, worker);
}
static sr_status run_second(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return run_product(args, 1, block, worker);
}

static sr_status prepare_parts(const sr_kernel_request *request, sr_reference_pair *n) {
    const sr_norm_linear_params *p = (const void *)request->params;
    const bool forward = request->kernel == SR_KERNEL_batchnorm_relu_linear;
    sr_norm_linear_requests(request, &n->first.request, &n->second.request);
    SR_TRY(sr_reference_prepare_batchnorm_infer_relu(&n->first.request, &n->first.prepared));
    SR_TRY(forward ? sr_reference_prepare_linear(&n->second.request, &n->second.prepared)
                   : sr_reference_prepare_linear_dw(&n->second.request, &n->second.prepared));
    n->between = sr_reference_pair_align((size_t)(p->n * p->c) * sr_dtype_size(request->dtype[0]));
    return SR_OK;
}

static const sr_kernel_fn norm_stages[SR_KERNEL_STAGES] = {run_norm},
                          product_stages[SR_KERNEL_STAGES] = {run_first, run_second};

sr_status sr_reference_prepare_batchnorm_relu_linear(const sr_kernel_request *request,
                                                     sr_prepared *out) {
    return sr_reference_pair_prepare(request, prepare_parts, norm_stages, product_stages, out);
}

sr_status sr_reference_prepare_batchnorm_relu_linear_dw(const sr_kernel_request *request,
                                                        sr_prepared *out) {
    return sr_reference_pair_prepare(request, prepare_parts, norm_stages, product_stages, out);
}
