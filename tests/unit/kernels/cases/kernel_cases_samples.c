// SPDX-License-Identifier: Apache-2.0
// Problems of the kernels that sample pictures (see kernel_cases.h): weighted sums by an index,
// pixels near points, filtered resampling, resizing.
#include "kernels/base/pixel_move.h"
#include "tests/unit/kernels/cases/kernel_case_builders.h"

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

// One pixel, rows whose bytes are no multiple of four, smaller and larger results.
void case_move_pixels(sr_kernel_id kernel) {
    static const sr_move_params shapes[] = {
        {1, 1, 1, 9, 1, 1},  {3, 5, 7, 40, 5, 7},   {4, 32, 32, 33, 32, 32},
        {2, 3, 4, 25, 9, 5}, {5, 12, 10, 20, 4, 3}, {7, 2, 1, 64, 3, 11},
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        const sr_move_params *p = &shapes[k];
        problem c = problem_of(kernel, 3, p, sizeof *p);
        set(&c, 0, BYTES, SR_U8, p->n * p->h * p->w * 3);
        set(&c, 1, MOVES, SR_I32, p->count * SR_MOVE_NUMBERS);
        set_output(&c, 2, BYTES, SR_U8, p->count * p->p * p->q * 3);
        check_problem(&c);
    }
}

static void resize(sr_kernel_id kernel, const sr_resize_params *p, sr_dtype t) {
    const int64_t in = p->n * p->h * p->w * p->c, out = p->n * p->p * p->q * p->c;
    const bool gradient = kernel == SR_KERNEL_resize2d_grad;
    problem c = problem_of(kernel, 2, p, sizeof *p);
    set(&c, 0, ACTIVATION, t, gradient ? out : in);
    set_output(&c, 1, ACTIVATION, t, gradient ? in : out);
    check_problem(&c);
}

// x[n,h,w,c] and y[n,p,q,c] of resize2d.
typedef struct resized {
    int64_t n, h, w, c, p, q;
} resized;

// Ways to resize: every filter, then linear and cubic with the corners in the same places, then
// antialiased.
enum { RESIZE_WAYS = 9, RESIZE_ANTIALIASED = 7 };

static sr_resize_params resize_params(const resized *s, int32_t way) {
    sr_resize_params p = {.n = s->n, .h = s->h, .w = s->w, .c = s->c, .p = s->p, .q = s->q};
    p.filter = way < 5 ? way : SR_FILTER_LINEAR + way % 2;
    p.corners = way == 5 || way == 6;
    p.antialias = way >= RESIZE_ANTIALIASED;
    p.step_h = (double)p.h / (double)p.p;
    p.step_w = (double)p.w / (double)p.q;
    if (p.corners) {
        p.step_h = p.p > 1 ? (double)(p.h - 1) / (double)(p.p - 1) : 0;
        p.step_w = p.q > 1 ? (double)(p.w - 1) / (double)(p.q - 1) : 0;
    }
    return p;
}

// Several blocks of rows and of columns of a picture.
static void resize_large(sr_kernel_id kernel) {
    static const resized shapes[] = {{1, 6, 9, 33, 64, 126}, {1, 64, 126, 33, 6, 9}};
    const sr_resize_params up = resize_params(&shapes[0], SR_FILTER_LINEAR),
                           down = resize_params(&shapes[1], RESIZE_ANTIALIASED);
    resize(kernel, &up, SR_BF16);
    resize(kernel, &down, SR_F32);
}

// Up and down in every way. The last shapes have parts of vectors and several of them.
void case_resize(sr_kernel_id kernel) {
    enum { ADDED = 5 };
    static const resized shapes[] = {
        {1, 1, 1, 1, 1, 1},      {2, 9, 7, 5, 4, 13},
        {2, 5, 6, 16, 11, 3},                          // whole vectors of a device
        {1, 40, 37, 3, 3, 2},                          // many pixels to one
        {1, 1, 2, 67, 5, 31},    {1, 90, 41, 8, 2, 1}, // sums of several leaves, and back
        {1, 2, 1, 8, 90, 41},    {1, 1, 1100, 2, 1, 2},
        {1, 1, 2, 2, 1, 1100},   {2, 17, 23, 1, 40, 9},
        {1, 3, 5, 11, 24, 40},   {1, 7, 4, 21, 3, 12},
        {1, 2, 110, 40, 3, 120}, {1, 4, 2, 130, 3, 7}};
    for (size_t k = 0; k < problems(sizeof shapes / sizeof shapes[0], ADDED); k++) {
        for (int32_t way = 0; way < RESIZE_WAYS; way++) {
            const sr_resize_params p = resize_params(&shapes[k], way);
            for (int t = 0; t < TYPES; t++)
                resize(kernel, &p, types[t]);
        }
    }
    if (!kernel_cases_of_digests)
        resize_large(kernel);
}
