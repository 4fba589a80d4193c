// SPDX-License-Identifier: Apache-2.0
// Normalisation over groups of channels with a sum before it or behind it, against both one after
// the other.
#ifndef SR_TESTS_UNIT_NORM_SUM_H
#define SR_TESTS_UNIT_NORM_SUM_H

#include "tests/unit/kernels/kernel_fixture.h"

// Arguments of groupnorm and groupnorm_grad; the terms of the sums are drawn.
typedef struct sum_arguments {
    sr_groupnorm_params params;
    test_array *x, *dy, *gamma, *beta; // gamma, beta: NULL without
    int64_t drop_rows;                 // of a sample of drop_path, divides the rows
} sum_arguments;

// Fails the test unless add_groupnorm, without and with a key, and groupnorm_add_grad of a provider
// have the bits of its kernels without sums, of drop_path and of a sum, also in place.
void check_norm_sum(const char *provider, const sum_arguments *n);

#endif
