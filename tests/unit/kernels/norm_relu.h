// SPDX-License-Identifier: Apache-2.0
// Batch norm with ReLU against batch norm, and the sum and the ReLU of what it stores.
#ifndef SR_TESTS_UNIT_NORM_RELU_H
#define SR_TESTS_UNIT_NORM_RELU_H

#include "tests/unit/kernels/kernel_fixture.h"

// Arguments of batchnorm_train and _grad; z and another gradient are drawn.
typedef struct norm_arguments {
    int64_t rows, channels;
    double eps;
    test_array *x, *dy, *gamma, *beta; // gamma, beta: NULL without
} norm_arguments;

// Fails the test unless each kernel of batch norm with ReLU of a provider has the bits of its
// kernels of batch norm with what comes before or after, also in place.
void check_norm_relu(const char *provider, const norm_arguments *n);

#endif
