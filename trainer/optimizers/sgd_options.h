// SPDX-License-Identifier: Apache-2.0
// The options of momentum, which SGD and LARS share.
#ifndef SR_TRAINER_SGD_OPTIONS_H
#define SR_TRAINER_SGD_OPTIONS_H

#include <stddef.h>

#include "trainer/optimizers/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

// Momentum of an optimiser's options.
typedef struct sr_sgd_options {
    double momentum, dampening;
    bool nesterov;
} sr_sgd_options;

// Their rows in the table of a struct 'owner', in which 'member' is "sgd." or nothing.
// clang-format off
#define SR_SGD_OPTIONS(owner, member)                                                              \
    {.name = "momentum",                                                                           \
     .help = "weight of the previous value in the momentum",                                       \
     .type = SR_OPT_FLOAT,                                                                         \
     .offset = offsetof(owner, member momentum),                                                   \
     .default_text = "0.9",                                                                        \
     .max = 0.9999},                                                                               \
    {.name = "dampening",                                                                          \
     .help = "fraction of the gradient that is left out of the momentum",                          \
     .type = SR_OPT_FLOAT,                                                                         \
     .offset = offsetof(owner, member dampening),                                                  \
     .default_text = "0",                                                                          \
     .max = 1},                                                                                    \
    {.name = "nesterov",                                                                           \
     .help = "use Nesterov momentum (Sutskever et al. 2013)",                                      \
     .type = SR_OPT_BOOL,                                                                          \
     .offset = offsetof(owner, member nesterov),                                                   \
     .default_text = "false"}
// clang-format on

// SR_E_USAGE for combinations that PyTorch refuses, too.
SR_NODISCARD sr_status sr_sgd_check(const sr_sgd_options *options);
// The numbers of the kernel sgd; gradient and weight decay are multiplied by 'ratio'.
void sr_sgd_fill(const sr_sgd_options *options, const sr_hyper_request *request, double ratio,
                 float hyper[SR_HYPER]);

#ifdef __cplusplus
}
#endif
#endif
