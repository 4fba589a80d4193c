// SPDX-License-Identifier: Apache-2.0
// Ticks of the plots: few round steps, and labels as a person would write them.
#include "trainer/draw/plot_ticks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double sr_plot_step(double low, double high, int wanted) {
    double rough = (high - low) / wanted;
    if (!(rough > 0))
        return 1;
    double power = pow(10, floor(log10(rough))), rest = rough / power;
    return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
}

void sr_plot_number(double value, double step, char *out, size_t bytes) {
    char plain[64];
    int decimals = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
    if (fabs(value) < step * 1e-6)
        value = 0;
    if (decimals > 6) {
        snprintf(out, bytes, "%.3g", value);
        return;
    }
    int length = snprintf(plain, sizeof plain, "%.*f", decimals, value);
    int whole = decimals > 0 ? length - decimals - 1 : length, used = 0;
    for (int i = 0; i < length && (size_t)used + 2 < bytes; ++i) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0 && plain[i - 1] != '-')
            out[used++] = ',';
        out[used++] = plain[i];
    }
    out[used] = 0;
}
