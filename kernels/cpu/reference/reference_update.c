// SPDX-License-Identifier: Apache-2.0
// Reference updates of parameters in place, f32: SGD with momentum in the form of torch.optim.SGD
// (weight decay is added to the gradient, the first momentum is the gradient), and moving averages.
#include "kernels/cpu/reference/reference_internal.h"

// hyper: lr, momentum, weight_decay, nesterov, gradient scale, dampening, first step, 0
static sr_status sgd(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_count_params *params = args->params;
    float *p = args->p[0], *m = args->p[1];
    const float *grad = args->p[2], *hyper = args->p[3];
    const float lr = hyper[0], momentum = hyper[1], decay = hyper[2], scale = hyper[4];
    const float fresh = 1.0f - hyper[5];
    const bool nesterov = hyper[3] != 0.0f, first = hyper[6] != 0.0f,
               has_momentum = momentum != 0.0f;
    const sr_block_range r = sr_block_range_of(block, SR_REFERENCE_BLOCK, params->count);
    for (int64_t i = r.begin; i < r.end; i++) {
        const float g = grad[i] * scale + decay * p[i];
        float step = g;
        if (has_momentum) {
            m[i] = first ? g : momentum * m[i] + fresh * g;
            step = nesterov ? g + momentum * m[i] : m[i];
        }
        p[i] -= lr * step;
    }
    return SR_OK;
}

// hyper: keep, take, scale
static sr_status ema(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_count_params *params = args->params;
    float *e = args->p[0];
    const float *p = args->p[1], *hyper = args->p[2];
    const float keep = hyper[0], take = hyper[1], scale = hyper[2];
    const sr_block_range r = sr_block_range_of(block, SR_REFERENCE_BLOCK, params->count);
    for (int64_t i = r.begin; i < r.end; i++)
        e[i] = keep * e[i] + take * (p[i] * scale);
    return SR_OK;
}

static sr_status prepare(sr_kernel_fn run, const sr_kernel_request *request, sr_prepared *out) {
    const sr_count_params *p = (const void *)request->params;
    sr_add_stage(out, run, sr_blocks_of(p->count, SR_REFERENCE_BLOCK));
    return SR_OK;
}

sr_status sr_reference_prepare_sgd(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(sgd, request, out);
}

sr_status sr_reference_prepare_ema(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(ema, request, out);
}
