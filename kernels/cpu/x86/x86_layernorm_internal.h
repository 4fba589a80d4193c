// SPDX-License-Identifier: Apache-2.0
// groupnorm and its gradient for groups of all channels of one pixel, that is, layer norm and
// RMSNorm. The order of operations is that of the reference, and so are the bits
// (kernels/cpu/reference/reference_groupnorm.inc).
//
// The columns of a row are the elements of two vectors; elements past the end of a row add zeros,
// which change no sum, since no sum is -0. A block of the gradient is a leaf of the sums over rows:
// a row's contribution to dgamma and dbeta is added while the row is in cache.
#ifndef SR_KERNELS_CPU_X86_LAYERNORM_INTERNAL_H
#define SR_KERNELS_CPU_X86_LAYERNORM_INTERNAL_H

#include <math.h>

#include "kernels/cpu/x86/x86_rows_internal.h"
#include "kernels/reference_order.h"

#define NORM_COLUMNS SR_REFERENCE_COLUMNS
#define NORM_PART (SR_REFERENCE_TERMS * NORM_COLUMNS) // elements of a part of a row
_Static_assert(NORM_COLUMNS == 2 * SR_ELEMENTS, "the columns of a row are two vectors");

// The terms of a sum over a row: x, (x - mean)^2, g = gamma dy, or g (x - mean).
typedef enum norm_sum { NORM_VALUES, NORM_SQUARES, NORM_GRADIENTS, NORM_PRODUCTS } norm_sum;

typedef struct norm_row {
    const void *x, *dy;
    const float *gamma, *beta;
    int64_t first, channels; // its first element
    float mean, rstd;
    sr_dtype type;
} norm_row;

SR_INLINE sr_vf norm_centred(const norm_row *r, int64_t c, int n) {
    return sr_v_sub(sr_v_get(r->x, r->first + c, n, r->type), sr_v_set(r->mean));
}

// v gamma + beta, without the parameters that are absent.
SR_INLINE sr_vf norm_scaled(const norm_row *r, sr_vf v, int64_t c, int n) {
    return r->gamma != NULL ? sr_v_mul(v, sr_v_get(r->gamma, c, n, SR_F32)) : v;
}

SR_INLINE sr_vf norm_gradient(const norm_row *r, int64_t c, int n) {
    return norm_scaled(r, sr_v_get(r->dy, r->first + c, n, r->type), c, n);
}

// The terms of elements c .. c + n - 1, followed by zeros.
SR_INLINE sr_vf norm_terms(const norm_row *r, norm_sum what, int64_t c, int n) {
    sr_vf v;
    if (what == NORM_VALUES) {
        v = sr_v_get(r->x, r->first + c, n, r->type);
    } else if (what == NORM_GRADIENTS) {
        v = norm_gradient(r, c, n);
    } else {
        const sr_vf d = norm_centred(r, c, n);
        v = sr_v_mul(what == NORM_SQUARES ? d : norm_gradient(r, c, n), d);
    }
    return n == SR_ELEMENTS ? v : sr_v_pick(sr_v_first(n), v, sr_v_zero());
}

// The sums of the columns of a part.
SR_INLINE void norm_part(const norm_row *r, norm_sum what, sr_x86_range part, sr_vf sum[2]) {
    int64_t c = part.begin;
    sum[0] = sum[1] = sr_v_zero();
    for (; c + NORM_COLUMNS <= part.end; c += NORM_COLUMNS) {
        sum[0] = sr_v_add(sum[0], norm_terms(r, what, c, SR_ELEMENTS));
        sum[1] = sr_v_add(sum[1], norm_terms(r, what, c + SR_ELEMENTS, SR_ELEMENTS));
    }
    for (int k = 0; c < part.end; c += SR_ELEMENTS, k++)
        sum[k] = sr_v_add(sum[k], norm_terms(r, what, c, elements_left(c, part.end)));
}

// The sum over a row: over the parts, then over the columns.
SR_INLINE float norm_sum_row(const norm_row *r, norm_sum what) {
    sr_vf sum[SR_REFERENCE_PARTS][2];
    const int64_t parts = sr_x86_ceil_div(r->channels, NORM_PART);
    for (int64_t i = 0; i < parts; i++)
        norm_part(r, what, sr_x86_block_range(r->channels, i, NORM_PART), sum[i]);
    for (int64_t step = 1; step < parts; step *= 2)
        for (int64_t i = 0; i + step < parts; i += 2 * step)
            for (int k = 0; k < 2; k++)
                sum[i][k] = sr_v_add(sum[i][k], sum[i + step][k]);
    return sr_v_sum(sum[0][0]) + sr_v_sum(sum[0][1]);
}

// ---- groupnorm: x, gamma, beta, y, mean, rstd ----

SR_INLINE void norm_store(const norm_row *r, void *y, int64_t c, int n) {
    const sr_vf xhat = sr_v_mul(norm_centred(r, c, n), sr_v_set(r->rstd));
    sr_vf v = norm_scaled(r, xhat, c, n);
    if (r->beta != NULL)
        v = sr_v_add(v, sr_v_get(r->beta, c, n, SR_F32));
    sr_v_put(y, r->first + c, v, n, r->type);
}

SR_INLINE void layernorm_rows(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_groupnorm_params *p = args->params;
    const sr_x86_range rows = sr_x86_block_range(p->samples, block, args->block_rows);
    const float count = (float)p->channels, inverse = 1.0f / count, eps = (float)p->eps;
    float *mean = args->p[4], *rstd = args->p[5];
    norm_row r = {.x = args->p[0],
                  .gamma = args->p[1],
                  .beta = args->p[2],
                  .channels = p->channels,
                  .type = type};
    for (int64_t row = rows.begin; row < rows.end; row++) {
        int64_t c = 0;
        r.first = row * p->channels;
        r.mean = p->uncentred ? 0.0f : norm_sum_row(&r, NORM_VALUES) * inverse;
        r.rstd = 1.0f / sqrtf(norm_sum_row(&r, NORM_SQUARES) / count + eps);
        mean[row] = r.mean;
        rstd[row] = r.rstd;
        for (; c + SR_ELEMENTS <= p->channels; c += SR_ELEMENTS)
            norm_store(&r, args->p[3], c, SR_ELEMENTS);
        if (c < p->channels)
            norm_store(&r, args->p[3], c, elements_left(c, p->channels));
    }
}

// ---- groupnorm_grad: x, dy, gamma, mean, rstd, dx, dgamma, dbeta ----

// Sums over rows in scratch: of dy and dy xhat, and the levels of their tree.
typedef struct norm_tree {
    float *sum; // [2][padded]
    int64_t padded, number, rows;
} norm_tree;

SR_INLINE void norm_tree_clear(norm_tree *t) {
    t->rows = 0;
    memset(t->sum, 0, (size_t)(2 * t->padded) * sizeof *t->sum);
}

// sum += level k
SR_INLINE void norm_tree_join(norm_tree *t, int k) {
    add_row(t->sum, t->sum + 2 * (1 + k) * t->padded, 0, 2 * t->padded);
}

// Makes room for another row: finishes a sum of SR_REFERENCE_TERMS terms first.
SR_INLINE void norm_tree_room(norm_tree *t) {
    if (t->rows++ < SR_REFERENCE_TERMS)
        return;
    int k = 0;
    for (int64_t bits = t->number++; bits & 1; bits >>= 1)
        norm_tree_join(t, k++);
    memcpy(t->sum + 2 * (1 + k) * t->padded, t->sum, (size_t)(2 * t->padded) * sizeof *t->sum);
    norm_tree_clear(t);
    t->rows = 1;
}

// Computes dx, and adds the row's contribution to dbeta and dgamma.
SR_INLINE void norm_row_gradient(const norm_row *r, const norm_tree *t, void *dx, float a, float b,
                                 int64_t c, int n) {
    const sr_vf rstd = sr_v_set(r->rstd), xhat = sr_v_mul(norm_centred(r, c, n), rstd);
    const sr_vf dy = sr_v_get(r->dy, r->first + c, n, r->type), g = norm_scaled(r, dy, c, n);
    const sr_vf inner = sr_v_sub(sr_v_sub(g, sr_v_set(a)), sr_v_mul(xhat, sr_v_set(b)));
    float *plain = t->sum + c, *product = plain + t->padded;
    sr_v_store(plain, sr_v_add(sr_v_load(plain), dy));
    sr_v_store(product, sr_v_add(sr_v_load(product), sr_v_mul(dy, xhat)));
    sr_v_put(dx, r->first + c, sr_v_mul(rstd, inner), n, r->type);
}

// Stage 0: the rows of a leaf.
SR_INLINE void layernorm_grad_rows(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                                   sr_dtype type) {
    const sr_groupnorm_params *p = args->params;
    const sr_x86_range rows = sr_x86_block_range(p->samples, block, sr_rows_per_block(p->channels));
    const float inverse = 1.0f / (float)p->channels;
    norm_tree t = {.sum = worker->scratch, .padded = sr_x86_padded(p->channels)};
    norm_row r = {.x = args->p[0],
                  .dy = args->p[1],
                  .gamma = args->p[2],
                  .channels = p->channels,
                  .type = type};
    norm_tree_clear(&t);
    for (int64_t row = rows.begin; row < rows.end; row++) {
        int64_t c = 0;
        r.first = row * p->channels;
        r.mean = ((const float *)args->p[3])[row];
        r.rstd = ((const float *)args->p[4])[row];
        const float a = p->uncentred ? 0.0f : norm_sum_row(&r, NORM_GRADIENTS) * inverse;
        const float b = norm_sum_row(&r, NORM_PRODUCTS) * r.rstd * inverse;
        norm_tree_room(&t);
        for (; c + SR_ELEMENTS <= p->channels; c += SR_ELEMENTS)
            norm_row_gradient(&r, &t, args->p[5], a, b, c, SR_ELEMENTS);
        if (c < p->channels)
            norm_row_gradient(&r, &t, args->p[5], a, b, c, elements_left(c, p->channels));
    }
    for (int k = 0; t.number >> k > 0; k++)
        if (t.number >> k & 1)
            norm_tree_join(&t, k);
    memcpy((float *)args->workspace + 2 * block * t.padded, t.sum,
           (size_t)(2 * t.padded) * sizeof *t.sum);
}

// Stage 1: dbeta and dgamma of some channels.
static sr_status layernorm_grad_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_groupnorm_params *p = args->params;
    const int64_t padded = sr_x86_padded(p->channels);
    const int64_t leaves = sr_x86_ceil_div(p->samples, sr_rows_per_block(p->channels));
    const sr_x86_range r = sr_x86_block_range(p->channels, block, SR_X86_CHANNEL_BLOCK);
    float *plain = args->workspace, *product = plain + padded;
    tree_add(plain, leaves, 2 * padded, r);
    tree_add(product, leaves, 2 * padded, r);
    memcpy((float *)args->p[7] + r.begin, plain + r.begin,
           (size_t)(r.end - r.begin) * sizeof *plain);
    memcpy((float *)args->p[6] + r.begin, product + r.begin,
           (size_t)(r.end - r.begin) * sizeof *product);
    return SR_OK;
}

// ---- block functions ----

SR_X86_TYPED(layernorm, layernorm_rows(args, block, type))
SR_X86_TYPED(layernorm_grad, layernorm_grad_rows(args, block, worker, type))

#endif
