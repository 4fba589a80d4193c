// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of x[M,C]: batchnorm_train, _grad, _infer, and the parts of the first two for
// statistics of several lanes: batchnorm_moments, _sums and _dx. Blocks and folding of rows are
// those of x86_rows_internal.h.
//
// Batch statistics: for each group of eight rows, the mean and, around it, M2 = sum (x - mean)^2
// are computed in registers. Groups, folded rows and blocks are merged by the update of Chan, Golub
// and LeVeque 1983, so x is read only once. Every difference that is squared is taken from a mean
// of neighbouring values, so squares do not cancel, whatever the mean of the data and wherever
// outliers are. The remaining error is the rounding of the means, a fraction eps mean / std of the
// variance.
#ifndef SR_KERNELS_CPU_X86_BATCHNORM_INTERNAL_H
#define SR_KERNELS_CPU_X86_BATCHNORM_INTERNAL_H

#include <math.h>

#include "kernels/cpu/x86/x86_rows_internal.h"

// Workspace: four rows of 'padded' floats (coefficients), then two such rows per block of rows.
SR_INLINE float *coefficients_of(const sr_kernel_args *args) {
    return args->workspace;
}
SR_INLINE float *partials_of(const sr_kernel_args *args, rows_shape s, int64_t block) {
    return (float *)args->workspace + (4 + 2 * block) * s.padded;
}

// The params of all these kernels begin with sr_rows_params.
SR_INLINE rows_shape batchnorm_shape(const sr_kernel_args *args) {
    const sr_rows_params *params = args->params;
    return rows_shape_of(params->rows, params->channels);
}

// Adds the moments of 'count' rows of one vector at element i, which follow 'before' other rows.
SR_INLINE void add_moments(const void *x, int64_t i, int64_t stride, int count, int n,
                           sr_dtype type, int64_t before, float *mean, float *m2) {
    sr_vf v[SR_X86_ROWS_GROUP], square[2] = {sr_v_zero(), sr_v_zero()};
    load_group(x, i, stride, count, SR_X86_ROWS_GROUP, n, type, v);
    const sr_vf sum = sr_v_add(sum_four(v), sum_four(v + 4));
    const sr_vf middle = sr_v_mul(sum, sr_v_set(1.0f / (float)count));
    for (int k = 0; k < count; k++) {
        const sr_vf d = sr_v_sub(v[k], middle);
        square[k % 2] = sr_v_fma(d, d, square[k % 2]);
    }
    const sr_vf squares = sr_v_add(square[0], square[1]);
    if (before == 0) {
        sr_v_store(mean, middle);
        sr_v_store(m2, squares);
        return;
    }
    const float share = (float)count / (float)(before + count), weight = (float)before * share;
    const sr_vf old = sr_v_load(mean), delta = sr_v_sub(middle, old);
    const sr_vf within = sr_v_add(sr_v_load(m2), squares);
    sr_v_store(mean, sr_v_fma(delta, sr_v_set(share), old));
    sr_v_store(m2, sr_v_fma(sr_v_mul(delta, delta), sr_v_set(weight), within));
}

SR_INLINE void moments_group(const void *x, int64_t i, int64_t width, int count, sr_dtype type,
                             int64_t before, float *mean, float *m2) {
    int64_t c = 0;
    for (; c + SR_ELEMENTS <= width; c += SR_ELEMENTS)
        add_moments(x, i + c, width, count, SR_ELEMENTS, type, before, mean + c, m2 + c);
    if (c < width)
        add_moments(x, i + c, width, count, elements_left(c, width), type, before, mean + c,
                    m2 + c);
}

SR_INLINE void moments_part(const void *x, rows_part p, sr_dtype type, float *mean, float *m2) {
    int64_t row = 0;
    for (; row + SR_X86_ROWS_GROUP <= p.rows; row += SR_X86_ROWS_GROUP)
        moments_group(x, p.first + row * p.width, p.width, SR_X86_ROWS_GROUP, type, row, mean, m2);
    if (row < p.rows)
        moments_group(x, p.first + row * p.width, p.width, (int)(p.rows - row), type, row, mean,
                      m2);
}

// Merges n results b into a (na and nb rows each); M2 is 'padded' floats after the mean.
SR_INLINE void merge_moments(float *a, const float *b, int64_t padded, int64_t na, int64_t nb,
                             sr_x86_range channels) {
    const float share = (float)nb / (float)(na + nb), weight = (float)na * share;
    for (int64_t c = channels.begin; c < channels.end; c += SR_ELEMENTS) {
        const sr_vf mean = sr_v_load(a + c), delta = sr_v_sub(sr_v_load(b + c), mean);
        const sr_vf m2 = sr_v_add(sr_v_load(a + padded + c), sr_v_load(b + padded + c));
        sr_v_store(a + c, sr_v_fma(delta, sr_v_set(share), mean));
        sr_v_store(a + padded + c, sr_v_fma(sr_v_mul(delta, delta), sr_v_set(weight), m2));
    }
}

// Stage 0: mean and M2 of one block of rows.
SR_INLINE void batchnorm_moments(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const rows_shape s = batchnorm_shape(args);
    float *to = partials_of(args, s, block);
    rows_part wide, rest;
    rows_parts(s, block, &wide, &rest);
    if (s.fold == 1 || wide.rows == 0) {
        moments_part(args->p[0], s.fold == 1 ? wide : rest, type, to, to + s.padded);
        return;
    }
    // As in add_folded; then the rows that are not folded.
    float folded[2 * FOLDED_ROW] = {0}, other[2 * FOLDED_ROW] = {0};
    moments_part(args->p[0], wide, type, folded, folded + FOLDED_ROW);
    moments_part(args->p[0], rest, type, other, other + FOLDED_ROW);
    int64_t rows = wide.rows;
    for (int64_t n = wide.width / 2; n >= s.channels; n /= 2, rows *= 2)
        merge_moments(folded, folded + n, FOLDED_ROW, rows, rows, (sr_x86_range){0, n});
    if (rest.rows > 0)
        merge_moments(folded, other, FOLDED_ROW, rows, rest.rows, (sr_x86_range){0, s.channels});
    memcpy(to, folded, (size_t)s.channels * sizeof *to);
    memcpy(to + s.padded, folded + FOLDED_ROW, (size_t)s.channels * sizeof *to);
}

SR_INLINE float inverse_deviation(const sr_kernel_args *args, float var) {
    const sr_batchnorm_params *params = args->params;
    return (float)(1.0 / sqrt((double)var + params->eps));
}

// y = (x - mean) scale + shift: rows 0..2 of the coefficients, for channels c.
static void affine_coefficients(const sr_kernel_args *args, rows_shape s, int64_t c, float mean,
                                float var) {
    const float *gamma = args->p[1], *beta = args->p[2];
    float *out = coefficients_of(args);
    const float inverse = inverse_deviation(args, var);
    out[c] = mean;
    out[s.padded + c] = gamma ? gamma[c] * inverse : inverse;
    out[2 * s.padded + c] = beta ? beta[c] : 0.0f;
}

// Statistics of all rows, of some channels.
SR_INLINE void join_moments(const sr_kernel_args *args, rows_shape s, sr_x86_range r, float *mean,
                            float *var) {
    float *partial = partials_of(args, s, 0);
    for (int64_t step = 1; step < s.blocks; step *= 2) {
        for (int64_t i = 0; i + step < s.blocks; i += 2 * step) {
            const int64_t first = i * s.block_rows, middle = (i + step) * s.block_rows;
            const int64_t last = sr_x86_min(s.rows, (i + 2 * step) * s.block_rows);
            float *a = partial + i * 2 * s.padded;
            merge_moments(a, a + step * 2 * s.padded, s.padded, middle - first, last - middle, r);
        }
    }
    for (int64_t c = r.begin; c < r.end; c++) {
        mean[c] = partial[c];
        var[c] = partial[s.padded + c] / (float)s.rows;
    }
}

SR_INLINE sr_x86_range channels_of(rows_shape s, int64_t block) {
    return sr_x86_block_range(s.channels, block, SR_X86_CHANNEL_BLOCK);
}

// Stage 1: statistics of all rows, and the coefficients of the last stage.
static sr_status batchnorm_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = channels_of(s, block);
    float *mean = args->p[4], *var = args->p[5];
    join_moments(args, s, r, mean, var);
    for (int64_t c = r.begin; c < r.end; c++)
        affine_coefficients(args, s, c, mean[c], var[c]);
    return SR_OK;
}

static sr_status batchnorm_moments_join(const sr_kernel_args *args, int64_t block,
                                        sr_worker *worker) {
    (void)worker;
    const rows_shape s = batchnorm_shape(args);
    join_moments(args, s, channels_of(s, block), args->p[1], args->p[2]);
    return SR_OK;
}

SR_INLINE void affine_vector(const void *x, void *y, const float *k, int64_t padded, int64_t i,
                             int64_t c, int n, sr_dtype type) {
    const sr_vf d = sr_v_sub(sr_v_get(x, i, n, type), sr_v_load(k + c));
    const sr_vf scale = sr_v_load(k + padded + c), shift = sr_v_load(k + 2 * padded + c);
    sr_v_put(y, i, sr_v_fma(d, scale, shift), n, type);
}

SR_INLINE void affine_rows(const sr_kernel_args *args, void *y, int64_t block, sr_dtype type) {
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, args->block_rows);
    const float *k = coefficients_of(args);
    for (int64_t row = r.begin; row < r.end; row++) {
        const int64_t i = row * s.channels;
        int64_t c = 0;
        for (; c + SR_ELEMENTS <= s.channels; c += SR_ELEMENTS)
            affine_vector(args->p[0], y, k, s.padded, i + c, c, SR_ELEMENTS, type);
        if (c < s.channels)
            affine_vector(args->p[0], y, k, s.padded, i + c, c, elements_left(c, s.channels), type);
    }
}

static sr_status batchnorm_infer_setup(const sr_kernel_args *args, int64_t block,
                                       sr_worker *worker) {
    (void)worker;
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = channels_of(s, block);
    const float *mean = args->p[3], *var = args->p[4];
    for (int64_t c = r.begin; c < r.end; c++)
        affine_coefficients(args, s, c, mean[c], var[c]);
    return SR_OK;
}

// ---- gradient: x, dy, gamma, mean, var -> dx, dgamma, dbeta ----

// Stage 0: sums of dy and of dy (x - mean) over one block of rows.
SR_INLINE void batchnorm_products(const sr_kernel_args *args, const float *mean, int64_t block,
                                  sr_dtype type) {
    const rows_shape s = batchnorm_shape(args);
    const rows_terms t = {args->p[1], args->p[0], mean, type};
    float *sum = partials_of(args, s, block);
    sum_rows(&t, s, block, sum, sum + s.padded);
}

// dgamma and dbeta of some channels.
SR_INLINE void join_products(const sr_kernel_args *args, rows_shape s, sr_x86_range r,
                             const float *var, float *dgamma, float *dbeta) {
    float *sum = partials_of(args, s, 0), *product = sum + s.padded;
    tree_add(sum, s.blocks, 2 * s.padded, r);
    tree_add(product, s.blocks, 2 * s.padded, r);
    for (int64_t c = r.begin; c < r.end; c++) {
        dgamma[c] = product[c] * inverse_deviation(args, var[c]);
        dbeta[c] = sum[c];
    }
}

// The coefficients of dx = a dy + b (x - mean) + c for some channels, with sums over 'count' rows:
// a = gamma / std, b = -a dgamma / (std count), c = -a dbeta / count.
SR_INLINE void gradient_coefficients(const sr_kernel_args *args, rows_shape s, sr_x86_range r,
                                     const float *dgamma, const float *dbeta, int64_t count) {
    const float *gamma = args->p[2], *mean = args->p[3], *var = args->p[4];
    float *k = coefficients_of(args);
    for (int64_t c = r.begin; c < r.end; c++) {
        const float inverse = inverse_deviation(args, var[c]);
        const float a = gamma ? gamma[c] * inverse : inverse;
        k[c] = mean[c];
        k[s.padded + c] = a;
        k[2 * s.padded + c] = -a * inverse * (dgamma[c] / (float)count);
        k[3 * s.padded + c] = -a * (dbeta[c] / (float)count);
    }
}

// Stage 1: dgamma, dbeta, and the coefficients of the last stage.
static sr_status batchnorm_grad_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = channels_of(s, block);
    join_products(args, s, r, args->p[4], args->p[6], args->p[7]);
    gradient_coefficients(args, s, r, args->p[6], args->p[7], s.rows);
    return SR_OK;
}

// x, dy, mean, var -> dgamma, dbeta
static sr_status batchnorm_sums_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const rows_shape s = batchnorm_shape(args);
    join_products(args, s, channels_of(s, block), args->p[3], args->p[4], args->p[5]);
    return SR_OK;
}

// x, dy, gamma, mean, var, dgamma, dbeta -> dx
static sr_status batchnorm_dx_setup(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_batchnorm_dx_params *params = args->params;
    const rows_shape s = batchnorm_shape(args);
    gradient_coefficients(args, s, channels_of(s, block), args->p[5], args->p[6], params->count);
    return SR_OK;
}

SR_INLINE void apply_vector(const sr_kernel_args *args, void *dx, const float *k, int64_t padded,
                            int64_t i, int64_t c, int n, sr_dtype type) {
    const sr_vf d = sr_v_sub(sr_v_get(args->p[0], i, n, type), sr_v_load(k + c));
    const sr_vf dy = sr_v_get(args->p[1], i, n, type);
    const sr_vf rest = sr_v_fma(sr_v_load(k + 2 * padded + c), d, sr_v_load(k + 3 * padded + c));
    sr_v_put(dx, i, sr_v_fma(sr_v_load(k + padded + c), dy, rest), n, type);
}

// The last stage.
SR_INLINE void batchnorm_apply(const sr_kernel_args *args, void *dx, int64_t block, sr_dtype type) {
    const rows_shape s = batchnorm_shape(args);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, args->block_rows);
    const float *k = coefficients_of(args);
    for (int64_t row = r.begin; row < r.end; row++) {
        const int64_t i = row * s.channels;
        int64_t c = 0;
        for (; c + SR_ELEMENTS <= s.channels; c += SR_ELEMENTS)
            apply_vector(args, dx, k, s.padded, i + c, c, SR_ELEMENTS, type);
        if (c < s.channels)
            apply_vector(args, dx, k, s.padded, i + c, c, elements_left(c, s.channels), type);
    }
}

// ---- block functions ----

SR_X86_TYPED(batchnorm_moments, batchnorm_moments(args, block, type))
SR_X86_TYPED(batchnorm_normalize, affine_rows(args, args->p[3], block, type))
SR_X86_TYPED(batchnorm_infer, affine_rows(args, args->p[5], block, type))
SR_X86_TYPED(batchnorm_products, batchnorm_products(args, args->p[3], block, type))
SR_X86_TYPED(batchnorm_apply, batchnorm_apply(args, args->p[5], block, type))
SR_X86_TYPED(batchnorm_sums, batchnorm_products(args, args->p[2], block, type))
SR_X86_TYPED(batchnorm_dx, batchnorm_apply(args, args->p[7], block, type))

#endif
