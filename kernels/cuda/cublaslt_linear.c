// SPDX-License-Identifier: Apache-2.0
// Linear layers, their gradients and products of batches by cuBLASLt, in bf16 and f16, and in fp32
// with TF32. Weights and bias are rounded to the type of the activations first. Gradients of
// weights are fp32, as their sums are; the slices of their rows (cublaslt_slices.h), of all lanes
// side by side, are a batch. Those of the filters of 1x1 convolutions, which have a row for each
// pixel, are the same.
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cuda/cublaslt_plan.h"
#include "kernels/cuda/cublaslt_provider.h"
#include "kernels/cuda/cublaslt_slices.h"
#include "kernels/cuda/cuda_lanes.h"
#include "kernels/cuda/cuda_round.h"
#include "kernels/kernel_lanes.h"

// rest: of the rows that are left over when those of a gradient of weights are cut into slices;
// NULL if there are none.
typedef struct plans {
    const sr_cublaslt_plan *whole, *rest;
} plans;

typedef struct prepared_product {
    plans plan;
    sr_dtype dtype;
    sr_cuda_round_args round;   // weights and bias, without addresses
    sr_cublaslt_fold_args fold; // of slices, likewise
    bool folds;                 // whether there are several
    int lanes;
    size_t rest_at[2]; // bytes of x and dy before the rest
    size_t bytes[2];   // of the sums of slices and the rest, or of nothing and the bias, in the
                       // workspace, before that of the plans
    size_t weights_at; // in the workspace, behind that of the plans
} prepared_product;

// ---- What is asked for ----

static int lanes_of(const sr_kernel_request *request) {
    return request->lanes > 0 ? request->lanes : 1;
}

static bool is_weight_gradient(const sr_kernel_request *request) {
    return request->kernel == SR_KERNEL_linear_dw || request->kernel == SR_KERNEL_conv2d_dw;
}

// Of one pixel, which is that of the output.
static bool is_pointwise(const sr_conv_params *p) {
    return p->r == 1 && p->s == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
           p->pad_left == 0 && p->p == p->h && p->q == p->w && p->groups == 1;
}

// The linear layer that a request is, of all lanes; no matmul.
static sr_linear_params linear_of(const sr_kernel_request *request) {
    const sr_conv_params *conv = (const void *)request->params;
    const sr_linear_params *linear = (const void *)request->params;
    if (request->kernel == SR_KERNEL_conv2d_dw)
        return (sr_linear_params){conv->n * conv->p * conv->q, conv->c, conv->k};
    return *linear;
}

static sr_cublaslt_slices slices_of(const sr_kernel_request *request) {
    const sr_linear_params p = linear_of(request);
    return sr_cublaslt_slices_of(p.n / lanes_of(request), p.c, p.k);
}

// dy^T x of 'batches' times so many rows.
static void multiply_rows(sr_matmul_params *p, int64_t rows, int64_t batches) {
    p->terms = rows;
    p->transpose_a = 1;
    p->a_count = p->b_count = p->dim[SR_MATMUL_DIMS - 1] = batches;
    p->a_step[SR_MATMUL_DIMS - 1] = p->b_step[SR_MATMUL_DIMS - 1] = batches > 1;
}

static sr_cublaslt_product product_of_linear(const sr_kernel_request *request) {
    const sr_linear_params linear = linear_of(request), *p = &linear;
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
    } else {
        const sr_cublaslt_slices slices = slices_of(request);
        out.p.rows = p->k, out.p.columns = p->c;
        multiply_rows(&out.p, slices.rows, slices.count * lanes_of(request));
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

// Rows of a linear layer, or samples.
static bool take_lane_of_rows(int64_t *n, int lanes) {
    const int64_t all = *n;
    *n /= lanes;
    return *n * lanes == all;
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
           : request->kernel == SR_KERNEL_conv2d_dw
               ? take_lane_of_rows(&((sr_conv_params *)(void *)lane->params)->n, request->lanes)
               : take_lane_of_rows(&((sr_linear_params *)(void *)lane->params)->n, request->lanes);
}

static sr_status find_whole(const sr_kernel_request *request, const sr_cublaslt_plan **out) {
    const sr_cublaslt_product product = product_of(request);
    sr_cublaslt_product of_lane;
    sr_kernel_request lane;
    if (request->lanes == 0)
        return sr_cublaslt_plan_find(&product, NULL, out);
    if (!take_lane(request, &lane))
        return SR_OK;
    of_lane = product_of(&lane);
    return sr_cublaslt_plan_find(&product, &of_lane, out);
}

static int64_t rest_of(const sr_kernel_request *request) {
    return is_weight_gradient(request) ? slices_of(request).rest : 0;
}

// *found: whether they serve the request.
static sr_status find_plans(const sr_kernel_request *request, plans *out, bool *found) {
    const int64_t rest = rest_of(request);
    *out = (plans){NULL, NULL};
    SR_TRY(find_whole(request, &out->whole));
    if (rest > 0) {
        sr_cublaslt_product product = product_of(request);
        multiply_rows(&product.p, rest, 1);
        SR_TRY(sr_cublaslt_plan_find(&product, NULL, &out->rest));
    }
    *found = out->whole && (rest == 0 || out->rest);
    return SR_OK;
}

// ---- Launches ----

// A launch's workspace: bias, or sums, and what the plans need, and weights.
typedef struct place {
    void *part[2], *plan;
} place;

static place place_of(const prepared_product *s, sr_address workspace) {
    const uintptr_t at = sr_cuda_align((size_t)workspace.at);
    return (place){.part = {(void *)at, (void *)(at + s->bytes[0])},
                   .plan = (void *)(at + s->bytes[0] + s->bytes[1])};
}

// Weights, and where there is one, the bias.
typedef struct parameters {
    const void *weights, *bias;
} parameters;

// Weights of fp32 stay where they are; a bias is aligned, too.
static sr_status round_parameters(const prepared_product *s, const sr_kernel_launch *launch,
                                  parameters *out) {
    sr_cuda_round_args arguments = s->round;
    const bool has_bias = arguments.count[1] > 0;
    const bool in_place = s->dtype == SR_F32;
    arguments.from[0] = sr_cuda_pointer(launch->p[1]);
    arguments.from[1] = has_bias ? sr_cuda_pointer(launch->p[2]) : NULL;
    arguments.to[0] = in_place ? NULL : sr_cuda_packed(launch, s->weights_at);
    arguments.to[1] = has_bias ? place_of(s, launch->workspace).part[1] : NULL;
    *out = (parameters){in_place ? arguments.from[0] : arguments.to[0], arguments.to[1]};
    if (in_place || launch->is_packed)
        arguments.count[0] = 0;
    if (arguments.count[0] == 0 && !has_bias)
        return SR_OK;
    return sr_cuda_round(s->dtype, &arguments, launch->stream);
}

// x, w, bias, y
static sr_status launch_linear(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    parameters rounded;
    SR_TRY(round_parameters(s, launch, &rounded));
    const sr_cublaslt_memory memory = {.a = sr_cuda_pointer(launch->p[0]),
                                       .b = rounded.weights,
                                       .bias = rounded.bias,
                                       .c = sr_cuda_pointer(launch->p[3]),
                                       .workspace = place_of(s, launch->workspace).plan};
    return sr_cublaslt_plan_execute(s->plan.whole, launch->stream, &memory);
}

// dy, w, dx
static sr_status launch_linear_dx(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    parameters rounded;
    SR_TRY(round_parameters(s, launch, &rounded));
    const sr_cublaslt_memory memory = {.a = sr_cuda_pointer(launch->p[0]),
                                       .b = rounded.weights,
                                       .c = sr_cuda_pointer(launch->p[2]),
                                       .workspace = place_of(s, launch->workspace).plan};
    return sr_cublaslt_plan_execute(s->plan.whole, launch->stream, &memory);
}

static const void *after(sr_address address, size_t bytes) {
    return (const char *)sr_cuda_pointer(address) + bytes;
}

// x, dy, dw
static sr_status launch_weight_gradient(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    const place at = place_of(s, launch->workspace);
    const sr_cublaslt_memory whole = {.a = sr_cuda_pointer(launch->p[1]),
                                      .b = sr_cuda_pointer(launch->p[0]),
                                      .c = s->folds ? at.part[0] : sr_cuda_pointer(launch->p[2]),
                                      .workspace = at.plan},
                             rest = {.a = after(launch->p[1], s->rest_at[1]),
                                     .b = after(launch->p[0], s->rest_at[0]),
                                     .c = at.part[1],
                                     .workspace = at.plan};
    sr_cublaslt_fold_args fold = s->fold;
    SR_TRY(sr_cublaslt_plan_execute(s->plan.whole, launch->stream, &whole));
    if (s->plan.rest)
        SR_TRY(sr_cublaslt_plan_execute(s->plan.rest, launch->stream, &rest));
    if (!s->folds)
        return SR_OK;
    fold.sums = at.part[0];
    fold.rest = s->plan.rest ? at.part[1] : NULL;
    fold.out = sr_cuda_pointer(launch->p[2]);
    return sr_cublaslt_fold(&fold, s->lanes, launch->stream);
}

// a, b, c
static sr_status launch_matmul(const sr_kernel_launch *launch) {
    const prepared_product *s = launch->state;
    const sr_cublaslt_memory memory = {.a = sr_cuda_pointer(launch->p[0]),
                                       .b = sr_cuda_pointer(launch->p[1]),
                                       .c = sr_cuda_pointer(launch->p[2]),
                                       .workspace = place_of(s, launch->workspace).plan};
    return sr_cublaslt_plan_execute(s->plan.whole, launch->stream, &memory);
}

// ---- Preparing ----

static sr_status (*launch_of(sr_kernel_id kernel))(const sr_kernel_launch *launch) {
    return kernel == SR_KERNEL_linear      ? launch_linear
           : kernel == SR_KERNEL_linear_dx ? launch_linear_dx
           : kernel == SR_KERNEL_matmul    ? launch_matmul
                                           : launch_weight_gradient;
}

static void prepare_round(const sr_kernel_request *request, prepared_product *s) {
    const sr_cublaslt_product product = product_of(request);
    s->round.count[0] = sr_kernel_argument_count(request, 1);
    if (product.bias)
        s->round.count[1] = product.p.columns;
    s->bytes[1] = sr_cuda_align((size_t)s->round.count[1] * sr_dtype_size(s->dtype));
}

static void prepare_fold(const sr_kernel_request *request, prepared_product *s) {
    const sr_linear_params p = linear_of(request);
    const sr_cublaslt_slices slices = slices_of(request);
    const size_t sums = (size_t)(p.k * p.c) * sizeof(float), type = sr_dtype_size(s->dtype);
    s->lanes = lanes_of(request);
    s->folds = slices.count > 1 || slices.rest > 0;
    if (!s->folds)
        return;
    s->fold.results = p.k * p.c;
    s->fold.slices = slices.count;
    s->rest_at[0] = (size_t)(slices.count * slices.rows * p.c) * type;
    s->rest_at[1] = (size_t)(slices.count * slices.rows * p.k) * type;
    s->bytes[0] = sr_cuda_align((size_t)(s->lanes * slices.count) * sums);
    s->bytes[1] = slices.rest > 0 ? sr_cuda_align(sums) : 0;
}

static size_t workspace_of(const sr_cublaslt_plan *plan) {
    return plan ? sr_cublaslt_plan_workspace(plan) : 0;
}

static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    plans plan;
    bool found;
    SR_TRY(find_plans(request, &plan, &found));
    if (!found)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s has no algorithm for this product",
                       sr_cublaslt_version());
    prepared_product *s = sr_alloc(sizeof *s, "a product of cuBLASLt");
    if (!s)
        return SR_E_MEMORY;
    *s = (prepared_product){.plan = plan, .dtype = sr_kernel_activation(request)};
    if (is_weight_gradient(request))
        prepare_fold(request, s);
    else if (request->kernel != SR_KERNEL_matmul)
        prepare_round(request, s);
    const size_t whole = workspace_of(plan.whole), rest = workspace_of(plan.rest);
    out->workspace = s->bytes[0] + s->bytes[1] + (whole > rest ? whole : rest);
    if (out->workspace > 0)
        out->workspace += SR_CUDA_LIBRARY_ALIGNMENT;
    if (s->round.count[0] > 0 && s->dtype != SR_F32) {
        s->weights_at = out->workspace;
        out->packing = sr_cuda_packing(1, s->dtype, s->round.count[0], 1, 1);
        out->workspace += out->packing.bytes;
    }
    out->launch = launch_of(request->kernel);
    out->state = s;
    out->state_free = sr_free;
    return SR_OK;
}

// ---- What is served ----

// A rest of each lane's rows lies between those of others, so that it is no batch.
static bool serves_lanes(const sr_kernel_request *request) {
    sr_kernel_request lane;
    return sr_kernel_lane_inputs(request) == 0 && take_lane(request, &lane) &&
           rest_of(&lane) == 0 && sr_cuda_keeps_lanes(request, &lane, prepare);
}

// An algorithm that cannot be asked for now, for lack of memory, serves, so that this is an error
// and no other choice; but for lanes, which have the same bits one by one.
static bool supports(const sr_kernel_request *request) {
    plans plan;
    bool found;
    if (!sr_cuda_is_for_libraries(request) ||
        (request->kernel == SR_KERNEL_conv2d_dw && !is_pointwise((const void *)request->params)))
        return false;
    if (request->lanes > 0)
        return serves_lanes(request);
    return find_plans(request, &plan, &found) != SR_OK || found;
}

#define ENTRY(id)                                                                                  \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/cublaslt", .provider = "cublaslt", .numerics_class = "cublaslt",             \
        .supports = supports, .prepare = prepare, .dtypes = "f32 bf16 f16", .lanes = true,         \
    }

static const sr_kernel_entry entries[] = {ENTRY(linear), ENTRY(linear_dx), ENTRY(linear_dw),
                                          ENTRY(conv2d_dw), ENTRY(matmul)};

const sr_provider sr_provider_cublaslt = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "cublaslt",
    .device = "cuda",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .version = sr_cublaslt_version,
    .numerics = 2,
};
