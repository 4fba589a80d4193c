// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as torch.optim.Adam and AdamW.
// With t updates, this one included, and the gradient g, to which Adam adds decay p:
//
//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
//   p = (1 - lr decay) p - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)
//
// where Adam leaves out the factor of p. With amsgrad (Reddi et al. 2018) the root is that of the
// largest v so far.
#include <math.h>
#include <stddef.h>

#include "trainer/optimizers/moments.h"
#include "trainer/optimizers/optimizer.h"

typedef struct adam_options {
    sr_float_list betas;
    double eps;
    bool amsgrad;
} adam_options;

static const sr_option rows[] = {
    {.name = "betas",
     .help = "decay rates of the averages of gradients and of squared gradients",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(adam_options, betas),
     .default_text = "[0.9, 0.999]",
     .max = 1},
    {.name = "eps",
     .help = "added to the denominator, the root of the average square",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(adam_options, eps),
     .default_text = "1e-8",
     .max = 1},
    {.name = "amsgrad",
     .help = "use the largest average square so far in the denominator (Reddi et al. 2018)",
     .type = SR_OPT_BOOL,
     .offset = offsetof(adam_options, amsgrad),
     .default_text = "false"},
};

static const sr_option_table adam_table = {.name = "optimizer.adam",
                                           .options = rows,
                                           .count = sizeof rows / sizeof rows[0],
                                           .struct_size = sizeof(adam_options)};
static const sr_option_table adamw_table = {.name = "optimizer.adamw",
                                            .options = rows,
                                            .count = sizeof rows / sizeof rows[0],
                                            .struct_size = sizeof(adam_options)};

static sr_status check(const void *options) {
    return sr_betas_check(&((const adam_options *)options)->betas);
}

static uint32_t uses(const void *options) {
    return ((const adam_options *)options)->amsgrad ? 7 : 3;
}

static void fill(const adam_options *o, const sr_hyper_request *request, bool decoupled,
                 float hyper[SR_HYPER]) {
    const double b1 = o->betas.items[0], b2 = o->betas.items[1], decay = request->weight_decay;
    const double values[] = {b1,
                             1 - b1,
                             b2,
                             1 - b2,
                             request->gradient_scale,
                             decoupled ? 0 : decay,
                             decoupled ? 1 - request->lr * decay : 1,
                             request->lr / sr_bias_correction(b1, request->step + 1),
                             sqrt(sr_bias_correction(b2, request->step + 1)),
                             o->eps,
                             o->amsgrad};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

static void fill_adam(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    fill(options, request, false, hyper);
}

static void fill_adamw(const void *options, const sr_hyper_request *request,
                       float hyper[SR_HYPER]) {
    fill(options, request, true, hyper);
}

extern const sr_optimizer_desc sr_optimizer_adam, sr_optimizer_adamw;
const sr_optimizer_desc sr_optimizer_adam = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "adam",
    .help =
        "Adam: the average of gradients over the root of that of their squares (Kingma & Ba 2015)",
    .options = &adam_table,
    .check = check,
    .states = 3,
    .state_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .uses = uses,
    .kernel = SR_KERNEL_adam,
    .fill = fill_adam};
const sr_optimizer_desc sr_optimizer_adamw = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "adamw",
    .help = "Adam with decoupled weight decay (Loshchilov & Hutter 2019)",
    .options = &adamw_table,
    .check = check,
    .states = 3,
    .state_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .uses = uses,
    .kernel = SR_KERNEL_adam,
    .fill = fill_adamw};
