// SPDX-License-Identifier: Apache-2.0
// Averages of gradients and of their squares (moments.h).
#include "trainer/optimizers/moments.h"

double sr_bias_correction(double beta, int64_t updates) {
    double power = 1, square = beta;
    for (int64_t left = updates; left > 0; left /= 2) {
        power *= left % 2 ? square : 1;
        square *= square;
    }
    return 1 - power;
}

sr_status sr_betas_check(const sr_float_list *betas) {
    if (betas->count != 2 || !(betas->items[0] < 1) || !(betas->items[1] < 1))
        return SR_FAIL(SR_E_USAGE, "betas are two numbers below 1, such as [0.9, 0.999]");
    return SR_OK;
}
