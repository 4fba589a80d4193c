// SPDX-License-Identifier: Apache-2.0
// Kernels over the channels of x[M,C]: bias_add, channel_sum and channel_dot; and sums over rows,
// which batch normalisation uses, too (x86_batchnorm_internal.h).
//
// Rows are divided into blocks of sr_x86_block_rows(C). A few rows of a block at a time are added
// in registers, as a tree, and then to one accumulator per channel in the block's row of the
// workspace (first-level cache). With few channels, most elements of a vector would be unused and
// chains would be long. Then 'fold' rows are treated as one row of fold C elements, whose
// accumulators are joined at the end of the block. So no sum has more than 64 terms; a binary tree
// joins the blocks, and the order of every sum depends only on the shape.
#ifndef SR_KERNELS_CPU_X86_ROWS_INTERNAL_H
#define SR_KERNELS_CPU_X86_ROWS_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

typedef struct rows_shape {
    int64_t rows, channels, padded;
    int64_t block_rows, blocks, fold;
} rows_shape;

SR_INLINE rows_shape rows_shape_of(int64_t rows, int64_t channels) {
    rows_shape s = {rows,
                    channels,
                    sr_x86_padded(channels),
                    sr_x86_block_rows(channels),
                    0,
                    sr_x86_fold(channels)};
    s.blocks = sr_x86_ceil_div(rows, s.block_rows);
    return s;
}

SR_INLINE int elements_left(int64_t c, int64_t channels) {
    return (int)sr_x86_min(SR_ELEMENTS, channels - c);
}

// ---- bias_add ----

SR_INLINE void bias_add_rows(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_rows_params *params = args->params;
    const rows_shape s = rows_shape_of(params->rows, params->channels);
    const sr_x86_range r = sr_x86_block_range(s.rows, block, args->block_rows);
    for (int64_t row = r.begin; row < r.end; row++) {
        for (int64_t c = 0; c < s.channels; c += SR_ELEMENTS) {
            const int n = elements_left(c, s.channels);
            const int64_t i = row * s.channels + c;
            const sr_vf x = sr_v_get(args->p[0], i, n, type);
            sr_v_put(args->p[2], i, sr_v_add(x, sr_v_get(args->p[1], c, n, SR_F32)), n, type);
        }
    }
}

// ---- sums over rows ----

// Rows that are added at a time. With two arrays and a large power of two of channels, more rows
// would compete for one set of the first-level cache.
#define SUM_GROUP 4

// Floats of the accumulators of a folded row, which is narrower than twice the smallest width;
// joining them reads one vector more.
#define FOLDED_ROW (2 * SR_X86_ROWS_WIDTH + SR_ELEMENTS)

// 'rows' rows of 'width' elements, which begin at element 'first'.
typedef struct rows_part {
    int64_t first, rows, width;
} rows_part;

// A block's rows: those that are folded, and the others, fewer than 'fold'.
SR_INLINE void rows_parts(rows_shape s, int64_t block, rows_part *wide, rows_part *rest) {
    const sr_x86_range r = sr_x86_block_range(s.rows, block, s.block_rows);
    const int64_t rows = (r.end - r.begin) / s.fold, width = s.fold * s.channels;
    const int64_t first = r.begin * s.channels;
    *wide = (rows_part){first, rows, width};
    *rest = (rows_part){first + rows * width, (r.end - r.begin) % s.fold, s.channels};
}

// Loads a vector of each of 'count' rows, the first at element i, and zeros for the other rows of
// the group.
SR_INLINE void load_group(const void *x, int64_t i, int64_t stride, int count, int group, int n,
                          sr_dtype type, sr_vf *to) {
    for (int k = 0; k < group; k++)
        to[k] = k < count ? sr_v_get(x, i + k * stride, n, type) : sr_v_zero();
}

SR_INLINE sr_vf sum_four(const sr_vf *x) {
    return sr_v_add(sr_v_add(x[0], x[1]), sr_v_add(x[2], x[3]));
}

// a += b, whole vectors.
SR_INLINE void add_row(float *a, const float *b, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; c += SR_ELEMENTS)
        sr_v_store(a + c, sr_v_add(sr_v_load(a + c), sr_v_load(b + c)));
}

// sum += the accumulators of a folded row, with those of a channel joined by a tree. A vector that
// extends beyond an end overwrites only accumulators that have already been added.
SR_INLINE void add_folded(float *sum, float *folded, rows_shape s) {
    for (int64_t n = s.fold * s.channels / 2; n >= s.channels; n /= 2)
        add_row(folded, folded + n, 0, n);
    add_row(sum, folded, 0, s.channels);
}

// partial[i] += partial[i + step] for step = 1, 2, 4, ...: the sum over blocks ends in partial[0].
SR_INLINE void tree_add(float *partial, int64_t blocks, int64_t stride, sr_x86_range channels) {
    for (int64_t step = 1; step < blocks; step *= 2)
        for (int64_t i = 0; i + step < blocks; i += 2 * step)
            add_row(partial + i * stride, partial + (i + step) * stride, channels.begin,
                    channels.end);
}

// The terms summed over rows: a, and products a (b - shift).
typedef struct rows_terms {
    const void *a, *b;  // [M,C]; b NULL: no products
    const float *shift; // [C]; NULL: zeros
    sr_dtype type;
} rows_terms;

// Adds 'count' rows of one vector, the first of which begins at element i. Results may be NULL.
SR_INLINE void add_terms(const rows_terms *t, int64_t i, int64_t stride, int count, int n,
                         const float *shift, float *sum, float *product) {
    sr_vf a[SUM_GROUP];
    load_group(t->a, i, stride, count, SUM_GROUP, n, t->type, a);
    if (sum != NULL)
        sr_v_store(sum, sr_v_add(sr_v_load(sum), sum_four(a)));
    if (product == NULL)
        return;
    sr_vf part[2] = {sr_v_zero(), sr_v_zero()};
    const sr_vf middle = shift != NULL ? sr_v_get(shift, 0, n, SR_F32) : sr_v_zero();
    for (int k = 0; k < count; k++) {
        const sr_vf d = sr_v_sub(sr_v_get(t->b, i + k * stride, n, t->type), middle);
        part[k % 2] = sr_v_fma(a[k], d, part[k % 2]);
    }
    sr_v_store(product, sr_v_add(sr_v_load(product), sr_v_add(part[0], part[1])));
}

#define AT(row, c) ((row) != NULL ? (row) + (c) : NULL)

SR_INLINE void add_group(const rows_terms *t, int64_t i, int64_t width, int count,
                         const float *shift, float *sum, float *product) {
    int64_t c = 0;
    for (; c + SR_ELEMENTS <= width; c += SR_ELEMENTS)
        add_terms(t, i + c, width, count, SR_ELEMENTS, AT(shift, c), AT(sum, c), AT(product, c));
    if (c < width)
        add_terms(t, i + c, width, count, elements_left(c, width), AT(shift, c), AT(sum, c),
                  AT(product, c));
}

SR_INLINE void add_part(const rows_terms *t, rows_part p, const float *shift, float *sum,
                        float *product) {
    int64_t row = 0;
    for (; row + SUM_GROUP <= p.rows; row += SUM_GROUP)
        add_group(t, p.first + row * p.width, p.width, SUM_GROUP, shift, sum, product);
    if (row < p.rows)
        add_group(t, p.first + row * p.width, p.width, (int)(p.rows - row), shift, sum, product);
}

// The sums over one block of rows: 'padded' floats each.
SR_INLINE void sum_rows(const rows_terms *t, rows_shape s, int64_t block, float *sum,
                        float *product) {
    rows_part wide, rest;
    rows_parts(s, block, &wide, &rest);
    for (int64_t c = 0; c < s.padded; c += SR_ELEMENTS) {
        if (sum != NULL)
            sr_v_store(sum + c, sr_v_zero());
        if (product != NULL)
            sr_v_store(product + c, sr_v_zero());
    }
    if (s.fold == 1) {
        add_part(t, wide, t->shift, sum, product);
        return;
    }
    float folded[2][FOLDED_ROW] = {{0}}, shift[FOLDED_ROW] = {0};
    for (int64_t c = 0; t->shift != NULL && c < wide.width; c++)
        shift[c] = t->shift[c % s.channels];
    add_part(t, wide, shift, sum != NULL ? folded[0] : NULL, product != NULL ? folded[1] : NULL);
    add_part(t, rest, t->shift, sum, product);
    if (sum != NULL)
        add_folded(sum, folded[0], s);
    if (product != NULL)
        add_folded(product, folded[1], s);
}

// Workspace: a row of 'padded' floats per block.
SR_INLINE sr_status sums_join(const sr_kernel_args *args, int64_t block, float *to) {
    const sr_rows_params *params = args->params;
    const rows_shape s = rows_shape_of(params->rows, params->channels);
    const sr_x86_range r = sr_x86_block_range(s.channels, block, SR_X86_CHANNEL_BLOCK);
    tree_add(args->workspace, s.blocks, s.padded, r);
    for (int64_t c = r.begin; c < r.end; c += SR_ELEMENTS)
        sr_v_put(to, c, sr_v_load((const float *)args->workspace + c), elements_left(c, s.channels),
                 SR_F32);
    return SR_OK;
}

// ---- channel_sum: x, s ----

SR_INLINE void channel_sum_rows(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_rows_params *params = args->params;
    const rows_shape s = rows_shape_of(params->rows, params->channels);
    const rows_terms t = {.a = args->p[0], .type = type};
    sum_rows(&t, s, block, (float *)args->workspace + block * s.padded, NULL);
}

static sr_status channel_sum_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    return sums_join(args, block, args->p[1]);
}

// ---- channel_dot: a, b, shift, s ----

SR_INLINE void channel_dot_rows(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_rows_params *params = args->params;
    const rows_shape s = rows_shape_of(params->rows, params->channels);
    const rows_terms t = {args->p[0], args->p[1], args->p[2], type};
    sum_rows(&t, s, block, NULL, (float *)args->workspace + block * s.padded);
}

static sr_status channel_dot_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    return sums_join(args, block, args->p[3]);
}

// ---- block functions ----

SR_X86_TYPED(bias_add, bias_add_rows(args, block, type))
SR_X86_TYPED(channel_sum, channel_sum_rows(args, block, type))
SR_X86_TYPED(channel_dot, channel_dot_rows(args, block, type))

#endif
