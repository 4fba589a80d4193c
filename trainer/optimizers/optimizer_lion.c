// SPDX-License-Identifier: Apache-2.0
// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms"): with the gradient g,
//
//   p = (1 - lr decay) p - lr sign(b1 m + (1 - b1) g),  m = b2 m + (1 - b2) g
#include <stddef.h>

#include "trainer/optimizers/moments.h"
#include "trainer/optimizers/optimizer.h"

typedef struct lion_options {
    sr_float_list betas;
} lion_options;

static const sr_option rows[] = {
    {.name = "betas",
     .help = "decay rates of the average: in the update direction, and in the stored average",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(lion_options, betas),
     .default_text = "[0.9, 0.99]",
     .max = 1},
};

static const sr_option_table table = {
    .name = "optimizer.lion", .options = rows, .count = 1, .struct_size = sizeof(lion_options)};

static sr_status check(const void *options) {
    return sr_betas_check(&((const lion_options *)options)->betas);
}

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const lion_options *o = options;
    const double b1 = o->betas.items[0], b2 = o->betas.items[1];
    const double values[] = {b1,
                             1 - b1,
                             b2,
                             1 - b2,
                             request->gradient_scale,
                             0,
                             1 - request->lr * request->weight_decay,
                             request->lr};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

extern const sr_optimizer_desc sr_optimizer_lion;
const sr_optimizer_desc sr_optimizer_lion = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "lion",
    .help = "Lion: the sign of an average of gradients (Chen et al. 2023)",
    .options = &table,
    .check = check,
    .states = 1,
    .state_names = {"exp_avg"},
    .kernel = SR_KERNEL_lion,
    .fill = fill};
