// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN: conv2d and its gradients in bf16 and f16, and in fp32 with TF32, without
// groups. Weights are rounded to the type of the activations, and so are their gradients, which are
// stored as fp32.
// Of lanes side by side it serves conv2d and conv2d_dx.
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cuda/cuda_lanes.h"
#include "kernels/cuda/cuda_round.h"
#include "kernels/cuda/cudnn_filter.h"
#include "kernels/cuda/cudnn_library.h"
#include "kernels/cuda/cudnn_plan.h"
#include "kernels/kernel_params.h"

typedef struct cudnn_conv {
    sr_cudnn_plan *plan;
    sr_dtype dtype;
    sr_cudnn_filter_args filter, bias; // without addresses
    bool in_place;                     // the parameter is the filter
    size_t filter_at;                  // else in the workspace, behind that of the plan
} cudnn_conv;

static const sr_conv_params *params_of(const sr_kernel_request *request) {
    return (const sr_conv_params *)(const void *)request->params;
}

// ---- Launches ----

// A launch's workspace: what the plan needs, and the filter.
typedef struct place {
    void *filter, *plan;
} place;

static place place_of(const cudnn_conv *c, const sr_kernel_launch *launch, int parameter) {
    return (place){.filter = c->in_place ? sr_cuda_pointer(launch->p[parameter])
                                         : sr_cuda_packed(launch, c->filter_at),
                   .plan = (void *)sr_cuda_align((size_t)launch->workspace.at)};
}

static sr_status round_filter(const cudnn_conv *c, const sr_kernel_launch *launch, void *to) {
    const sr_address from = launch->p[1];
    void *const stream = launch->stream;
    if (c->in_place || launch->is_packed)
        return SR_OK;
    if (c->filter.taps == 1) { // both orders are the same
        sr_cuda_round_args round = {
            .from = {sr_cuda_pointer(from)}, .to = {to}, .count = {c->filter.count}};
        return sr_cuda_round(c->dtype, &round, stream);
    }
    sr_cudnn_filter_args arguments = c->filter;
    arguments.from = sr_cuda_pointer(from);
    arguments.to = to;
    return sr_cudnn_filter_pack(c->dtype, &arguments, stream);
}

// x, w, bias, y
static sr_status launch_conv2d(const sr_kernel_launch *launch) {
    const cudnn_conv *c = launch->state;
    const place at = place_of(c, launch, 1);
    void *const memory[SR_CUDNN_TENSORS] = {sr_cuda_pointer(launch->p[0]), at.filter,
                                            sr_cuda_pointer(launch->p[3])};
    SR_TRY(round_filter(c, launch, at.filter));
    SR_TRY(sr_cudnn_plan_execute(c->plan, launch->stream, memory, at.plan));
    if (c->bias.count == 0)
        return SR_OK;
    sr_cudnn_filter_args bias = c->bias;
    bias.from = sr_cuda_pointer(launch->p[2]);
    bias.to = memory[SR_CUDNN_RESULT];
    return sr_cudnn_add_bias(c->dtype, &bias, launch->stream);
}

// dy, w, dx
static sr_status launch_conv2d_dx(const sr_kernel_launch *launch) {
    const cudnn_conv *c = launch->state;
    const place at = place_of(c, launch, 1);
    void *const memory[SR_CUDNN_TENSORS] = {sr_cuda_pointer(launch->p[2]), at.filter,
                                            sr_cuda_pointer(launch->p[0])};
    SR_TRY(round_filter(c, launch, at.filter));
    return sr_cudnn_plan_execute(c->plan, launch->stream, memory, at.plan);
}

// x, dy, dw
static sr_status launch_conv2d_dw(const sr_kernel_launch *launch) {
    const cudnn_conv *c = launch->state;
    const place at = place_of(c, launch, 2);
    void *const memory[SR_CUDNN_TENSORS] = {sr_cuda_pointer(launch->p[0]), at.filter,
                                            sr_cuda_pointer(launch->p[1])};
    sr_cudnn_filter_args arguments = c->filter;
    SR_TRY(sr_cudnn_plan_execute(c->plan, launch->stream, memory, at.plan));
    if (c->in_place)
        return SR_OK;
    arguments.from = at.filter;
    arguments.to = sr_cuda_pointer(launch->p[2]);
    return sr_cudnn_filter_unpack(c->dtype, &arguments, launch->stream);
}

// ---- Preparing ----

static sr_status (*launch_of(sr_kernel_id kernel))(const sr_kernel_launch *launch) {
    return kernel == SR_KERNEL_conv2d      ? launch_conv2d
           : kernel == SR_KERNEL_conv2d_dx ? launch_conv2d_dx
                                           : launch_conv2d_dw;
}

static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params *p = params_of(request);
    sr_cudnn_plan *plan;
    SR_TRY(sr_cudnn_plan_find(request, &plan));
    if (!plan)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s has no engine for this convolution",
                       sr_cudnn_version());
    cudnn_conv *c = sr_alloc(sizeof *c, "a convolution of cuDNN");
    if (!c)
        return SR_E_MEMORY;
    const int64_t count = p->k * p->c * p->r * p->s;
    *c = (cudnn_conv){
        .plan = plan,
        .dtype = sr_kernel_activation(request),
        .filter = {.count = count, .channels = p->c, .taps = p->r * p->s},
        .in_place = sr_kernel_activation(request) == SR_F32 && p->r * p->s == 1,
    };
    if (request->kernel == SR_KERNEL_conv2d && request->dtype[2] != SR_DTYPE_COUNT)
        c->bias = (sr_cudnn_filter_args){.count = p->n * p->p * p->q * p->k, .channels = p->k};
    out->workspace = c->filter_at = sr_cudnn_plan_workspace(plan) > 0
                                        ? SR_CUDA_LIBRARY_ALIGNMENT + sr_cudnn_plan_workspace(plan)
                                        : 0;
    if (!c->in_place) {
        const sr_kernel_packing packing = sr_cuda_packing(1, c->dtype, count, p->c, p->r * p->s);
        out->workspace += packing.bytes;
        if (request->kernel != SR_KERNEL_conv2d_dw)
            out->packing = packing;
    }
    out->launch = launch_of(request->kernel);
    out->state = c;
    out->state_free = sr_free;
    return SR_OK;
}

// ---- What is served ----

static bool serves_lanes(const sr_kernel_request *request) {
    sr_kernel_request lane = *request;
    sr_conv_params *p = (void *)lane.params;
    if (request->kernel == SR_KERNEL_conv2d_dw || request->per_lane != 0 ||
        p->n % request->lanes != 0)
        return false;
    p->n /= request->lanes;
    lane.lanes = 0;
    return sr_cuda_keeps_lanes(request, &lane, prepare);
}

// An engine that fails for lack of memory serves, so that this is an error and no other choice;
// but for lanes, which have the same bits one by one.
static bool supports(const sr_kernel_request *request) {
    sr_cudnn_plan *plan;
    if (!sr_cuda_is_for_libraries(request) || params_of(request)->groups != 1)
        return false;
    if (request->lanes > 0)
        return serves_lanes(request);
    return sr_cudnn_plan_find(request, &plan) != SR_OK || plan;
}

#define ENTRY(id)                                                                                  \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/cudnn", .provider = "cudnn", .numerics_class = "cudnn",                      \
        .supports = supports, .prepare = prepare, .dtypes = "f32 bf16 f16", .lanes = true,         \
    }

static const sr_kernel_entry entries[] = {ENTRY(conv2d), ENTRY(conv2d_dx), ENTRY(conv2d_dw)};

const sr_provider sr_provider_cudnn = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "cudnn",
    .device = "cuda",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .version = sr_cudnn_version,
    .numerics = 1,
};
