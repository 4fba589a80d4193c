// SPDX-License-Identifier: Apache-2.0
// Products with rows that batch norm and ReLU come before: batchnorm_infer_relu into the workspace,
// and linear or linear_dw of that, stage by stage.
#include "kernels/base/memory.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/norm_linear.h"

enum { ALIGNMENT = 64 };

typedef struct part {
    sr_kernel_request request;
    sr_prepared prepared;
} part;

typedef struct norm_linear {
    part norm, product;
    size_t normalised; // bytes of the workspace before that of the product
} norm_linear;

static sr_status run_stage(const part *p, int stage, void *const *arguments, void *workspace,
                           int64_t block, sr_worker *worker) {
    const sr_kernel_stage *s = &p->prepared.stage[stage];
    const sr_kernel_args args = {.p = arguments,
                                 .params = p->request.params,
                                 .state = p->prepared.state,
                                 .workspace = workspace,
                                 .block_rows = s->block_rows};
    return s->run(&args, block, worker);
}

// x, gamma, beta, mean, var, ...
static sr_status run_norm(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const norm_linear *n = args->state;
    void *const arguments[] = {args->p[0], NULL,       args->p[1],      args->p[2],
                               args->p[3], args->p[4], args->workspace, NULL};
    return run_stage(&n->norm, 0, arguments, NULL, block, worker);
}

// ..., w, bias, y; or dy, dw
static sr_status run_product(const sr_kernel_args *args, int stage, int64_t block,
                             sr_worker *worker) {
    const norm_linear *n = args->state;
    const bool forward = n->product.request.kernel == SR_KERNEL_linear;
    void *const arguments[] = {args->workspace, args->p[5], args->p[6],
                               forward ? args->p[7] : NULL};
    return run_stage(&n->product, stage, arguments, (char *)args->workspace + n->normalised, block,
                     worker);
}
static sr_status run_first(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return run_product(args, 0, block, worker);
}
static sr_status run_second(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return run_product(args, 1, block, worker);
}

static void free_parts(void *state) {
    norm_linear *n = state;
    sr_prepared_release(&n->norm.prepared);
    sr_prepared_release(&n->product.prepared);
    sr_free(n);
}

static sr_status prepare_parts(const sr_kernel_request *request, norm_linear *n) {
    const sr_norm_linear_params *p = (const void *)request->params;
    const bool forward = request->kernel == SR_KERNEL_batchnorm_relu_linear;
    sr_norm_linear_requests(request, &n->norm.request, &n->product.request);
    SR_TRY(sr_reference_prepare_batchnorm_infer_relu(&n->norm.request, &n->norm.prepared));
    SR_TRY(forward ? sr_reference_prepare_linear(&n->product.request, &n->product.prepared)
                   : sr_reference_prepare_linear_dw(&n->product.request, &n->product.prepared));
    const size_t bytes = (size_t)(p->n * p->c) * sr_dtype_size(request->dtype[0]);
    n->normalised = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return SR_OK;
}

static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    norm_linear *n = sr_alloc(sizeof *n, "batch norm and a product");
    if (!n)
        return SR_E_MEMORY;
    *n = (norm_linear){.normalised = 0};
    const sr_status status = prepare_parts(request, n);
    if (status != SR_OK) {
        free_parts(n);
        return status;
    }
    const sr_prepared *norm = &n->norm.prepared, *product = &n->product.prepared;
    sr_add_stage(out, run_norm, norm->stage[0].blocks);
    sr_add_stage(out, run_first, product->stage[0].blocks);
    if (product->stages > 1)
        sr_add_stage(out, run_second, product->stage[1].blocks);
    out->workspace = n->normalised + product->workspace;
    out->scratch = norm->scratch > product->scratch ? norm->scratch : product->scratch;
    out->state = n;
    out->state_free = free_parts;
    return SR_OK;
}

sr_status sr_reference_prepare_batchnorm_relu_linear(const sr_kernel_request *request,
                                                     sr_prepared *out) {
    return prepare(request, out);
}

sr_status sr_reference_prepare_batchnorm_relu_linear_dw(const sr_kernel_request *request,
                                                        sr_prepared *out) {
    return prepare(request, out);
}
