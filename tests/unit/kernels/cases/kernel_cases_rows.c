// SPDX-License-Identifier: Apache-2.0
// Problems of kernels over rows of channels (see kernel_cases.h): sums, normalisation over the
// batch or over groups of channels.
#include "kernels/reference_order.h"
#include "tests/unit/kernels/cases/kernel_case_builders.h"

// Numbers of rows and channels, odd and large enough for several blocks, the last ones for more
// than eight leaves of a sum over rows.
enum { ROW_SHAPES = 11 };
static const int64_t row_shapes[ROW_SHAPES][2] = {{1, 1},     {7, 3},     {50, 16},  {333, 37},
                                                  {2100, 64}, {90, 1040}, {5003, 1}, {2900, 3},
                                                  {700, 16},  {9003, 2},  {67000, 1}};

void case_rows(sr_kernel_id kernel) {
    for (size_t k = 0; k < problems(ROW_SHAPES, 2); k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_rows_params params = {row_shapes[k][0], row_shapes[k][1]};
            const int64_t count = params.rows * params.channels;
            const bool sum = kernel == SR_KERNEL_channel_sum;
            problem c = problem_of(kernel, sum ? 2 : 3, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], count);
            if (sum) {
                set_output(&c, 1, PARAMETER, types[t], params.channels);
                c.terms = (double)params.rows;
            } else {
                set(&c, 1, PARAMETER, types[t], params.channels);
                set_output(&c, 2, ACTIVATION, types[t], count);
            }
            check_problem(&c);
        }
    }
}

void case_channel_dot(sr_kernel_id kernel) {
    for (size_t k = 0; k < problems(ROW_SHAPES, 2); k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_rows_params params = {row_shapes[k][0], row_shapes[k][1]};
            const int64_t count = params.rows * params.channels;
            problem c = problem_of(kernel, 4, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], count);
            set(&c, 1, ACTIVATION, types[t], count);
            set(&c, 2, (k + (size_t)t) % 2 == 0 ? PARAMETER : NONE, types[t], params.channels);
            set_output(&c, 3, PARAMETER, types[t], params.channels);
            c.terms = (double)params.rows;
            c.arg[3].bound = 8 * (double)params.rows;
            check_problem(&c);
        }
    }
}

// x in [-2, 2): |x - mean| <= 4, 1 / std <= 1 / sqrt(eps) for one row, about 1 otherwise.
static void batchnorm(sr_kernel_id kernel, int shape, bool affine, sr_dtype t) {
    const sr_batchnorm_params params = {row_shapes[shape][0], row_shapes[shape][1], 1e-2};
    const int64_t n = params.rows * params.channels, channels = params.channels;
    const arg_role parameter = affine ? PARAMETER : NONE;
    const bool train = kernel == SR_KERNEL_batchnorm_train;
    const bool gradient = kernel == SR_KERNEL_batchnorm_grad;
    problem c = problem_of(kernel, gradient ? 8 : 6, &params, sizeof params);
    c.terms = (double)params.rows;
    set(&c, 0, ACTIVATION, t, n);
    if (gradient) {
        set(&c, 1, ACTIVATION, t, n);
        set(&c, 2, parameter, t, channels);
        set(&c, 3, PARAMETER, t, channels);
        set(&c, 4, POSITIVE, t, channels);
        set_output(&c, 5, ACTIVATION, t, n);
        set_output(&c, 6, PARAMETER, t, channels);
        set_output(&c, 7, PARAMETER, t, channels);
        c.arg[5].bound = 60; // dy and xhat dgamma / M, each divided by std
        c.arg[6].bound = 12 * (double)params.rows;
        c.arg[7].bound = 2 * (double)params.rows;
    } else {
        set(&c, 1, parameter, t, channels);
        set(&c, 2, parameter, t, channels);
        if (train) {
            set_output(&c, 3, ACTIVATION, t, n);
            set_output(&c, 4, PARAMETER, t, channels);
            set_output(&c, 5, PARAMETER, t, channels);
            c.arg[4].bound = 2;
            c.arg[5].bound = 16;
        } else {
            set(&c, 3, PARAMETER, t, channels);
            set(&c, 4, POSITIVE, t, channels);
            set_output(&c, 5, ACTIVATION, t, n);
        }
        c.arg[train ? 3 : 5].bound = 100;
    }
    check_problem(&c);
}

void case_batchnorm(sr_kernel_id kernel) {
    for (size_t shape = 0; shape < problems(ROW_SHAPES, 2); shape++)
        for (int t = 0; t < TYPES; t++)
            batchnorm(kernel, (int)shape, (shape + (size_t)t) % 2 == 0, types[t]);
}

// The parts of batchnorm_train and batchnorm_grad, within the same bounds.
static void batchnorm_moments(const sr_batchnorm_dx_params *p, sr_dtype t) {
    problem c = problem_of(SR_KERNEL_batchnorm_moments, 3, p, sizeof(sr_rows_params));
    c.terms = (double)p->rows;
    set(&c, 0, ACTIVATION, t, p->rows * p->channels);
    set_output(&c, 1, PARAMETER, t, p->channels);
    set_output(&c, 2, PARAMETER, t, p->channels);
    c.arg[1].bound = 2;
    c.arg[2].bound = 16;
    check_problem(&c);
}

static void batchnorm_sums(const sr_batchnorm_dx_params *p, sr_dtype t) {
    problem c = problem_of(SR_KERNEL_batchnorm_sums, 6, p, sizeof(sr_batchnorm_params));
    c.terms = (double)p->rows;
    set(&c, 0, ACTIVATION, t, p->rows * p->channels);
    set(&c, 1, ACTIVATION, t, p->rows * p->channels);
    set(&c, 2, PARAMETER, t, p->channels);
    set(&c, 3, POSITIVE, t, p->channels);
    set_output(&c, 4, PARAMETER, t, p->channels);
    set_output(&c, 5, PARAMETER, t, p->channels);
    c.arg[4].bound = 12 * (double)p->rows;
    c.arg[5].bound = 2 * (double)p->rows;
    check_problem(&c);
}

static void batchnorm_dx(const sr_batchnorm_dx_params *p, bool affine, sr_dtype t) {
    problem c = problem_of(SR_KERNEL_batchnorm_dx, 8, p, sizeof *p);
    c.terms = 1;
    set(&c, 0, ACTIVATION, t, p->rows * p->channels);
    set(&c, 1, ACTIVATION, t, p->rows * p->channels);
    set(&c, 2, affine ? PARAMETER : NONE, t, p->channels);
    set(&c, 3, PARAMETER, t, p->channels);
    set(&c, 4, POSITIVE, t, p->channels);
    set(&c, 5, PARAMETER, t, p->channels);
    set(&c, 6, PARAMETER, t, p->channels);
    set_output(&c, 7, ACTIVATION, t, p->rows * p->channels);
    c.arg[7].bound = 60;
    check_problem(&c);
}

void case_batchnorm_part(sr_kernel_id kernel) {
    for (size_t k = 0; k < problems(ROW_SHAPES, 2); k++) {
        const sr_batchnorm_dx_params p = {row_shapes[k][0], row_shapes[k][1], 1e-2,
                                          3 * row_shapes[k][0]};
        for (int t = 0; t < TYPES; t++) {
            if (kernel == SR_KERNEL_batchnorm_moments)
                batchnorm_moments(&p, types[t]);
            else if (kernel == SR_KERNEL_batchnorm_sums)
                batchnorm_sums(&p, types[t]);
            else
                batchnorm_dx(&p, (k + (size_t)t) % 2 == 0, types[t]);
        }
    }
}

// The same with a sum and ReLU, with and without what may be absent.
static void batchnorm_forward_relu(const sr_batchnorm_params *p, bool affine, bool adds, bool signs,
                                   bool train, sr_dtype t) {
    const int64_t n = p->rows * p->channels, channels = p->channels;
    problem c = train ? problem_of(SR_KERNEL_batchnorm_train_relu, 8, p, sizeof *p)
                      : problem_of(SR_KERNEL_batchnorm_infer_relu, 8, p, sizeof *p);
    c.terms = (double)p->rows;
    set(&c, 0, ACTIVATION, t, n);
    set(&c, 1, adds ? ACTIVATION : NONE, t, n);
    set(&c, 2, affine ? PARAMETER : NONE, t, channels);
    set(&c, 3, affine ? PARAMETER : NONE, t, channels);
    set_output(&c, train ? 4 : 6, ACTIVATION, t, n);
    c.arg[train ? 4 : 6].bound = 100;
    if (train) {
        set_output(&c, 5, PARAMETER, t, channels);
        set_output(&c, 6, PARAMETER, t, channels);
        c.arg[5].bound = 2;
        c.arg[6].bound = 16;
    } else {
        set(&c, 4, PARAMETER, t, channels);
        set(&c, 5, POSITIVE, t, channels);
    }
    set_output(&c, 7, signs ? SIGNS : NONE, t, p->rows * SR_SIGN_BYTES(channels));
    check_problem(&c);
}

// The sum of two batch norms, of which the second one has given statistics.
static void batchnorm_pair_relu(const sr_batchnorm_params *p, bool affine, bool signs, sr_dtype t) {
    const int64_t n = p->rows * p->channels, channels = p->channels;
    problem c = problem_of(SR_KERNEL_batchnorm_train_pair_relu, 12, p, sizeof *p);
    c.terms = (double)p->rows;
    set(&c, 0, ACTIVATION, t, n);
    set(&c, 1, ACTIVATION, t, n);
    for (int i = 2; i < 6; i++)
        set(&c, i, affine == (i < 4) ? PARAMETER : NONE, t, channels);
    set(&c, 6, PARAMETER, t, channels);
    set(&c, 7, POSITIVE, t, channels);
    set_output(&c, 8, ACTIVATION, t, n);
    c.arg[8].bound = 200;
    c.arg[8].inner = 10; // uniform numbers are within 3.5 deviations of their mean
    set_output(&c, 9, PARAMETER, t, channels);
    set_output(&c, 10, PARAMETER, t, channels);
    c.arg[9].bound = 2;
    c.arg[10].bound = 16;
    set_output(&c, 11, signs ? SIGNS : NONE, t, p->rows * SR_SIGN_BYTES(channels));
    check_problem(&c);
}

// first: the first output.
static void set_batchnorm_gradients(problem *c, int first, sr_dtype t) {
    const sr_batchnorm_params *p = (const void *)c->request.params;
    set_output(c, first, ACTIVATION, t, p->rows * p->channels);
    set_output(c, first + 1, PARAMETER, t, p->channels);
    set_output(c, first + 2, PARAMETER, t, p->channels);
    c->arg[first].bound = 60;
    c->arg[first + 1].bound = 12 * (double)p->rows;
    c->arg[first + 2].bound = 2 * (double)p->rows;
}

static void batchnorm_relu_grad(const sr_batchnorm_params *p, bool affine, sr_dtype t) {
    problem c = problem_of(SR_KERNEL_batchnorm_relu_grad, 9, p, sizeof *p);
    c.terms = (double)p->rows;
    set(&c, 0, ACTIVATION, t, p->rows * p->channels);
    set(&c, 1, ACTIVATION, t, p->rows * p->channels);
    set(&c, 2, affine ? PARAMETER : NONE, t, p->channels);
    set(&c, 3, affine ? PARAMETER : NONE, t, p->channels);
    set(&c, 4, PARAMETER, t, p->channels);
    set(&c, 5, POSITIVE, t, p->channels);
    set_batchnorm_gradients(&c, 6, t);
    check_problem(&c);
}

// Sums of two gradients are twice as large.
static void batchnorm_add_relu_grad(const sr_batchnorm_params *p, bool affine, bool adds,
                                    sr_dtype t) {
    problem c = problem_of(SR_KERNEL_batchnorm_add_relu_grad, 11, p, sizeof *p);
    c.terms = (double)p->rows;
    for (int i = 0; i < 4; i++)
        set(&c, i, i < 3 || adds ? ACTIVATION : NONE, t, p->rows * p->channels);
    set(&c, 1, SIGNS, t, p->rows * SR_SIGN_BYTES(p->channels));
    set(&c, 4, affine ? PARAMETER : NONE, t, p->channels);
    set(&c, 5, PARAMETER, t, p->channels);
    set(&c, 6, POSITIVE, t, p->channels);
    set_output(&c, 7, ACTIVATION, t, p->rows * p->channels);
    c.arg[7].bound = 4;
    set_batchnorm_gradients(&c, 8, t);
    for (int i = 8; i < 11; i++)
        c.arg[i].bound *= 2;
    check_problem(&c);
}

void case_batchnorm_relu(sr_kernel_id kernel) {
    for (size_t k = 0; k < problems(ROW_SHAPES, 2); k++) {
        const sr_batchnorm_params p = {row_shapes[k][0], row_shapes[k][1], 1e-2};
        for (int t = 0; t < TYPES; t++) {
            const bool affine = (k + (size_t)t) % 2 == 0, adds = (k + (size_t)t) % 3 != 0;
            const bool signs = !kernel_cases_of_digests && (k + (size_t)t) % 4 != 0;
            if (kernel == SR_KERNEL_batchnorm_relu_grad)
                batchnorm_relu_grad(&p, affine, types[t]);
            else if (kernel == SR_KERNEL_batchnorm_add_relu_grad)
                batchnorm_add_relu_grad(&p, affine, adds, types[t]);
            else if (kernel == SR_KERNEL_batchnorm_train_pair_relu)
                batchnorm_pair_relu(&p, affine, signs, types[t]);
            else
                batchnorm_forward_relu(&p, affine, adds, signs,
                                       kernel == SR_KERNEL_batchnorm_train_relu, types[t]);
        }
    }
}

static void norm_pool(sr_kernel_id kernel, const sr_norm_pool_params *p, bool affine, sr_dtype t) {
    const int64_t in = sr_norm_pool_inputs(p), out = sr_norm_pool_outputs(p), c = p->pool.c;
    const bool train = kernel == SR_KERNEL_batchnorm_train_relu_maxpool;
    problem k = problem_of(kernel, train ? 7 : 6, p, sizeof *p);
    k.terms = train ? (double)(in / c) : 1;
    set(&k, 0, ACTIVATION, t, in);
    set(&k, 1, affine ? PARAMETER : NONE, t, c);
    set(&k, 2, affine ? PARAMETER : NONE, t, c);
    set_output(&k, train ? 3 : 5, ACTIVATION, t, out);
    k.arg[train ? 3 : 5].bound = 100;
    if (train) {
        set_output(&k, 4, PARAMETER, t, c);
        set_output(&k, 5, PARAMETER, t, c);
        k.arg[4].bound = 2;
        k.arg[5].bound = 16;
        set_output(&k, 6, SIGNS, t, out); // of numbers that are nearly equal, others win
    } else {
        set(&k, 3, PARAMETER, t, c);
        set(&k, 4, POSITIVE, t, c);
    }
    check_problem(&k);
}

// A pixel has the gradients of at most so many windows.
static void norm_pool_grad(const sr_norm_pool_params *p, bool affine, sr_dtype t) {
    const int64_t in = sr_norm_pool_inputs(p), out = sr_norm_pool_outputs(p), c = p->pool.c;
    problem k = problem_of(SR_KERNEL_batchnorm_relu_maxpool_grad, 10, p, sizeof *p);
    k.terms = (double)(in / c);
    set(&k, 0, ACTIVATION, t, in);
    set(&k, 1, ACTIVATION, t, out);
    set(&k, 2, INDEX, t, out);
    set(&k, 3, affine ? PARAMETER : NONE, t, c);
    set(&k, 4, affine ? PARAMETER : NONE, t, c);
    set(&k, 5, PARAMETER, t, c);
    set(&k, 6, POSITIVE, t, c);
    set_output(&k, 7, ACTIVATION, t, in);
    set_output(&k, 8, PARAMETER, t, c);
    set_output(&k, 9, PARAMETER, t, c);
    const double windows = (double)sr_pool_windows(&p->pool), rows = (double)(in / c);
    k.arg[7].bound = 60 * windows;
    k.arg[8].bound = 12 * windows * rows;
    k.arg[9].bound = 2 * windows * rows;
    check_problem(&k);
}

// Windows that class "tensor" has, whole and cut off, of few rows and of many; and others.
void case_norm_pool(sr_kernel_id kernel) {
    static const sr_norm_pool_params shapes[] = {
        {{2, 11, 8, 16, 6, 4, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0}, 1e-2},
        {{2, 40, 40, 48, 20, 20, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0}, 1e-2},
        {{1, 10, 9, 8, 4, 4, 3, 3, 2, 2, 0, 0, 0, 0, 0, 0}, 1e-2},
        {{3, 7, 6, 24, 3, 3, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0}, 1e-2},
        {{1, 7, 6, 8, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0}, 1e-2},
        {{1, 9, 8, 5, 5, 4, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0}, 1e-2},
        {{1, 6, 7, 8, 4, 5, 3, 3, 1, 1, 0, 0, 0, 0, 0, 0}, 1e-2},
    };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        for (int t = 0; t < TYPES; t++) {
            const bool affine = (k + (size_t)t) % 2 == 0;
            if (kernel == SR_KERNEL_batchnorm_relu_maxpool_grad)
                norm_pool_grad(&shapes[k], affine, types[t]);
            else
                norm_pool(kernel, &shapes[k], affine, types[t]);
        }
    }
}

// Products with that: one vector of channels, several, and none; whole and broken tiles. What is
// multiplied is at most 100.
void case_norm_linear(sr_kernel_id kernel) {
    static const sr_norm_linear_params shapes[] = {{1, 1, 1, 1e-2},     {5, 33, 10, 1e-2},
                                                   {17, 40, 24, 1e-2},  {69, 48, 80, 1e-2},
                                                   {131, 8, 136, 1e-2}, {150, 136, 8, 1e-2}};
    const bool forward = kernel == SR_KERNEL_batchnorm_relu_linear;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_norm_linear_params p = shapes[k];
            const arg_role affine = (k + (size_t)t) % 2 == 0 ? PARAMETER : NONE;
            problem c = problem_of(kernel, forward ? 8 : 7, &p, sizeof p);
            const int result = c.request.args - 1;
            set(&c, 0, ACTIVATION, types[t], p.n * p.c);
            set(&c, 1, affine, types[t], p.c);
            set(&c, 2, affine, types[t], p.c);
            set(&c, 3, PARAMETER, types[t], p.c);
            set(&c, 4, POSITIVE, types[t], p.c);
            set(&c, 5, forward ? PARAMETER : ACTIVATION, types[t], p.k * (forward ? p.c : p.n));
            if (forward)
                set(&c, 6, k % 3 ? PARAMETER : NONE, types[t], p.k);
            set_output(&c, result, forward ? ACTIVATION : PARAMETER, types[t],
                       p.k * (forward ? p.n : p.c));
            c.terms = (double)(forward ? p.c : p.n);
            c.arg[result].bound = 100 * c.terms;
            check_problem(&c);
        }
    }
}

// Of one row and of many pixels, columns that are not all alike, and several leaves of a group,
// some of them more than eight.
static const sr_groupnorm_params group_shapes[] = {
    {.samples = 1, .pixels = 1, .channels = 1, .groups = 1},
    {.samples = 7, .pixels = 1, .channels = 3, .groups = 1},
    {.samples = 2100, .pixels = 1, .channels = 33, .groups = 1},
    {.samples = 90, .pixels = 1, .channels = 768, .groups = 1},
    {.samples = 5, .pixels = 1, .channels = 2077, .groups = 1},
    {.samples = 2, .pixels = 1, .channels = 20005, .groups = 1},
    {.samples = 2, .pixels = 3, .channels = 1100, .groups = 1},
    {.samples = 2, .pixels = 9, .channels = 6, .groups = 3},
    {.samples = 3, .pixels = 49, .channels = 40, .groups = 40},
    {.samples = 2, .pixels = 600, .channels = 5, .groups = 5},
    {.samples = 2, .pixels = 50, .channels = 40, .groups = 8},
    {.samples = 1, .pixels = 5000, .channels = 3, .groups = 1},
    {.samples = 2, .pixels = 350, .channels = 96, .groups = 2},
};

// |x - mean| <= 4, and rstd is 10 at most where it is computed, 1.5 where it is given.
static void groupnorm(sr_kernel_id kernel, sr_groupnorm_params p, bool affine, sr_dtype t) {
    const int64_t rows = p.samples * p.pixels, n = rows * p.channels, groups = p.samples * p.groups;
    const double of_group = (double)(p.pixels * p.channels / p.groups);
    const arg_role parameter = affine ? PARAMETER : NONE;
    const bool gradient = kernel == SR_KERNEL_groupnorm_grad;
    problem c = problem_of(kernel, gradient ? 8 : 6, &p, sizeof p);
    c.terms = of_group;
    set(&c, 0, ACTIVATION, t, n);
    if (gradient) {
        set(&c, 1, ACTIVATION, t, n);
        set(&c, 2, parameter, t, p.channels);
        set(&c, 3, PARAMETER, t, groups);
        set(&c, 4, POSITIVE, t, groups);
        set_output(&c, 5, ACTIVATION, t, n);
        set_output(&c, 6, PARAMETER, t, p.channels);
        set_output(&c, 7, PARAMETER, t, p.channels);
        c.terms = of_group > (double)rows ? of_group : (double)rows;
        c.arg[5].bound = 228; // 1.5 (g + mean g + xhat mean (g xhat)), with |g| <= 4, |xhat| <= 6
        c.arg[6].bound = 12 * (double)rows;
        c.arg[7].bound = 2 * (double)rows;
    } else {
        set(&c, 1, parameter, t, p.channels);
        set(&c, 2, parameter, t, p.channels);
        set_output(&c, 3, ACTIVATION, t, n);
        set_output(&c, 4, PARAMETER, t, groups);
        set_output(&c, 5, PARAMETER, t, groups);
        c.arg[3].bound = 82; // 2 * 4 * 10 + 2
        c.arg[4].bound = 2;
        c.arg[5].bound = 10;
    }
    check_problem(&c);
}

// |s| <= 6 with 1 / (1 - p) = 2, |s - mean| <= 12.
static void add_groupnorm(const sr_groupnorm_params *norm, bool affine, bool drops, sr_dtype t) {
    const int64_t rows = norm->samples * norm->pixels, n = rows * norm->channels;
    const int64_t groups = norm->samples * norm->groups;
    const arg_role parameter = affine ? PARAMETER : NONE;
    sr_add_groupnorm_params p = {.norm = *norm};
    if (drops) {
        p.drop_rows = norm->pixels > 1 ? norm->pixels : rows % 7 == 0 ? 7 : 1;
        p.probability = 0.5;
        p.scope = 77;
    }
    problem c = problem_of(SR_KERNEL_add_groupnorm, 9, &p, sizeof p);
    c.terms = (double)(norm->pixels * norm->channels / norm->groups);
    set(&c, 0, ACTIVATION, t, n);
    set(&c, 1, ACTIVATION, t, n);
    set(&c, 2, drops ? KEY : NONE, t, drops ? 4 : 0);
    set(&c, 3, parameter, t, norm->channels);
    set(&c, 4, parameter, t, norm->channels);
    set_output(&c, 5, ACTIVATION, t, n);
    set_output(&c, 6, ACTIVATION, t, n);
    set_output(&c, 7, PARAMETER, t, groups);
    set_output(&c, 8, PARAMETER, t, groups);
    c.arg[5].bound = 6;
    c.arg[6].bound = 242; // 2 * 12 * 10 + 2
    c.arg[7].bound = 6;
    c.arg[8].bound = 10;
    check_problem(&c);
}

// The bounds of groupnorm_grad, and 2 for z.
static void groupnorm_add_grad(const sr_groupnorm_params *p, bool affine, sr_dtype t) {
    const int64_t rows = p->samples * p->pixels, n = rows * p->channels;
    const double of_group = (double)(p->pixels * p->channels / p->groups);
    problem c = problem_of(SR_KERNEL_groupnorm_add_grad, 9, p, sizeof *p);
    c.terms = of_group > (double)rows ? of_group : (double)rows;
    for (int i = 0; i < 3; i++)
        set(&c, i, ACTIVATION, t, n);
    set(&c, 3, affine ? PARAMETER : NONE, t, p->channels);
    set(&c, 4, PARAMETER, t, p->samples * p->groups);
    set(&c, 5, POSITIVE, t, p->samples * p->groups);
    set_output(&c, 6, ACTIVATION, t, n);
    set_output(&c, 7, PARAMETER, t, p->channels);
    set_output(&c, 8, PARAMETER, t, p->channels);
    c.arg[6].bound = 230;
    c.arg[7].bound = 12 * (double)rows;
    c.arg[8].bound = 2 * (double)rows;
    check_problem(&c);
}

void case_groupnorm(sr_kernel_id kernel) {
    for (size_t k = 0; k < sizeof group_shapes / sizeof group_shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            sr_groupnorm_params p = group_shapes[k];
            p.eps = 1e-2;
            p.uncentred = t == 1;
            const bool affine = (k + (size_t)t) % 2 == 0;
            if (kernel == SR_KERNEL_add_groupnorm)
                add_groupnorm(&p, affine, (k + (size_t)t) % 3 != 0, types[t]);
            else if (kernel == SR_KERNEL_groupnorm_add_grad)
                groupnorm_add_grad(&p, affine, types[t]);
            else
                groupnorm(kernel, p, affine, types[t]);
        }
    }
}
