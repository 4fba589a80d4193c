// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum, as torch.optim.SGD: weight decay is added to the
// gradient, and the first momentum is the gradient itself.
#include <stddef.h>

#include "trainer/optimizers/optimizer.h"

typedef struct sgd_options {
    double momentum, dampening;
    bool nesterov;
} sgd_options;

static const sr_option sgd_rows[] = {
    {.name = "momentum",
     .help = "weight of the previous direction",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(sgd_options, momentum),
     .default_text = "0.9",
     .max = 0.9999},
    {.name = "dampening",
     .help = "fraction of the gradient that is not added to the momentum",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(sgd_options, dampening),
     .default_text = "0",
     .max = 1},
    {.name = "nesterov",
     .help = "look ahead along the momentum (Sutskever et al. 2013)",
     .type = SR_OPT_BOOL,
     .offset = offsetof(sgd_options, nesterov),
     .default_text = "false"},
};

static const sr_option_table sgd_table = {.name = "optimizer.sgd",
                                          .options = sgd_rows,
                                          .count = sizeof sgd_rows / sizeof sgd_rows[0],
                                          .struct_size = sizeof(sgd_options)};

// As in PyTorch: Nesterov's update needs a momentum.
static sr_status check(const void *options) {
    const sgd_options *o = options;
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        return SR_FAIL(SR_E_USAGE, "nesterov needs momentum above 0 and dampening 0");
    return SR_OK;
}

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const sgd_options *o = options;
    const float values[SR_HYPER] = {(float)request->lr,
                                    (float)o->momentum,
                                    (float)request->weight_decay,
                                    o->nesterov ? 1.0f : 0.0f,
                                    (float)request->gradient_scale,
                                    (float)o->dampening,
                                    request->step == 0 ? 1.0f : 0.0f};
    for (int i = 0; i < SR_HYPER; i++)
        hyper[i] = values[i];
}

extern const sr_optimizer_desc sr_optimizer_sgd;
const sr_optimizer_desc sr_optimizer_sgd = {.struct_size = sizeof(sr_optimizer_desc),
                                            .abi = SR_OPTIMIZER_ABI,
                                            .name = "sgd",
                                            .help = "stochastic gradient descent with momentum",
                                            .options = &sgd_table,
                                            .check = check,
                                            .states = 1,
                                            .state_names = {"momentum"},
                                            .kernel = SR_KERNEL_sgd,
                                            .fill = fill};
