// SPDX-License-Identifier: Apache-2.0
// RMSprop (Tieleman and Hinton 2012; centred: Graves 2013), as torch.optim.RMSprop. With the
// gradient g, to which the weight decay is added:
//
//   s = alpha s + (1 - alpha) g^2,  centred: a = alpha a + (1 - alpha) g, else a = 0
//   u = g / (sqrt(s - a^2) + eps),  p -= lr u, with momentum m = momentum m + u, p -= lr m
//
// TensorFlow's differs in three places: u = g / sqrt(s - a^2 + eps), s begins at 1, and
// m = momentum m + lr u with p -= m. EfficientNet and MobileNetV3 were trained with it.
#include <stddef.h>

#include "trainer/optimizers/optimizer.h"

typedef struct rmsprop_options {
    double alpha, eps, momentum;
    bool centered, tensorflow;
} rmsprop_options;

static const sr_option rows[] = {
    {.name = "alpha",
     .help = "decay rate of the average of squared gradients",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(rmsprop_options, alpha),
     .default_text = "0.99",
     .max = 0.999999},
    {.name = "eps",
     .help = "added to the denominator, the root of the average square; with tensorflow, inside "
             "the root",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(rmsprop_options, eps),
     .default_text = "1e-8",
     .max = 1},
    {.name = "momentum",
     .help = "weight of the previous value in the momentum",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(rmsprop_options, momentum),
     .default_text = "0",
     .max = 0.9999},
    {.name = "centered",
     .help = "divide by an estimate of the standard deviation (Graves 2013)",
     .type = SR_OPT_BOOL,
     .offset = offsetof(rmsprop_options, centered),
     .default_text = "false"},
    {.name = "tensorflow",
     .help = "as in TensorFlow: eps inside the root, an initial average of 1, the learning rate "
             "inside the momentum",
     .type = SR_OPT_BOOL,
     .offset = offsetof(rmsprop_options, tensorflow),
     .default_text = "false"},
};

static const sr_option_table table = {.name = "optimizer.rmsprop",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(rmsprop_options)};

static uint32_t uses(const void *options) {
    const rmsprop_options *o = options;
    return 1u | (o->centered ? 2u : 0u) | (o->momentum > 0 ? 4u : 0u);
}

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const rmsprop_options *o = options;
    const double values[] = {o->alpha,
                             1 - o->alpha,
                             o->momentum,
                             o->tensorflow ? request->lr : 1,
                             request->gradient_scale,
                             request->weight_decay,
                             o->tensorflow ? 1 : request->lr,
                             o->tensorflow ? o->eps : 0,
                             0,
                             o->tensorflow ? 0 : o->eps,
                             o->centered,
                             o->tensorflow && request->step == 0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

extern const sr_optimizer_desc sr_optimizer_rmsprop;
const sr_optimizer_desc sr_optimizer_rmsprop = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "rmsprop",
    .help = "RMSprop: gradients over the root of their average square",
    .options = &table,
    .states = 3,
    .state_names = {"square_avg", "grad_avg", "momentum_buffer"},
    .uses = uses,
    .kernel = SR_KERNEL_rmsprop,
    .fill = fill};
