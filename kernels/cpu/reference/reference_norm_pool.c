// SPDX-License-Identifier: Apache-2.0
// Batch norm with ReLU before max pooling: batchnorm_train_relu or _infer_relu into the workspace,
// and maxpool2d of that, or maxpool2d_grad into the workspace, and batchnorm_relu_grad of that,
// stage by stage.
#include "kernels/cpu/reference/reference_pair.h"
#include "kernels/norm_pool.h"

// A function of each stage.
#define STAGE(part, number)                                                                        \
    static sr_status part##_##number(const sr_kernel_args *args, int64_t block,                    \
                                     sr_worker *worker) {                                          \
        return part(args, number, block, worker);                                                  \
    }

// ---- Forward: x, gamma, beta, y, mean, var, index; or x, gamma, beta, mean, var, y ----

static bool trains(const sr_reference_pair *n) {
    return n->first.request.kernel == SR_KERNEL_batchnorm_train_relu;
}

static size_t input_bytes(const sr_kernel_request *request) {
    const sr_norm_pool_params *p = (const void *)request->params;
    return sr_reference_pair_align((size_t)sr_norm_pool_inputs(p) *
                                   sr_dtype_size(request->dtype[0]));
}

static sr_status norm(const sr_kernel_args *args, int stage, int64_t block, sr_worker *worker) {
    const sr_reference_pair *n = args->state;
    void *const *p = args->p, *const y = args->workspace;
    void *const train[] = {p[0], NULL, p[1], p[2], y, p[4], p[5], NULL};
    void *const infer[] = {p[0], NULL, p[1], p[2], p[3], p[4], y, NULL};
    return sr_reference_member_run(n, &n->first, stage, trains(n) ? train : infer, args->workspace,
                                   block, worker);
}
STAGE(norm, 0)
STAGE(norm, 1)
STAGE(norm, 2)

// Without training the index is at the end of what is before the members' workspace.
static sr_status pool(const sr_kernel_args *args, int stage, int64_t block, sr_worker *worker) {
    const sr_reference_pair *n = args->state;
    void *arguments[] = {args->workspace, NULL, NULL};
    if (trains(n)) {
        arguments[1] = args->p[3];
        arguments[2] = args->p[6];
    } else {
        const size_t outputs = (size_t)sr_norm_pool_outputs(args->params);
        arguments[1] = args->p[5];
        arguments[2] = (char *)args->workspace + n->between - sr_reference_pair_align(outputs);
    }
    return sr_reference_member_run(n, &n->second, stage, arguments, args->workspace, block, worker);
}
STAGE(pool, 0)

static const sr_kernel_fn norm_stages[SR_KERNEL_STAGES] = {norm_0, norm_1, norm_2},
                          pool_stages[SR_KERNEL_STAGES] = {pool_0};

static sr_status prepare_train(const sr_kernel_request *request, sr_reference_pair *n) {
    sr_norm_pool_requests(request, &n->first.request, &n->second.request);
    n->between = input_bytes(request);
    SR_TRY(sr_reference_prepare_batchnorm_train_relu(&n->first.request, &n->first.prepared));
    return sr_reference_prepare_maxpool2d(&n->second.request, &n->second.prepared);
}

static sr_status prepare_infer(const sr_kernel_request *request, sr_reference_pair *n) {
    const sr_norm_pool_params *p = (const void *)request->params;
    sr_norm_pool_requests(request, &n->first.request, &n->second.request);
    n->between = input_bytes(request) + sr_reference_pair_align((size_t)sr_norm_pool_outputs(p));
    SR_TRY(sr_reference_prepare_batchnorm_infer_relu(&n->first.request, &n->first.prepared));
    return sr_reference_prepare_maxpool2d(&n->second.request, &n->second.prepared);
}

sr_status sr_reference_prepare_batchnorm_train_relu_maxpool(const sr_kernel_request *request,
                                                            sr_prepared *out) {
    return sr_reference_pair_prepare(request, prepare_train, norm_stages, pool_stages, out);
}

sr_status sr_reference_prepare_batchnorm_infer_relu_maxpool(const sr_kernel_request *request,
                                                            sr_prepared *out) {
    return sr_reference_pair_prepare(request, prepare_infer, norm_stages, pool_stages, out);
}

// ---- Gradient: x, dy, index, gamma, beta, mean, var, dx, dgamma, dbeta ----

static sr_status pool_grad(const sr_kernel_args *args, int stage, int64_t block,
                           sr_worker *worker) {
    const sr_reference_pair *n = args->state;
    void *const arguments[] = {args->p[1], args->p[2], args->workspace};
    return sr_reference_member_run(n, &n->first, stage, arguments, args->workspace, block, worker);
}
STAGE(pool_grad, 0)

static sr_status norm_grad(const sr_kernel_args *args, int stage, int64_t block,
                           sr_worker *worker) {
    const sr_reference_pair *n = args->state;
    void *const *p = args->p;
    void *const arguments[] = {p[0], args->workspace, p[3], p[4], p[5], p[6], p[7], p[8], p[9]};
    return sr_reference_member_run(n, &n->second, stage, arguments, args->workspace, block, worker);
}
STAGE(norm_grad, 0)
STAGE(norm_grad, 1)
STAGE(norm_grad, 2)

static sr_status prepare_grad(const sr_kernel_request *request, sr_reference_pair *n) {
    sr_norm_pool_requests(request, &n->second.request, &n->first.request);
    n->between = input_bytes(request);
    SR_TRY(sr_reference_prepare_maxpool2d_grad(&n->first.request, &n->first.prepared));
    return sr_reference_prepare_batchnorm_relu_grad(&n->second.request, &n->second.prepared);
}

sr_status sr_reference_prepare_batchnorm_relu_maxpool_grad(const sr_kernel_request *request,
                                                           sr_prepared *out) {
    static const sr_kernel_fn pool_stages_of[SR_KERNEL_STAGES] = {pool_grad_0},
                              norm_stages_of[SR_KERNEL_STAGES] = {norm_grad_0, norm_grad_1,
                                                                  norm_grad_2};
    return sr_reference_pair_prepare(request, prepare_grad, pool_stages_of, norm_stages_of, out);
}
