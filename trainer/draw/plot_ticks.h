// SPDX-License-Identifier: Apache-2.0
// Ticks of the plots.
#ifndef SR_TRAINER_PLOT_TICKS_H
#define SR_TRAINER_PLOT_TICKS_H

#include <stddef.h>

// A round step (1, 2, 5 times a power of ten) that divides low..high into about 'wanted' intervals.
double sr_plot_step(double low, double high, int wanted);
// A tick's label with as many decimals as the step needs; thousands are separated.
void sr_plot_number(double value, double step, char *out, size_t bytes);

#endif
