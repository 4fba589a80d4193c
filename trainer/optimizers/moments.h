// SPDX-License-Identifier: Apache-2.0
// What optimisers with averages of gradients and of their squares share.
#ifndef SR_TRAINER_MOMENTS_H
#define SR_TRAINER_MOMENTS_H

#include <stdint.h>

#include "trainer/optimizers/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

// 1 - beta^updates, of an average that began at 0 (Kingma and Ba 2015). By products alone, so that
// every rank has the same bits, whatever its libm.
double sr_bias_correction(double beta, int64_t updates);

// The numbers of the kernel lamb for the direction of Adam, without weight decay.
void sr_moments_fill(const sr_float_list *betas, double eps, const sr_hyper_request *request,
                     float hyper[SR_HYPER]);

// SR_E_USAGE unless the option 'betas' has two numbers below 1.
SR_NODISCARD sr_status sr_betas_check(const sr_float_list *betas);

#ifdef __cplusplus
}
#endif
#endif
