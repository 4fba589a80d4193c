// SPDX-License-Identifier: Apache-2.0
// Problems of the kernels that sample pictures (see kernel_cases.h): weighted sums by an index,
// pixels near points, filtered resampling.
#include "tests/unit/kernels/kernel_case_builders.h"

static void gather_sum(sr_kernel_id kernel, const sr_gather_sum_params *p, sr_dtype t) {
    const int64_t wide = p->groups * p->inner, x = p->outer * p->n * wide;
    const int64_t y = p->outer * p->count * wide, numbers = sr_gather_sum_numbers(p);
    const bool dot = kernel == SR_KERNEL_gather_dot, scatter = kernel == SR_KERNEL_scatter_sum;
    problem c = problem_of(kernel, 4, p, sizeof *p);
    set(&c, 0, ACTIVATION, t, scatter ? y : x);
    set(&c, dot ? 2 : 1, NUMBERS, t, numbers);
    c.arg[dot ? 2 : 1].bound = (double)p->n;
    if (dot) {
        set(&c, 1, ACTIVATION, t, y);
        set_output(&c, 3, PARAMETER, t, numbers);
    } else {
        set(&c, 2, PARAMETER, t, numbers);
        set_output(&c, 3, ACTIVATION, t, scatter ? x : y);
    }
    check_problem(&c);
}

// Single elements, whole vectors of a device, groups, sums of many leaves, several blocks.
void case_gather_sum(sr_kernel_id kernel) {
    static const sr_gather_sum_params shapes[] = {
        {1, 1, 1, 1, 1, 1, 0},   {2, 7, 3, 5, 33, 4, 0},   {3, 20, 2, 16, 9, 9, 0},
        {1, 3, 1, 2, 900, 4, 0}, {2, 50, 1, 8, 40, 32, 0}, {1, 60, 4, 260, 80, 2, 0},
        {1, 2, 1, 8, 100, 3, 0}, {1, 4, 2, 40, 13, 16, 0},
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++)
        for (int t = 0; t < TYPES; t++)
            gather_sum(kernel, &shapes[k], types[t]);
}

// Every filter and border, and each derivative of the weights.
void case_taps2d(sr_kernel_id kernel) {
    static const int32_t filters[] = {SR_FILTER_NEAREST, SR_FILTER_LINEAR, SR_FILTER_CUBIC};
    for (int32_t way = 0; way < 3 * 3 * 2 * 5; way++) {
        const sr_taps_params p = {.n = 1 + way % 2,
                                  .p = 1 + way % 5,
                                  .q = way % 7 == 0 ? 230 : 3,
                                  .r = 1 + way % 3,
                                  .s = 2,
                                  .groups = 1 + way % 4,
                                  .h = way % 6 == 0 ? 1 : 5,
                                  .w = 4,
                                  .scale_h = 3.5,
                                  .shift_h = -1,
                                  .step_h = 2,
                                  .gap_h = 1,
                                  .scale_w = way % 8 == 0 ? 1e10 : 2.25,
                                  .shift_w = 0.5,
                                  .step_w = 1,
                                  .gap_w = 3,
                                  .filter = filters[way % 3],
                                  .border = way / 3 % 3,
                                  .corners = way / 9 % 2,
                                  .order_h = way / 18,
                                  .order_w = (way / 18 + way) % 5,
                                  .x_first = way % 2};
        const int64_t points = sr_taps_points(&p), taps = points * sr_taps_share(p.filter);
        problem c = problem_of(kernel, 3, &p, sizeof p);
        set(&c, 0, PARAMETER, SR_F32, 2 * points);
        set_output(&c, 1, PARAMETER, SR_F32, taps);
        set_output(&c, 2, NUMBERS, SR_F32, taps);
        check_problem(&c);
    }
}

// Up, down, both, cropping, and a filter that reaches beyond the picture.
void case_upfirdn2d(sr_kernel_id kernel) {
    static const sr_upfirdn_params shapes[] = {
        {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
        {2, 5, 7, 3, 10, 14, 4, 4, 2, 2, 1, 1, 2, 1, 1, 0},
        {1, 9, 6, 16, 4, 2, 4, 3, 1, 1, 2, 3, 1, -1, 0, 0},
        {3, 4, 3, 5, 3, 11, 6, 12, 3, 4, 5, 1, -2, 30, 1, 0},
        {1, 33, 40, 8, 60, 70, 5, 2, 2, 3, 1, 2, 0, 4, 0, 0},
        {1, 40, 45, 8, 2, 3, 40, 37, 1, 1, 1, 1, 0, 0, 0, 0}, // sums of several leaves
        {1, 3, 1030, 3, 1, 2, 2, 600, 1, 1, 1, 1, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_upfirdn_params *p = &shapes[k];
            problem c = problem_of(kernel, 3, p, sizeof *p);
            set(&c, 0, ACTIVATION, types[t], p->n * p->h * p->w * p->c);
            set(&c, 1, PARAMETER, types[t], p->r * p->s);
            set_output(&c, 2, ACTIVATION, types[t], p->n * p->p * p->q * p->c);
            check_problem(&c);
        }
    }
}
