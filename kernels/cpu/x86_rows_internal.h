// SPDX-License-Identifier: Apache-2.0
// Kernels over the channels of x[M,C]: bias_add, channel_sum, batchnorm_train, _grad and _infer.
//
// Rows are cut into blocks of sr_x86_block_rows(C). Reductions keep one accumulator per channel in
// the block's own rows of the workspace (first-level cache), take four rows at a time, and are
// joined over blocks by a binary tree, so the order of every sum is a function of the shape alone.
//
// Batch statistics follow Chan, Golub and LeVeque 1983: in a block, sums of d and d^2 with
// d = x - (first row of the block) give its mean and M2 = sum (x - mean)^2; blocks are merged
// pairwise. As the shift is itself one of the block's rows, sum d^2 <= (rows + 1) M2: the
// cancellation is bounded whatever the mean of the data. One pass over x, unlike the two-pass form.
#ifndef SR_KERNELS_CPU_X86_ROWS_INTERNAL_H
#define SR_KERNELS_CPU_X86_ROWS_INTERNAL_H

#include <math.h>

#include "kernels/cpu/x86_internal.h"
#include "kernels/cpu/x86_vector_internal.h"

typedef struct rows_shape {
    int64_t rows, channels, padded;
    int64_t block_rows, blocks;
} rows_shape;

SR_INLINE rows_shape rows_shape_of(int64_t rows, int64_t channels) {
    rows_shape s = {rows, channels, sr_x86_padded(channels), sr_x86_block_rows(channels), 0};
    s.blocks = sr_x86_ceil_div(rows, s.block_rows);
    return s;
}

SR_INLINE int lanes_left(int64_t c, int64_t channels) {
    return (int)sr_x86_min(SR_LANES, channels - c);
}

// ---- bias_add ----

SR_INLINE void bias_add_rows(const sr_kernel_args *args, int64_t block, bool half) {
    const sr_rows_params *params = args->params;
    const rows_shape s = rows_shape_of(params->rows, params->channels);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, args->block_rows);
    for (int64_t row = r.begin; row < r.end; row++) {
        for (int64_t c = 0; c < s.channels; c += SR_LANES) {
            const int n = lanes_left(c, s.channels);
            const int64_t i = row * s.channels + c;
            const sr_vf x = sr_v_get(args->p[0], i, n, half);
            sr_v_put(args->p[2], i, sr_v_add(x, sr_v_get(args->p[1], c, n, false)), n, half);
        }
    }
}

// ---- sums over rows ----

// partial[i] += partial[i + step] for step = 1, 2, 4, ...: the sum over blocks ends in partial[0].
SR_INLINE void tree_add(float *partial, int64_t blocks, int64_t stride, sr_x86_range channels) {
    for (int64_t step = 1; step < blocks; step *= 2) {
        for (int64_t i = 0; i + step < blocks; i += 2 * step) {
            float *a = partial + i * stride;
            const float *b = partial + (i + step) * stride;
            for (int64_t c = channels.begin; c < channels.end; c += SR_LANES)
                sr_v_store(a + c, sr_v_add(sr_v_load(a + c), sr_v_load(b + c)));
        }
    }
}

SR_INLINE void channel_sum_rows(const sr_kernel_args *args, int64_t block, bool half) {
    const sr_rows_params *params = args->params;
    const rows_shape s = rows_shape_of(params->rows, params->channels);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, s.block_rows);
    float *sum = (float *)args->workspace + block * s.padded;
    memset(sum, 0, (size_t)s.padded * sizeof *sum);
    int64_t row = r.begin;
    for (; row + 4 <= r.end; row += 4) {
        for (int64_t c = 0; c < s.channels; c += SR_LANES) {
            const int n = lanes_left(c, s.channels);
            sr_vf x[4];
            for (int k = 0; k < 4; k++)
                x[k] = sr_v_get(args->p[0], (row + k) * s.channels + c, n, half);
            const sr_vf four = sr_v_add(sr_v_add(x[0], x[1]), sr_v_add(x[2], x[3]));
            sr_v_store(sum + c, sr_v_add(sr_v_load(sum + c), four));
        }
    }
    for (; row < r.end; row++) {
        for (int64_t c = 0; c < s.channels; c += SR_LANES) {
            const int n = lanes_left(c, s.channels);
            const sr_vf x = sr_v_get(args->p[0], row * s.channels + c, n, half);
            sr_v_store(sum + c, sr_v_add(sr_v_load(sum + c), x));
        }
    }
}

static sr_status channel_sum_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_rows_params *params = args->params;
    const rows_shape s = rows_shape_of(params->rows, params->channels);
    const sr_x86_range r = sr_x86_block_range(s.channels, block, SR_X86_CHANNEL_BLOCK);
    tree_add(args->workspace, s.blocks, s.padded, r);
    for (int64_t c = r.begin; c < r.end; c += SR_LANES)
        sr_v_put(args->p[1], c, sr_v_load((const float *)args->workspace + c),
                 lanes_left(c, s.channels), false);
    return SR_OK;
}

// ---- batch normalisation ----

// Workspace: four rows of 'padded' floats (coefficients), then two such rows per block of rows.
SR_INLINE float *coefficients_of(const sr_kernel_args *args) {
    return args->workspace;
}
SR_INLINE float *partials_of(const sr_kernel_args *args, rows_shape s, int64_t block) {
    return (float *)args->workspace + (4 + 2 * block) * s.padded;
}

SR_INLINE rows_shape batchnorm_shape(const sr_kernel_args *args) {
    const sr_batchnorm_params *params = args->params;
    return rows_shape_of(params->rows, params->channels);
}

// sum += d, square += d^2 for rows row .. row + count - 1 of one vector of channels.
SR_INLINE void add_moments(const void *x, int64_t i, int64_t stride, int count, int n, bool half,
                           sr_vf shift, sr_vf *sum, sr_vf *square) {
    sr_vf d[4];
    for (int k = 0; k < count; k++) {
        d[k] = sr_v_sub(sr_v_get(x, i + k * stride, n, half), shift);
        *square = sr_v_fma(d[k], d[k], *square);
    }
    if (count == 4)
        *sum = sr_v_add(*sum, sr_v_add(sr_v_add(d[0], d[1]), sr_v_add(d[2], d[3])));
    else
        *sum = sr_v_add(*sum, d[0]);
}

SR_INLINE void moments_rows(const void *x, rows_shape s, int64_t row, int count, int64_t first,
                            bool half, float *sum, float *square) {
    for (int64_t c = 0; c < s.channels; c += SR_LANES) {
        const int n = lanes_left(c, s.channels);
        const sr_vf shift = sr_v_get(x, first * s.channels + c, n, half);
        sr_vf a = sr_v_load(sum + c), b = sr_v_load(square + c);
        if (n == SR_LANES)
            add_moments(x, row * s.channels + c, s.channels, count, SR_LANES, half, shift, &a, &b);
        else
            add_moments(x, row * s.channels + c, s.channels, count, n, half, shift, &a, &b);
        sr_v_store(sum + c, a);
        sr_v_store(square + c, b);
    }
}

// Stage 0: mean and M2 of one block of rows.
SR_INLINE void batchnorm_moments(const sr_kernel_args *args, int64_t block, bool half) {
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, s.block_rows);
    float *sum = partials_of(args, s, block), *square = sum + s.padded;
    memset(sum, 0, (size_t)(2 * s.padded) * sizeof *sum);
    int64_t row = r.begin;
    for (; row + 4 <= r.end; row += 4)
        moments_rows(args->p[0], s, row, 4, r.begin, half, sum, square);
    for (; row < r.end; row++)
        moments_rows(args->p[0], s, row, 1, r.begin, half, sum, square);
    const sr_vf inverse = sr_v_set(1.0f / (float)(r.end - r.begin));
    for (int64_t c = 0; c < s.channels; c += SR_LANES) {
        const int n = lanes_left(c, s.channels);
        const sr_vf shift = sr_v_get(args->p[0], r.begin * s.channels + c, n, half);
        const sr_vf total = sr_v_load(sum + c), d = sr_v_mul(total, inverse);
        const sr_vf m2 = sr_v_sub(sr_v_load(square + c), sr_v_mul(total, d));
        sr_v_store(sum + c, sr_v_add(shift, d));
        sr_v_store(square + c, sr_v_max(sr_v_zero(), m2)); // in this order NaN stays NaN
    }
}

// Merges block results b into a (na and nb rows) for one range of channels.
SR_INLINE void merge_moments(float *a, const float *b, int64_t padded, int64_t na, int64_t nb,
                             sr_x86_range channels) {
    const float total = (float)(na + nb);
    const sr_vf share = sr_v_set((float)nb / total);
    const sr_vf weight = sr_v_set((float)na * ((float)nb / total));
    for (int64_t c = channels.begin; c < channels.end; c += SR_LANES) {
        const sr_vf mean = sr_v_load(a + c), delta = sr_v_sub(sr_v_load(b + c), mean);
        const sr_vf m2 = sr_v_add(sr_v_load(a + padded + c), sr_v_load(b + padded + c));
        sr_v_store(a + c, sr_v_fma(delta, share, mean));
        sr_v_store(a + padded + c, sr_v_fma(sr_v_mul(delta, delta), weight, m2));
    }
}

// y = (x - mean) scale + shift: rows 0..2 of the coefficients, for channels c.
static void affine_coefficients(const sr_kernel_args *args, rows_shape s, int64_t c, float mean,
                                float var) {
    const sr_batchnorm_params *params = args->params;
    const float *gamma = args->p[1], *beta = args->p[2];
    float *out = coefficients_of(args);
    const float inverse = (float)(1.0 / sqrt((double)var + params->eps));
    out[c] = mean;
    out[s.padded + c] = gamma ? gamma[c] * inverse : inverse;
    out[2 * s.padded + c] = beta ? beta[c] : 0.0f;
}

// Stage 1: statistics of all rows, and the coefficients of the last stage.
static sr_status batchnorm_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.channels, block, SR_X86_CHANNEL_BLOCK);
    float *partial = partials_of(args, s, 0);
    for (int64_t step = 1; step < s.blocks; step *= 2) {
        for (int64_t i = 0; i + step < s.blocks; i += 2 * step) {
            const int64_t first = i * s.block_rows, middle = (i + step) * s.block_rows;
            const int64_t last = sr_x86_min(s.rows, (i + 2 * step) * s.block_rows);
            float *a = partial + i * 2 * s.padded;
            merge_moments(a, a + step * 2 * s.padded, s.padded, middle - first, last - middle, r);
        }
    }
    float *mean = args->p[4], *var = args->p[5];
    for (int64_t c = r.begin; c < r.end; c++) {
        mean[c] = partial[c];
        var[c] = partial[s.padded + c] / (float)s.rows;
        affine_coefficients(args, s, c, mean[c], var[c]);
    }
    return SR_OK;
}

SR_INLINE void affine_vector(const void *x, void *y, const float *k, int64_t padded, int64_t i,
                             int64_t c, int n, bool half) {
    const sr_vf d = sr_v_sub(sr_v_get(x, i, n, half), sr_v_load(k + c));
    const sr_vf scale = sr_v_load(k + padded + c), shift = sr_v_load(k + 2 * padded + c);
    sr_v_put(y, i, sr_v_fma(d, scale, shift), n, half);
}

SR_INLINE void affine_rows(const sr_kernel_args *args, void *y, int64_t block, bool half) {
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, args->block_rows);
    const float *k = coefficients_of(args);
    for (int64_t row = r.begin; row < r.end; row++) {
        const int64_t i = row * s.channels;
        int64_t c = 0;
        for (; c + SR_LANES <= s.channels; c += SR_LANES)
            affine_vector(args->p[0], y, k, s.padded, i + c, c, SR_LANES, half);
        if (c < s.channels)
            affine_vector(args->p[0], y, k, s.padded, i + c, c, lanes_left(c, s.channels), half);
    }
}

static sr_status batchnorm_infer_setup(const sr_kernel_args *args, int64_t block,
                                       sr_worker *worker) {
    (void)worker;
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.channels, block, SR_X86_CHANNEL_BLOCK);
    const float *mean = args->p[3], *var = args->p[4];
    for (int64_t c = r.begin; c < r.end; c++)
        affine_coefficients(args, s, c, mean[c], var[c]);
    return SR_OK;
}

// ---- gradient: x, dy, gamma, mean, var -> dx, dgamma, dbeta ----

SR_INLINE void add_products(const sr_kernel_args *args, int64_t i, int64_t stride, int count, int n,
                            bool half, sr_vf mean, sr_vf *sum, sr_vf *product) {
    sr_vf dy[4];
    for (int k = 0; k < count; k++) {
        dy[k] = sr_v_get(args->p[1], i + k * stride, n, half);
        const sr_vf d = sr_v_sub(sr_v_get(args->p[0], i + k * stride, n, half), mean);
        *product = sr_v_fma(dy[k], d, *product);
    }
    if (count == 4)
        *sum = sr_v_add(*sum, sr_v_add(sr_v_add(dy[0], dy[1]), sr_v_add(dy[2], dy[3])));
    else
        *sum = sr_v_add(*sum, dy[0]);
}

SR_INLINE void products_rows(const sr_kernel_args *args, rows_shape s, int64_t row, int count,
                             bool half, float *sum, float *product) {
    const int64_t first = row * s.channels;
    for (int64_t c = 0; c < s.channels; c += SR_LANES) {
        const int n = lanes_left(c, s.channels);
        const sr_vf mean = sr_v_get(args->p[3], c, n, false);
        sr_vf a = sr_v_load(sum + c), b = sr_v_load(product + c);
        if (n == SR_LANES)
            add_products(args, first + c, s.channels, count, SR_LANES, half, mean, &a, &b);
        else
            add_products(args, first + c, s.channels, count, n, half, mean, &a, &b);
        sr_v_store(sum + c, a);
        sr_v_store(product + c, b);
    }
}

// Stage 0: sums of dy and of dy (x - mean) over one block of rows.
SR_INLINE void batchnorm_products(const sr_kernel_args *args, int64_t block, bool half) {
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, s.block_rows);
    float *sum = partials_of(args, s, block), *product = sum + s.padded;
    memset(sum, 0, (size_t)(2 * s.padded) * sizeof *sum);
    int64_t row = r.begin;
    for (; row + 4 <= r.end; row += 4)
        products_rows(args, s, row, 4, half, sum, product);
    for (; row < r.end; row++)
        products_rows(args, s, row, 1, half, sum, product);
}

// Stage 1: dgamma, dbeta, and the coefficients of dx = a dy + b (x - mean) + c:
// a = gamma / std, b = -a dgamma / (std M), c = -a dbeta / M.
static sr_status batchnorm_grad_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_batchnorm_params *params = args->params;
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.channels, block, SR_X86_CHANNEL_BLOCK);
    float *sum = partials_of(args, s, 0), *product = sum + s.padded, *k = coefficients_of(args);
    tree_add(sum, s.blocks, 2 * s.padded, r);
    tree_add(product, s.blocks, 2 * s.padded, r);
    const float *gamma = args->p[2], *mean = args->p[3], *var = args->p[4];
    float *dgamma = args->p[6], *dbeta = args->p[7];
    for (int64_t c = r.begin; c < r.end; c++) {
        const float inverse = (float)(1.0 / sqrt((double)var[c] + params->eps));
        const float a = gamma ? gamma[c] * inverse : inverse;
        dgamma[c] = product[c] * inverse;
        dbeta[c] = sum[c];
        k[c] = mean[c];
        k[s.padded + c] = a;
        k[2 * s.padded + c] = -a * inverse * (dgamma[c] / (float)s.rows);
        k[3 * s.padded + c] = -a * (dbeta[c] / (float)s.rows);
    }
    return SR_OK;
}

SR_INLINE void apply_vector(const sr_kernel_args *args, const float *k, int64_t padded, int64_t i,
                            int64_t c, int n, bool half) {
    const sr_vf d = sr_v_sub(sr_v_get(args->p[0], i, n, half), sr_v_load(k + c));
    const sr_vf dy = sr_v_get(args->p[1], i, n, half);
    const sr_vf rest = sr_v_fma(sr_v_load(k + 2 * padded + c), d, sr_v_load(k + 3 * padded + c));
    sr_v_put(args->p[5], i, sr_v_fma(sr_v_load(k + padded + c), dy, rest), n, half);
}

// Stage 2.
SR_INLINE void batchnorm_apply(const sr_kernel_args *args, int64_t block, bool half) {
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, args->block_rows);
    const float *k = coefficients_of(args);
    for (int64_t row = r.begin; row < r.end; row++) {
        const int64_t i = row * s.channels;
        int64_t c = 0;
        for (; c + SR_LANES <= s.channels; c += SR_LANES)
            apply_vector(args, k, s.padded, i + c, c, SR_LANES, half);
        if (c < s.channels)
            apply_vector(args, k, s.padded, i + c, c, lanes_left(c, s.channels), half);
    }
}

// ---- block functions ----

#define ROWS_AS(name, suffix, call)                                                                \
    static sr_status name##_##suffix(const sr_kernel_args *args, int64_t block,                    \
                                     sr_worker *worker) {                                          \
        (void)worker;                                                                              \
        call;                                                                                      \
        return SR_OK;                                                                              \
    }
ROWS_AS(bias_add, f32, bias_add_rows(args, block, false))
ROWS_AS(bias_add, bf16, bias_add_rows(args, block, true))
ROWS_AS(channel_sum, f32, channel_sum_rows(args, block, false))
ROWS_AS(channel_sum, bf16, channel_sum_rows(args, block, true))
ROWS_AS(batchnorm_moments, f32, batchnorm_moments(args, block, false))
ROWS_AS(batchnorm_moments, bf16, batchnorm_moments(args, block, true))
ROWS_AS(batchnorm_normalize, f32, affine_rows(args, args->p[3], block, false))
ROWS_AS(batchnorm_normalize, bf16, affine_rows(args, args->p[3], block, true))
ROWS_AS(batchnorm_infer, f32, affine_rows(args, args->p[5], block, false))
ROWS_AS(batchnorm_infer, bf16, affine_rows(args, args->p[5], block, true))
ROWS_AS(batchnorm_products, f32, batchnorm_products(args, block, false))
ROWS_AS(batchnorm_products, bf16, batchnorm_products(args, block, true))
ROWS_AS(batchnorm_apply, f32, batchnorm_apply(args, block, false))
ROWS_AS(batchnorm_apply, bf16, batchnorm_apply(args, block, true))

#endif
