// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al. 2019, "Large batch optimization for deep learning"), with the options of timm.
// Gradients are divided by their common norm over max_grad_norm, where that is above 1. Then, with
// t updates, this one included:
//
//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
//   u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay p
//   p -= lr |p| / |u| u
//
// with the norms of each tensor; their ratio is 1 where one is 0, and in tensors without decay.
#include <math.h>
#include <stddef.h>

#include "trainer/optimizers/moments.h"
#include "trainer/optimizers/optimizer.h"

typedef struct lamb_options {
    sr_float_list betas;
    double eps, max_grad_norm;
    bool bias_correction, grad_averaging, trust_clip, always_adapt;
} lamb_options;

static const sr_option rows[] = {
    {.name = "betas",
     .help = "decay rates of the averages of gradients and of squared gradients",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(lamb_options, betas),
     .default_text = "[0.9, 0.999]",
     .max = 1},
    {.name = "eps",
     .help = "added to the denominator, the root of the average square",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(lamb_options, eps),
     .default_text = "1e-6",
     .max = 1},
    {.name = "max_grad_norm",
     .help = "largest Euclidean norm of all gradients together (0: no limit)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(lamb_options, max_grad_norm),
     .default_text = "1",
     .max = 1e30},
    {.name = "bias_correction",
     .help = "correct the bias of the averages, which start at 0",
     .type = SR_OPT_BOOL,
     .offset = offsetof(lamb_options, bias_correction),
     .default_text = "true"},
    {.name = "grad_averaging",
     .help = "weight of the gradient in its average: 1 - beta; false: 1",
     .type = SR_OPT_BOOL,
     .offset = offsetof(lamb_options, grad_averaging),
     .default_text = "true"},
    {.name = "trust_clip",
     .help = "clip the trust ratio at 1, so that no step is longer than Adam's",
     .type = SR_OPT_BOOL,
     .offset = offsetof(lamb_options, trust_clip),
     .default_text = "false"},
    {.name = "always_adapt",
     .help = "also adapt the learning rates of tensors without weight decay",
     .type = SR_OPT_BOOL,
     .offset = offsetof(lamb_options, always_adapt),
     .default_text = "false"},
};

static const sr_option_table table = {.name = "optimizer.lamb",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(lamb_options)};

static sr_status check(const void *options) {
    return sr_betas_check(&((const lamb_options *)options)->betas);
}

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const lamb_options *o = options;
    const double b1 = o->betas.items[0], b2 = o->betas.items[1], most = o->max_grad_norm;
    const bool limits = most > 0 && request->global_norm > most;
    const int64_t updates = request->step + 1;
    const double values[] = {b1,
                             o->grad_averaging ? 1 - b1 : 1,
                             b2,
                             1 - b2,
                             limits ? request->gradient_scale * most / request->global_norm
                                    : request->gradient_scale,
                             request->weight_decay,
                             o->bias_correction ? 1 / sr_bias_correction(b1, updates) : 1,
                             0,
                             o->bias_correction ? sqrt(sr_bias_correction(b2, updates)) : 1,
                             o->eps};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

static void finish(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const lamb_options *o = options;
    const double p = request->param_norm, u = request->norm;
    double ratio = 1;
    if ((request->weight_decay != 0 || o->always_adapt) && p > 0 && u > 0)
        ratio = o->trust_clip && p > u ? 1 : p / u;
    hyper[0] = 1;
    hyper[1] = (float)(-request->lr * ratio);
    hyper[2] = 1;
}

extern const sr_optimizer_desc sr_optimizer_lamb;
const sr_optimizer_desc sr_optimizer_lamb = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "lamb",
    .help = "LAMB: Adam with a learning rate for each tensor, for large batches (You et al. 2019)",
    .options = &table,
    .check = check,
    .states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .kernel = SR_KERNEL_lamb,
    .fill = fill,
    .reductions = 2,
    .finish = finish};
