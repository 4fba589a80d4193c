// SPDX-License-Identifier: Apache-2.0
// Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"). Weights of
// two or more dimensions are matrices [first dimension, rest]; their step is a momentum whose
// singular values are brought near 1 (trainer/engine/param_set_matrix.c):
//
//   m = momentum m + (1 - momentum) g,  u = (1 - momentum) g + momentum m, without nesterov u = m
//   p = (1 - lr decay) p - lr s orthogonal(u),  s = sqrt(max(1, rows / columns))
//
// With match_rms s = 0.2 sqrt(max(rows, columns)), which gives steps of the size of AdamW's (Liu et
// al. 2025, "Muon is scalable for LLM training"). With fixed_norm p is scaled to the norm
// sqrt(rows) before the step. All other parameters, and weights of groups that are 'elementwise',
// take AdamW, with the same rate times adam_scale, or SGD with that rate and a decay like AdamW's:
//
//   m = others_momentum m + g,  u = g + others_momentum m, without nesterov u = m
//   p = (1 - lr decay) p - lr u
#include <math.h>
#include <stddef.h>

#include "trainer/optimizers/moments.h"
#include "trainer/optimizers/optimizer.h"

typedef enum muon_others { OTHERS_ADAMW, OTHERS_SGD } muon_others;
static const char *const others[] = {[OTHERS_ADAMW] = "adamw", [OTHERS_SGD] = "sgd", NULL};

typedef struct muon_options {
    double momentum, eps, adam_scale, others_momentum;
    int64_t iterations;
    sr_float_list betas;
    int others;
    bool nesterov, match_rms, fixed_norm;
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
    {.name = "iterations",
     .help = "iterations that bring the step of a matrix near an orthogonal one",
     .type = SR_OPT_INT,
     .offset = offsetof(muon_options, iterations),
     .default_text = "5",
     .min = 1,
     .max = 16,
     .option_class = SR_OPTION_ADDED},
    {.name = "fixed_norm",
     .help = "scale each matrix to a norm of the root of its rows before its step, for weights "
             "before a normalisation (Jordan 2024)",
     .type = SR_OPT_BOOL,
     .offset = offsetof(muon_options, fixed_norm),
     .default_text = "false",
     .option_class = SR_OPTION_ADDED},
    {.name = "others",
     .help = "how parameters that are no matrices are updated; sgd has a decay like AdamW's",
     .type = SR_OPT_ENUM,
     .offset = offsetof(muon_options, others),
     .default_text = "adamw",
     .choices = others,
     .option_class = SR_OPTION_ADDED},
    {.name = "others_momentum",
     .help = "with others sgd: weight of the previous value in their momentum",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(muon_options, others_momentum),
     .default_text = "0.9",
     .max = 0.9999,
     .option_class = SR_OPTION_ADDED},
    {.name = "betas",
     .help = "with others adamw: decay rates of the averages of gradients and of squared gradients",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(muon_options, betas),
     .default_text = "[0.9, 0.999]",
     .max = 1},
    {.name = "eps",
     .help = "with others adamw: added to the denominator, the root of the average square",
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

// Others are those of SGD.
static void fill_matrix(const void *options, const sr_hyper_request *request,
                        float hyper[SR_HYPER]) {
    const muon_options *o = options;
    const bool matrix = request->rows > 0;
    const double momentum = matrix ? o->momentum : o->others_momentum,
                 scale = request->gradient_scale, rest = matrix ? 1 - momentum : 1;
    const double values[] = {
        momentum, rest, scale, 0, o->nesterov ? rest * scale : 0, o->nesterov ? momentum : 1, 1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

static bool is_linear(const void *options) {
    return ((const muon_options *)options)->others == OTHERS_SGD;
}

static uint32_t uses(const void *options) {
    return is_linear(options) ? 1 : 3;
}

static int iterations(const void *options) {
    return (int)((const muon_options *)options)->iterations;
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
    const bool matrix = request->rows > 0;
    const double rate = matrix ? request->lr : request->lr * o->adam_scale;
    double keep = 1 - rate * request->weight_decay;
    if (matrix && o->fixed_norm && request->param_norm > 0)
        keep *= sqrt((double)request->rows) / request->param_norm;
    hyper[0] = (float)keep;
    hyper[1] = (float)(-request->lr * scale_of(o, request));
    hyper[2] = 1;
}

extern const sr_optimizer_desc sr_optimizer_muon;
const sr_optimizer_desc sr_optimizer_muon = {
    .struct_size = sizeof(sr_optimizer_desc),
    .abi = SR_OPTIMIZER_ABI,
    .name = "muon",
    .help = "Muon: orthogonalised steps for matrices (Jordan et al. 2024), AdamW or SGD for the "
            "rest",
    .options = &table,
    .check = check,
    .states = 2,
    .uses = uses,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .kernel = SR_KERNEL_lamb,
    .fill = fill,
    .fill_matrix = fill_matrix,
    .is_linear = is_linear,
    .iterations = iterations,
    .reductions = 2,
    .finish = finish};
