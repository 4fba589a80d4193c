// SPDX-License-Identifier: Apache-2.0
// Linear layers, their gradients and products of batches by cuBLASLt, in bf16 and f16. Weights and
// bias are rounded to the type of the activations first. Gradients of weights are fp32, as their
// sums are; those of lanes side by side are a batch.
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cuda/cublaslt_plan.h"
#include "kernels/cuda/cublaslt_provider.h"
#include "kernels/cuda/cuda_lanes.h"
#include "kernels/cuda/cuda_round.h"

typedef struct prepared_product {
    const sr_cublaslt_plan *plan;
    sr_dtype dtype;
    sr_cuda_round_args round; // weights and bias, without addresses
    size_t bytes[2];          // of these in the workspace, before that of the plan
} prepared_product;

static size_t aligned(size_t bytes) {
    return (bytes + SR_CUBLASLT_ALIGNMENT - 1) / SR_CUBLASLT_ALIGNMENT * SR_CUBLASLT_ALIGNMENT;
}

// ---- What is asked for ----

static sr_cublaslt_product product_of_linear(const sr_kernel_request *request) {
    const sr_linear_params *p = (const void *)request->params;
    const int64_t lanes = request->lanes > 0 ? request->lanes : 1;
    sr_cublaslt_product out;
    memset(&out, 0, sizeof out);
    out.p.alpha = 1;
    out.p.a_count = out.p.b_count = 1;
    out.p.dim[0] = out.p.dim[1] = out.p.dim[2] = 1;
    if (request->kernel == SR_KERNEL_linear) { // x w^T
        out.p.rows = p->n, out.p.terms = p->c, out.p.columns = p->k;
        out.p.transpose_b = 1;
        out.bias = request->dtype[2] != SR_DTYPE_COUNT;
    } else if (request->kernel == SR_KERNEL_linear_dx) { // dy w
        out.p.rows = p->n, out.p.terms = p->k, out.p.columns = p->c;
    } else { // dy^T x
        out.p.rows = p->k, out.p.terms = p->n / lanes, out.p.columns = p->c;
        out.p.transpose_a = 1;
        out.p.a_count = out.p.b_count = out.p.dim[SR_MATMUL_DIMS - 1] = lanes;
        out.p.a_step[SR_MATMUL_DIMS - 1] = out.p.b_step[SR_MATMUL_DIMS - 1] = lanes > 1;
    }
    return out;
}

static sr_cublaslt_product product_of(const sr_kernel_request *request) {
    sr_cublaslt_product out;
    if (request->kernel == SR_KERNEL_matmul) {
        memset(&out, 0, sizeof out);
        memcpy(&out.p, request->params, sizeof out.p);
    } else {
        out = product_of_linear(request);
    }
    out.dtype = sr_kernel_activation(request);
    out.result = request->dtype[request->args - 1];
    out.lanes = request->lanes;
    return out;
}

static bool take_lane_of_linear(sr_linear_params *p, int lanes) {
    const int64_t n = p->n;
    p->n /= lanes;
    return p->n * lanes == n;
}

// Lanes are the first dimension of batches that is not 1 (kernels/kernel_lanes.c).
static bool take_lane_of_matmul(sr_matmul_params *p, int lanes) {
    int d = 0;
    while (d + 1 < SR_MATMUL_DIMS && p->dim[d] == 1)
        d++;
    if (p->dim[d] != lanes)
        return false;
    p->dim[d] = 1;
    p->a_count /= p->a_step[d] > 0 ? lanes : 1;
    p->b_count /= p->b_step[d] > 0 ? lanes : 1;
    p->a_step[d] = p->b_step[d] = 0;
    return true;
}

// The request of one of the lanes; false if the params are not those of lanes.
static bool take_lane(const sr_kernel_request *request, sr_kernel_request *lane) {
    *lane = *request;
    lane->lanes = lane->per_lane = 0;
    return request->kernel == SR_KERNEL_matmul
               ? take_lane_of_matmul((void *)lane->params, request->lanes)
               : take_lane_of_linear((void *)lane->params, request->lanes);
}

static sr_status find_plan(const sr_kernel_request *request, const sr_cublaslt_plan **out) {
    const sr_cublaslt_product product = product_of(request);
    sr_cublaslt_product of_lane;
    sr_kernel_request lane;
    *out = NULL;
    if (request->lanes == 0)
        return sr_cublaslt_plan_find(&product, NULL, out);
    if (!take_lane(request, &lane))
        return SR_OK;
    of_lane = product_of(&lane);
    return sr_cublaslt_plan_find(&product, &of_lane, out);
}

// ---- Launches ----

static void *memory_of(sr_address address) {
    return (void *)address.at;
}

// A launch's workspace: weights, bias, and what the plan needs.
typedef struct place {
    void *weights, *bias, *plan;
} place;

static place place_of(const prepared_product *s, sr_address workspace) {
    const uintptr_t at = aligned((size_t)workspace.at);
    return (place){.weights = (void *)at,
                   .bias = (void *)(at + s->bytes[0]),
                   .plan = (void *)(at + s->bytes[0] + s->bytes[1])};
}

static sr_status round_parameters(const prepared_product *s, const place *at, sr_address weights,
                                  sr_address bias, void *stream) {
    sr_cuda_round_args arguments = s->round;
    arguments.from[0] = memory_of(weights);
    arguments.from[1] = memory_of(bias);
    arguments.to[0] = at->weights;
    arguments.to[1] = arguments.count[1] > 0 ? at->bias : NULL;
    return sr_cuda_round(s->dtype, &arguments, stream);
}

// x, w, bias, y
static sr_status launch_linear(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    const place at = place_of(s, launch->workspace);
    const sr_cublaslt_memory memory = {.a = memory_of(launch->p[0]),
                                       .b = at.weights,
                                       .bias = s->round.count[1] > 0 ? at.bias : NULL,
                                       .c = memory_of(launch->p[3]),
                                       .workspace = at.plan};
    SR_TRY(round_parameters(s, &at, launch->p[1], launch->p[2], launch->stream));
    return sr_cublaslt_plan_execute(s->plan, launch->stream, &memory);
}

// dy, w, dx
static sr_status launch_linear_dx(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    const place at = place_of(s, launch->workspace);
    const sr_cublaslt_memory memory = {.a = memory_of(launch->p[0]),
                                       .b = at.weights,
                                       .c = memory_of(launch->p[2]),
                                       .workspace = at.plan};
    SR_TRY(round_parameters(s, &at, launch->p[1], (sr_address){0}, launch->stream));
    return sr_cublaslt_plan_execute(s->plan, launch->stream, &memory);
}

// x, dy, dw
static sr_status launch_linear_dw(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    const sr_cublaslt_memory memory = {.a = memory_of(launch->p[1]),
                                       .b = memory_of(launch->p[0]),
                                       .c = memory_of(launch->p[2]),
                                       .workspace = place_of(s, launch->workspace).plan};
    return sr_cublaslt_plan_execute(s->plan, launch->stream, &memory);
}

// a, b, c
static sr_status launch_matmul(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    const sr_cublaslt_memory memory = {.a = memory_of(launch->p[0]),
                                       .b = memory_of(launch->p[1]),
                                       .c = memory_of(launch->p[2]),
                                       .workspace = place_of(s, launch->workspace).plan};
    return sr_cublaslt_plan_execute(s->plan, launch->stream, &memory);
}

// ---- Preparing ----

static sr_status (*launch_of(sr_kernel_id kernel))(const sr_kernel_launch *launch) {
    return kernel == SR_KERNEL_linear      ? launch_linear
           : kernel == SR_KERNEL_linear_dx ? launch_linear_dx
           : kernel == SR_KERNEL_linear_dw ? launch_linear_dw
                                           : launch_matmul;
}

static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    const sr_cublaslt_product product = product_of(request);
    const sr_cublaslt_plan *plan;
    SR_TRY(find_plan(request, &plan));
    if (!plan)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s has no algorithm for this product",
                       sr_cublaslt_version());
    prepared_product *s = sr_alloc(sizeof *s, "a product of cuBLASLt");
    if (!s)
        return SR_E_MEMORY;
    *s = (prepared_product){.plan = plan, .dtype = product.dtype};
    if (request->kernel == SR_KERNEL_linear || request->kernel == SR_KERNEL_linear_dx)
        s->round.count[0] = sr_kernel_argument_count(request, 1);
    if (product.bias)
        s->round.count[1] = product.p.columns;
    for (int i = 0; i < 2; i++)
        s->bytes[i] = aligned((size_t)s->round.count[i] * sr_dtype_size(product.dtype));
    out->workspace = s->bytes[0] + s->bytes[1] + sr_cublaslt_plan_workspace(plan);
    if (out->workspace > 0)
        out->workspace += SR_CUBLASLT_ALIGNMENT;
    out->launch = launch_of(request->kernel);
    out->state = s;
    out->state_free = sr_free;
    return SR_OK;
}

// ---- What is served ----

static bool serves_lanes(const sr_kernel_request *request) {
    const uint16_t per_lane = request->kernel == SR_KERNEL_linear_dw ? 1 << 2 : 0;
    sr_kernel_request lane;
    return request->per_lane == per_lane && take_lane(request, &lane) &&
           sr_cuda_keeps_lanes(request, &lane, prepare);
}

// An algorithm that cannot be asked for now, for lack of memory, serves, so that this is an error
// and no other choice; but for lanes, which have the same bits one by one.
static bool supports(const sr_kernel_request *request) {
    const sr_cublaslt_plan *plan;
    if (!sr_cuda_is_for_libraries(request))
        return false;
    if (request->lanes > 0)
        return serves_lanes(request);
    return find_plan(request, &plan) != SR_OK || plan;
}

#define ENTRY(id)                                                                                  \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/cublaslt", .provider = "cublaslt", .numerics_class = "cublaslt",             \
        .supports = supports, .prepare = prepare, .dtypes = "bf16 f16", .lanes = true,             \
    }

static const sr_kernel_entry entries[] = {ENTRY(linear), ENTRY(linear_dx), ENTRY(linear_dw),
                                          ENTRY(matmul)};

const sr_provider sr_provider_cublaslt = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "cublaslt",
    .device = "cuda",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .version = sr_cublaslt_version,
    .numerics = 1,
};
