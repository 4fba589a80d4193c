// SPDX-License-Identifier: Apache-2.0
// Pooling over NHWC, sixteen channels at a time, with the reference's order of operations and
// therefore its bits. A block is a run of output rows. In the gradients these are rows of dx, which
// gather from the windows that contain an input, so no two blocks write the same element and
// nothing need be cleared first.
#ifndef SR_KERNELS_CPU_X86_POOL_INTERNAL_H
#define SR_KERNELS_CPU_X86_POOL_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_tree_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

typedef struct pool_span {
    int64_t begin, end; // positions inside the picture
    int64_t first;      // position of offset 0 of the window, possibly in the padding
} pool_span;

// The inputs in the window of an output.
SR_INLINE pool_span inputs_of(int64_t out, int32_t window, int32_t stride, int32_t pad,
                              int64_t size) {
    const int64_t first = out * stride - pad;
    return (pool_span){first < 0 ? 0 : first, sr_x86_min(first + window, size), first};
}

// The outputs whose windows contain an input.
SR_INLINE pool_span outputs_of(int64_t in, int32_t window, int32_t stride, int32_t pad,
                               int64_t outputs) {
    const int64_t at = in + pad;
    const int64_t begin = at < window ? 0 : (at - window) / stride + 1;
    return (pool_span){begin, sr_x86_min(at / stride + 1, outputs), 0};
}

// A position of the output: picture n, row and column, its first element, sixteen channels, and the
// corresponding rows and columns on the other side (computed once for all channels, as it needs
// divisions).
typedef struct pool_place {
    int64_t n, row, column, element, c;
    pool_span rows, columns;
} pool_place;

// 'span' finds the corresponding positions on the other side, which has other_h rows and other_w
// columns.
#define POOL_ROWS(name, height, width, span, other_h, other_w)                                     \
    const sr_pool_params *p = args->params;                                                        \
    const sr_x86_range r =                                                                         \
        sr_x86_block_range(p->n * p->height, block, sr_x86_pool_rows(p->width, p->c));             \
    for (int64_t row = r.begin; row < r.end; row++) {                                              \
        pool_place at = {.n = row / p->height, .row = row % p->height};                            \
        at.rows = span(at.row, p->window_h, p->stride_h, p->pad_top, p->other_h);                  \
        for (; at.column < p->width; at.column++) {                                                \
            at.columns = span(at.column, p->window_w, p->stride_w, p->pad_left, p->other_w);       \
            at.element = (row * p->width + at.column) * p->c;                                      \
            for (at.c = 0; at.c + SR_ELEMENTS <= p->c; at.c += SR_ELEMENTS)                        \
                name##_at(args, p, at, SR_ELEMENTS, type);                                         \
            if (at.c < p->c)                                                                       \
                name##_at(args, p, at, (int)(p->c - at.c), type);                                  \
        }                                                                                          \
    }
#define POOL(name, height, width, span, other_h, other_w)                                          \
    SR_X86_TYPED(name, POOL_ROWS(name, height, width, span, other_h, other_w))

// Makes room for a term in a sum.
SR_INLINE sr_vf pool_room(sr_v_tree *tree, sr_vf sum) {
    return sr_v_tree_room(tree, sum, SR_REFERENCE_TERMS);
}

// A later value wins only if it is larger, or NaN.
SR_INLINE void maxpool2d_at(const sr_kernel_args *args, const sr_pool_params *p, pool_place at,
                            int elements, sr_dtype type) {
    const pool_span rows = at.rows, columns = at.columns;
    sr_vf best = sr_v_zero();
    sr_vi index = sr_vi_set(0);
    bool first = true;
    for (int64_t h = rows.begin; h < rows.end; h++) {
        for (int64_t w = columns.begin; w < columns.end; w++) {
            const int64_t i = ((at.n * p->h + h) * p->w + w) * p->c + at.c;
            const sr_vf v = sr_v_get(args->p[0], i, elements, type);
            const sr_vi offset =
                sr_vi_set((int32_t)((h - rows.first) * p->window_w + w - columns.first));
            const sr_vmask wins = sr_v_gt(v, best), nan = sr_v_unordered(v, v);
            best = first ? v : sr_v_pick(nan, v, sr_v_pick(wins, v, best));
            index = first ? offset : sr_vi_pick(nan, offset, sr_vi_pick(wins, offset, index));
            first = false;
        }
    }
    sr_v_put(args->p[1], at.element + at.c, best, elements, type);
    uint8_t *out = (uint8_t *)args->p[2] + at.element + at.c;
    if (elements == SR_ELEMENTS)
        sr_vi_store_u8(out, index);
    else
        sr_vi_store_u8_first(out, index, elements);
}
POOL(maxpool2d, p, q, inputs_of, h, w)

SR_INLINE void maxpool2d_grad_at(const sr_kernel_args *args, const sr_pool_params *p, pool_place at,
                                 int elements, sr_dtype type) {
    const pool_span rows = at.rows, columns = at.columns;
    sr_vf sum = sr_v_zero();
    sr_v_tree tree;
    sr_v_tree_begin(&tree);
    for (int64_t h = rows.begin; h < rows.end; h++) {
        for (int64_t w = columns.begin; w < columns.end; w++) {
            const int64_t i = ((at.n * p->p + h) * p->q + w) * p->c + at.c;
            const int64_t r = at.row + p->pad_top - h * p->stride_h;
            const int64_t s = at.column + p->pad_left - w * p->stride_w;
            const uint8_t *from = (const uint8_t *)args->p[1] + i;
            const sr_vi index =
                elements == SR_ELEMENTS ? sr_vi_load_u8(from) : sr_vi_load_u8_first(from, elements);
            const sr_vmask here = sr_vi_equal(index, sr_vi_set((int32_t)(r * p->window_w + s)));
            const sr_vf dy = sr_v_get(args->p[0], i, elements, type);
            sum = pool_room(&tree, sum);
            sum = sr_v_pick(here, sr_v_add(sum, dy), sum);
        }
    }
    sr_v_put(args->p[2], at.element + at.c, sr_v_tree_total(&tree, sum), elements, type);
}
POOL(maxpool2d_grad, h, w, outputs_of, p, q)

SR_INLINE void avgpool2d_at(const sr_kernel_args *args, const sr_pool_params *p, pool_place at,
                            int elements, sr_dtype type) {
    const pool_span rows = at.rows, columns = at.columns;
    const int64_t count = (rows.end - rows.begin) * (columns.end - columns.begin);
    sr_vf sum = sr_v_zero();
    sr_v_tree tree;
    sr_v_tree_begin(&tree);
    for (int64_t h = rows.begin; h < rows.end; h++)
        for (int64_t w = columns.begin; w < columns.end; w++) {
            const int64_t i = ((at.n * p->h + h) * p->w + w) * p->c + at.c;
            sum = sr_v_add(pool_room(&tree, sum), sr_v_get(args->p[0], i, elements, type));
        }
    sum = sr_v_tree_total(&tree, sum);
    sr_v_put(args->p[1], at.element + at.c, sr_v_div(sum, sr_v_set((float)count)), elements, type);
}
POOL(avgpool2d, p, q, inputs_of, h, w)

SR_INLINE void avgpool2d_grad_at(const sr_kernel_args *args, const sr_pool_params *p, pool_place at,
                                 int elements, sr_dtype type) {
    const pool_span rows = at.rows, columns = at.columns;
    sr_vf sum = sr_v_zero();
    sr_v_tree tree;
    sr_v_tree_begin(&tree);
    for (int64_t h = rows.begin; h < rows.end; h++) {
        for (int64_t w = columns.begin; w < columns.end; w++) {
            const pool_span high = inputs_of(h, p->window_h, p->stride_h, p->pad_top, p->h);
            const pool_span wide = inputs_of(w, p->window_w, p->stride_w, p->pad_left, p->w);
            const int64_t count = (high.end - high.begin) * (wide.end - wide.begin);
            const int64_t i = ((at.n * p->p + h) * p->q + w) * p->c + at.c;
            const sr_vf dy = sr_v_get(args->p[0], i, elements, type);
            sum = sr_v_add(pool_room(&tree, sum), sr_v_div(dy, sr_v_set((float)count)));
        }
    }
    sr_v_put(args->p[1], at.element + at.c, sr_v_tree_total(&tree, sum), elements, type);
}
POOL(avgpool2d_grad, h, w, outputs_of, p, q)

#endif
