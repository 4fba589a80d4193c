// SPDX-License-Identifier: Apache-2.0
// Convolutions without groups beside sums in f64 of the same factors.
//
// Weights are rounded to the type of the activations. Products of two
// factors are exact in fp32. Each of n additions is rounded, by tensor cores toward zero, to at
// most 2^-23 of a partial sum in any order, and no partial sum exceeds the sum of all absolute
// values; the result is rounded once more, before a bias is added and after that:
//     |got - want| <= roundoff(T) |want| + (n + 2) 2^-23 (sum of |a b|) + roundoff(T) |sum of a b|
#ifndef SR_TESTS_UNIT_CONVOLUTION_SUMS_H
#define SR_TESTS_UNIT_CONVOLUTION_SUMS_H

#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_problem.h"

// 'got': the result. rounds_gradients: gradients of weights are rounded to the type of the
// activations, too.
void assert_convolution(const problem *c, const arrays *inputs, const void *got,
                        bool rounds_gradients);
// Of two samples, with paddings before and behind.
sr_conv_params make_convolution(int64_t side, int64_t channels, int64_t filters, int64_t window,
                                int stride, int before, int behind, int dilation);

#endif
