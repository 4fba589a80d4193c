// SPDX-License-Identifier: Apache-2.0
// Products with rows that batch norm and ReLU come before, in class "reference":
// batchnorm_infer_relu into the workspace, and linear or linear_dw of that.
#include "kernels/base/memory.h"
#include "kernels/cuda/cuda_lanes.h"
#include "kernels/cuda/cuda_reference.h"
#include "kernels/norm_linear.h"

typedef struct part {
    sr_kernel_request request;
    sr_prepared prepared;
} part;

typedef struct norm_linear {
    part norm, product;
    size_t normalised; // bytes of the workspace before those of the parts
} norm_linear;

static sr_status launch_part(const part *p, const sr_address *arguments, sr_address workspace,
                             void *stream) {
    const sr_kernel_launch launch = {.p = arguments,
                                     .params = p->request.params,
                                     .state = p->prepared.state,
                                     .workspace = workspace,
                                     .stream = stream};
    return p->prepared.launch(&launch);
}

// x, gamma, beta, mean, var; then w, bias, y, or dy, dw
static sr_status launch_both(const sr_kernel_launch *launch) {
    const norm_linear *n = launch->state;
    const sr_address *p = launch->p, rows = launch->workspace;
    const sr_address workspace = sr_address_add(rows, n->normalised);
    const bool forward = n->product.request.kernel == SR_KERNEL_linear;
    const sr_address none = sr_address_none();
    const sr_address norm[] = {p[0], none, p[1], p[2], p[3], p[4], rows, none};
    const sr_address product[] = {rows, p[5], p[6], forward ? p[7] : none};
    SR_TRY(launch_part(&n->norm, norm, workspace, launch->stream));
    return launch_part(&n->product, product, workspace, launch->stream);
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
    SR_TRY(sr_cuda_prepare_batchnorm_infer_relu(&n->norm.request, &n->norm.prepared));
    SR_TRY(forward ? sr_cuda_prepare_linear(&n->product.request, &n->product.prepared)
                   : sr_cuda_prepare_linear_dw(&n->product.request, &n->product.prepared));
    n->normalised = sr_cuda_align((size_t)(p->n * p->c) * sr_dtype_size(request->dtype[0]));
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
    const size_t norm = n->norm.prepared.workspace, product = n->product.prepared.workspace;
    out->workspace = n->normalised + (norm > product ? norm : product);
    out->launch = launch_both;
    out->state = n;
    out->state_free = free_parts;
    return SR_OK;
}

sr_status sr_cuda_prepare_batchnorm_relu_linear(const sr_kernel_request *request,
                                                sr_prepared *out) {
    return prepare(request, out);
}

sr_status sr_cuda_prepare_batchnorm_relu_linear_dw(const sr_kernel_request *request,
                                                   sr_prepared *out) {
    return prepare(request, out);
}
