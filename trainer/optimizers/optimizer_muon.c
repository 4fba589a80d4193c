// SPDX-License-Identifier: Apache-2.0
// Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"). Weights of
// two or more dimensions are matrices [first dimension, rest]; their step is a momentum whose
// singular values are brought near 1 (trainer/engine/param_set_matrix.c):
//
//   m = momentum m + (1 - momentum) g,  u = (1 - momentum) g + momentum m, without nesterov u = m
//   p = (1 - lr decay) p - lr s orthogonal(u),  s = sqrt(max(1, rows / columns))
//
// With match_rms s = 0.2 sqrt(max(rows, columns)), which gives steps of the size of AdamW's (Liu et
// al. 2025, "Muon is scalable for LLM training"). All other parameters, and weights of groups that
// are 'elementwise', take AdamW, with the same rate times adam_scale.
#include <math.h>
#include <stddef.h>

#include "trainer/optimizers/moments.h"
#include "trainer/optimizers/optimizer.h"

typedef struct muon_options {
    double momentum, eps, adam_scale;
    sr_float_list betas;
    bool nesterov, match_rms;
} muon_options;

static const sr_option rows[] = {
    {.name = "momentum",
     .help = "for matrices: weight of the previous value in the momentum",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(muon_options, momentum),
     .default_text = "0.95",
     .max = 0.9999},
    {.name = "nesterov",
     .help = "use Nesterov momentum (Sutskever et al. 2013)",
     .type = SR_OPT_BOOL,
     .offset = offsetof(muon_options, nesterov),
     .default_text = "true"},
    {.name = "match_rms",
     .help = "scale the steps of matrices to the RMS of AdamW's (Liu et al. 2025)",
     .type = SR_OPT_BOOL,
     .offset = offsetof(muon_options, match_rms),
     .default_text = "false"},
    {.name = "betas",
     .help =
         "for other parameters: decay rates of the averages of gradients and of squared gradients",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(muon_options, betas),
     .default_text = "[0.9, 0.999]",
     .max = 1},
    {.name = "eps",
     .help = "for other parameters: added to the denominator, the root of the average square",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(muon_options, eps),
     .default_text = "1e-8",
     .max = 1},
    {.name = "adam_scale",
     .help = "for other parameters: factor of the learning rate",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(muon_options, adam_scale),
     .default_text = "1",
     .max = 1e6},
};

static const sr_option_table table = {.name = "optimizer.muon",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(muon_options)};

static sr_status check(const void *options) {
    return sr_betas_check(&((const muon_options *)options)->betas);
}

// The direction of Adam.
static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const muon_options *o = options;
    sr_moments_fill(&o->betas, o->eps, request, hyper);
}

static void fill_matrix(const void *options, const sr_hyper_request *request,
                        float hyper[SR_HYPER]) {
    const muon_options *o = options;
    const double rest = 1 - o->momentum, scale = request->gradient_scale;
    const double values[] = {o->momentum,
                             rest,
                             scale,
                             0,
                             o->nesterov ? rest * scale : 0,
                             o->nesterov ? o->momentum : 1,
                             1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

static double scale_of(const muon_options *o, const sr_hyper_request *request) {
    const double high = (double)request->rows, wide = (double)request->columns;
    if (request->rows == 0)
        return o->adam_scale;
    if (o->match_rms)
        return 0.2 * sqrt(high > wide ? high : wide);
    return high > wide ? sqrt(high / wide) : 1;
}

static void finish(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const muon_options *o = options;
    const double rate = request->rows > 0 ? request->lr : request->lr * o->adam_scale;
    hyper[0] = (float)(1 - rate * request->weight_decay);
    hyper[1] = (float)(-request->lr * scale_of(o, request));
    hyper[2] = 1;
}

extern const sr_optimizer_desc sr_optimizer_muon;
const sr_optimizer_desc sr_optimizer_muon = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "muon",
    .help = "Muon: orthogonalised steps for matrices (Jordan et al. 2024), AdamW for the rest",
    .options = &table,
    .check = check,
    .states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .kernel = SR_KERNEL_lamb,
    .fill = fill,
    .fill_matrix = fill_matrix,
    .reductions = 2,
    .finish = finish};
