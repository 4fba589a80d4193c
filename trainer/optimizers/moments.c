// SPDX-License-Identifier: Apache-2.0
// Averages of gradients and of their squares (moments.h).
#include "trainer/optimizers/moments.h"

#include <math.h>

double sr_bias_correction(double beta, int64_t updates) {
    double power = 1, square = beta;
    for (int64_t left = updates; left > 0; left /= 2) {
        power *= left % 2 ? square : 1;
        square *= square;
    }
    return 1 - power;
}

void sr_moments_fill(const sr_float_list *betas, double eps, const sr_hyper_request *request,
                     float hyper[SR_HYPER]) {
    const double b1 = betas->items[0], b2 = betas->items[1];
    const int64_t updates = request->step + 1;
    const double values[] = {b1,
                             1 - b1,
                             b2,
                             1 - b2,
                             request->gradient_scale,
                             0,
                             1 / sr_bias_correction(b1, updates),
                             0,
                             sqrt(sr_bias_correction(b2, updates)),
                             eps};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        hyper[i] = (float)values[i];
}

sr_status sr_betas_check(const sr_float_list *betas) {
    if (betas->count != 2 || !(betas->items[0] < 1) || !(betas->items[1] < 1))
        return SR_FAIL(SR_E_USAGE, "betas must be two numbers below 1, such as [0.9, 0.999]");
    return SR_OK;
}
