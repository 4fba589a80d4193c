// SPDX-License-Identifier: Apache-2.0
// Convolutions without groups beside sums in f64 of the same factors.
//
// Weights are rounded to the type of the activations. Products of two factors are exact in fp32.
// Each of n additions is rounded, by tensor cores toward zero, to at most 2^-23 of a partial sum in
// any order, and no partial sum exceeds the sum of all absolute values; the result is rounded once
// more, to its own type:
//     |got - want| <= roundoff(T) |want| + (n + 2) 2^-23 (sum of |a b|)
// cuDNN also rounds before a bias is added, by roundoff(T) |sum of a b|, and gradients of weights
// to the type of the activations.
#ifndef SR_TESTS_UNIT_CONVOLUTION_SUMS_H
#define SR_TESTS_UNIT_CONVOLUTION_SUMS_H

#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_problem.h"

// 'got': the result; of_cudnn: it is cuDNN's.
void assert_convolution(const problem *c, const arrays *inputs, const void *got, bool of_cudnn);
// Of two samples, with paddings before and behind.
sr_conv_params make_convolution(int64_t side, int64_t channels, int64_t filters, int64_t window,
                                int stride, int before, int behind, int dilation);

#endif
