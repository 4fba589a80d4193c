// SPDX-License-Identifier: Apache-2.0
// LARS (You, Gitman and Ginsburg 2017, "Large batch training of convolutional networks"), with the
// options of timm and apex: SGD whose gradient and weight decay are multiplied, in each tensor, by
//
//   ratio = trust_coeff |p| / (|g| + decay |p| + eps)
//
// where the tensor has a weight decay; 1 where |p| or |g| is 0. With trust_clip the ratio is at
// most that of plain SGD: min(ratio / lr, 1).
#include "trainer/optimizers/sgd_options.h"

typedef struct lars_options {
    sr_sgd_options sgd;
    double trust_coeff, eps;
    bool trust_clip, always_adapt;
} lars_options;

static const sr_option rows[] = {
    SR_SGD_OPTIONS(lars_options, sgd.),
    {.name = "trust_coeff",
     .help = "trust coefficient: norm of a step as a fraction of the parameters' norm, at a "
             "learning rate of 1",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(lars_options, trust_coeff),
     .default_text = "0.001",
     .max = 1e6},
    {.name = "eps",
     .help = "added to the norm of the gradient",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(lars_options, eps),
     .default_text = "1e-8",
     .max = 1},
    {.name = "trust_clip",
     .help = "clip the trust ratio at 1, so that no step is longer than SGD's",
     .type = SR_OPT_BOOL,
     .offset = offsetof(lars_options, trust_clip),
     .default_text = "false"},
    {.name = "always_adapt",
     .help = "also adapt the learning rates of tensors without weight decay",
     .type = SR_OPT_BOOL,
     .offset = offsetof(lars_options, always_adapt),
     .default_text = "false"},
};

static const sr_option_table table = {.name = "optimizer.lars",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(lars_options)};

static sr_status check(const void *options) {
    return sr_sgd_check(&((const lars_options *)options)->sgd);
}

static double ratio_of(const lars_options *o, const sr_hyper_request *request) {
    const double w = request->param_norm, g = request->norm, decay = request->weight_decay;
    double ratio = 1;
    if (decay == 0 && !o->always_adapt)
        return 1;
    if (w > 0 && g > 0)
        ratio = o->trust_coeff * w / (g + decay * w + o->eps);
    return o->trust_clip && ratio > request->lr ? 1 : o->trust_clip ? ratio / request->lr : ratio;
}

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const lars_options *o = options;
    sr_sgd_fill(&o->sgd, request, ratio_of(o, request), hyper);
}

extern const sr_optimizer_desc sr_optimizer_lars;
const sr_optimizer_desc sr_optimizer_lars = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "lars",
    .help = "LARS: SGD with a learning rate for each tensor, for large batches (You et al. 2017)",
    .options = &table,
    .check = check,
    .states = 1,
    .state_names = {"momentum"},
    .kernel = SR_KERNEL_sgd,
    .fill = fill,
    .reductions = 1};
