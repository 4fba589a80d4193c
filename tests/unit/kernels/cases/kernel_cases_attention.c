// SPDX-License-Identifier: Apache-2.0
// Problems of multi-head attention (see kernel_cases.h).
#include "tests/unit/kernels/cases/kernel_case_builders.h"

// The arguments that kernel_list.def says.
static void attention(sr_kernel_id kernel, const sr_attention_params *p, sr_dtype t) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    problem c = problem_of(kernel, count, p, sizeof *p);
    for (int i = 0; i < count; i++) {
        const bool absent = arguments[i].role == SR_ARG_OPT && p->biases == 0;
        set(&c, i,
            absent                          ? NONE
            : arguments[i].type == SR_ARG_T ? ACTIVATION
                                            : PARAMETER,
            t, sr_kernel_argument_count(&c.request, i));
        c.arg[i].output = arguments[i].role == SR_ARG_OUT;
    }
    c.terms = (double)(p->depth + p->keys + p->queries);
    check_problem(&c);
}

void case_attention(sr_kernel_id kernel) {
    static const sr_attention_params shapes[] = {
        {1, 1, 1, 1, 1, 0, 1},        {2, 5, 7, 2, 3, 1, 0.5},    {4, 33, 65, 1, 40, 2, 0.2},
        {1, 70, 40, 3, 64, 1, 0.125}, {2, 3, 130, 2, 72, 2, 0.1}, {1, 2, 1500, 1, 3, 1, 0.2},
        {75, 2, 3, 1, 4, 1, 0.5}, // long rows, a bias of many
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            sr_attention_params p = shapes[k];
            if (k > 0 && kernel != SR_KERNEL_attention_bias_grad && t == (int)k % TYPES)
                p.biases = 0; // the argument is absent
            p.biases = k == 0 && kernel == SR_KERNEL_attention_bias_grad ? 1 : p.biases;
            attention(kernel, &p, types[t]);
        }
    }
}
