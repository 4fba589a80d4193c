// SPDX-License-Identifier: Apache-2.0
// What optimisers with averages of gradients and of their squares share.
#ifndef SR_TRAINER_MOMENTS_H
#define SR_TRAINER_MOMENTS_H

#include <stdint.h>

#include "kernels/base/options.h"

#ifdef __cplusplus
extern "C" {
#endif

// 1 - beta^updates, of an average that began at 0 (Kingma and Ba 2015). By products alone, so that
// every rank has the same bits, whatever its libm.
double sr_bias_correction(double beta, int64_t updates);

// SR_E_USAGE unless the option 'betas' has two numbers below 1.
SR_NODISCARD sr_status sr_betas_check(const sr_float_list *betas);

#ifdef __cplusplus
}
#endif
#endif
