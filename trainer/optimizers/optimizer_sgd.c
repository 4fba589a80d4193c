// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum, as torch.optim.SGD: weight decay is added to the
// gradient, and the first momentum is the gradient itself.
#include "trainer/optimizers/sgd_options.h"

static const sr_option sgd_rows[] = {SR_SGD_OPTIONS(sr_sgd_options, )};

static const sr_option_table sgd_table = {.name = "optimizer.sgd",
                                          .options = sgd_rows,
                                          .count = sizeof sgd_rows / sizeof sgd_rows[0],
                                          .struct_size = sizeof(sr_sgd_options)};

// As in PyTorch: Nesterov's update needs a momentum.
sr_status sr_sgd_check(const sr_sgd_options *o) {
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        return SR_FAIL(SR_E_USAGE, "nesterov needs momentum above 0 and dampening 0");
    return SR_OK;
}

void sr_sgd_fill(const sr_sgd_options *o, const sr_hyper_request *request, double ratio,
                 float hyper[SR_HYPER]) {
    const double values[] = {request->lr,
                             o->momentum,
                             request->weight_decay * ratio,
                             o->nesterov,
                             request->gradient_scale * ratio,
                             o->dampening,
                             request->step == 0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

static sr_status check(const void *options) {
    return sr_sgd_check(options);
}

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    sr_sgd_fill(options, request, 1, hyper);
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
