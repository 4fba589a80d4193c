// SPDX-License-Identifier: Apache-2.0
// Problems for softmax over rows and cross-entropy (see kernel_cases.h).
#include "tests/unit/kernels/cases/kernel_case_builders.h"

// Rows that are one chunk of a sum and longer ones; several blocks.
void case_softmax(sr_kernel_id kernel) {
    static const int64_t shapes[][2] = {{1, 1},    {7, 3},    {33, 197}, {9, 64},
                                        {3, 1024}, {2, 1025}, {3, 9001}, {700, 101}};
    const bool gradient = kernel == SR_KERNEL_softmax_grad || kernel == SR_KERNEL_log_softmax_grad;
    const int inputs = gradient ? 2 : 1;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_rows_params p = {shapes[k][0], shapes[k][1]};
            const int64_t count = p.rows * p.channels;
            problem c = problem_of(kernel, inputs + 1, &p, sizeof p);
            for (int i = 0; i < inputs; i++)
                set(&c, i, ACTIVATION, types[t], count);
            set_output(&c, inputs, ACTIVATION, types[t],
                       kernel == SR_KERNEL_logsumexp ? p.rows : count);
            c.terms = (double)p.channels;
            check_problem(&c);
        }
    }
}

// One class, few and many of them; sums of one chunk and of several; several blocks. Labels are
// ignored, too large, or one of the classes.
void case_xent(sr_kernel_id kernel) {
    static const int64_t shapes[][2] = {{1, 1},    {7, 2},    {3100, 11}, {33, 16},  {50, 17},
                                        {20, 21},  {18, 48},  {35, 49},   {19, 150}, {40, 1000},
                                        {3, 1024}, {2, 1025}, {3, 9001}};
    static const double smoothings[] = {0, 0.1, 1};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (size_t i = 0; i < TYPES * sizeof smoothings / sizeof smoothings[0]; i++) {
            const sr_xent_params p = {shapes[k][0], shapes[k][1], smoothings[i / TYPES]};
            const bool gradient = kernel == SR_KERNEL_softmax_xent_grad;
            const sr_dtype t = types[i % TYPES];
            problem c = problem_of(kernel, 4, &p, sizeof p);
            set(&c, 0, gradient ? PARAMETER : ACTIVATION, t, p.n * p.k);
            set(&c, 1, NUMBERS, t, p.n);
            c.arg[1].bound = (double)p.k;
            if (gradient)
                set(&c, 2, PARAMETER, t, p.n);
            else
                set_output(&c, 2, PARAMETER, t, p.n);
            set_output(&c, 3, gradient ? ACTIVATION : PARAMETER, t, p.n * p.k);
            c.terms = (double)p.k;
            check_problem(&c);
        }
    }
}
