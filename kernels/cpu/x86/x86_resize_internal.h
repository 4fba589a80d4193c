// SPDX-License-Identifier: Apache-2.0
// resize2d and its gradient, with the reference's order of operations and therefore its bits.
//
// A pixel is a sum over rows of sums over columns. The latter, a line of them for each row that is
// read, are computed once and kept in scratch for all rows of the output that need them. They are
// sums of neighbouring channels; the sums over rows then go through whole lines, so that vectors
// are full with any number of channels. A block computes some rows of some columns of a picture.
#ifndef SR_KERNELS_CPU_X86_RESIZE_INTERNAL_H
#define SR_KERNELS_CPU_X86_RESIZE_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_tree_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

// What is summed: elements that lie 'step' apart. After the last element of a ring comes the first.
typedef struct resize_terms {
    const void *from;
    int64_t step, ring;
    sr_dtype type;
} resize_terms;

// Sums at most SR_REFERENCE_TERMS terms, of 'vectors' vectors, the last of which has n elements.
// Returns where the next term is.
SR_INLINE int64_t resize_leaf(const resize_terms *t, int64_t at, const float *weight, int64_t count,
                              int vectors, int n, sr_vf *sum) {
    SR_UNROLL
    for (int v = 0; v < vectors; v++)
        sum[v] = sr_v_zero();
    for (int64_t k = 0; k < count; k++) {
        const sr_vf w = sr_v_set(weight[k]);
        SR_UNROLL
        for (int v = 0; v < vectors; v++) {
            const sr_vf x = sr_v_get(t->from, at + v * SR_ELEMENTS, n, t->type);
            sum[v] = sr_v_add(sum[v], sr_v_mul(w, x));
        }
        at += t->step;
        at = at < t->ring ? at : at - t->ring;
    }
    return at;
}

// The same of any number of terms. tree: scratch for its rows, of as many vectors.
SR_INLINE void resize_sum(const resize_terms *t, int64_t at, const float *weight, int64_t count,
                          int vectors, int n, float *tree, sr_vf *sum) {
    if (count <= SR_REFERENCE_TERMS) {
        (void)resize_leaf(t, at, weight, count, vectors, n, sum);
        return;
    }
    sr_row_tree rows = {tree, vectors * SR_ELEMENTS, 0};
    for (int64_t k = 0; k < count; k += SR_REFERENCE_TERMS) {
        if (k > 0)
            sr_row_tree_push(&rows);
        at = resize_leaf(t, at, weight + k, sr_x86_min(SR_REFERENCE_TERMS, count - k), vectors, n,
                         sum);
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            sr_v_store(tree + v * SR_ELEMENTS, sum[v]);
    }
    sr_row_tree_total(&rows);
    SR_UNROLL
    for (int v = 0; v < vectors; v++)
        sum[v] = sr_v_load(tree + v * SR_ELEMENTS);
}

// The sums of neighbouring channels over some columns. Writes whole vectors.
SR_INLINE void resize_channels(const resize_terms *x, int64_t at, const float *weight,
                               int64_t count, int vectors, int n, float *tree, float *line) {
    sr_vf sum[SR_X86_RESIZE_VECTORS];
    resize_sum(x, at, weight, count, vectors, n, tree, sum);
    SR_UNROLL
    for (int v = 0; v < vectors; v++)
        sr_v_store(line + v * SR_ELEMENTS, sum[v]);
}

// The sums of all channels of a column. The last vector reads and writes elements of the next
// pixel, too, whose sums are written later; only at the end of the pictures there are none to be
// read.
SR_INLINE void resize_column(const sr_x86_resize *s, const resize_terms *x, int64_t at,
                             const float *weight, int64_t count, float *tree, float *line) {
    const int64_t readable = s->elements - at - (count - 1) * x->step; // of the last term
    int64_t vectors = 0;
    for (int64_t c = 0; c < s->c; c += vectors * SR_ELEMENTS) {
        const int64_t left = s->c - c;
        vectors = sr_x86_min(sr_x86_ceil_div(left, SR_ELEMENTS), SR_X86_RESIZE_VECTORS);
        if (c + vectors * SR_ELEMENTS > readable) {
            vectors = 1;
            resize_channels(x, at + c, weight, count, 1, (int)sr_x86_min(left, SR_ELEMENTS), tree,
                            line + c);
        } else if (vectors == 1) {
            resize_channels(x, at + c, weight, count, 1, SR_ELEMENTS, tree, line + c);
        } else if (vectors == 2) {
            resize_channels(x, at + c, weight, count, 2, SR_ELEMENTS, tree, line + c);
        } else if (vectors == 3) {
            resize_channels(x, at + c, weight, count, 3, SR_ELEMENTS, tree, line + c);
        } else {
            resize_channels(x, at + c, weight, count, SR_X86_RESIZE_VECTORS, SR_ELEMENTS, tree,
                            line + c);
        }
    }
}

// The sums over columns of a row that begins at element 'row'.
SR_INLINE void resize_line(const sr_x86_resize *s, const void *from, int64_t row,
                           sr_x86_range columns, float *tree, float *line, sr_dtype type) {
    const resize_terms x = {from, s->c, INT64_MAX, type};
    for (int64_t column = columns.begin; column < columns.end; column++, line += s->c) {
        const sr_resize_span span = s->columns.span[column];
        resize_column(s, &x, row + span.first * s->c, s->columns.weight + column * s->columns.most,
                      span.count, tree, line);
    }
}

// The sums over lines, the first of which is at 'at', of 'width' elements: y from element i on.
SR_INLINE void resize_row(const resize_terms *lines, int64_t at, const float *weight, int64_t count,
                          int64_t width, float *tree, void *y, int64_t i, sr_dtype type) {
    sr_vf sum[SR_X86_RESIZE_VECTORS];
    int64_t c = 0;
    for (; c + SR_X86_RESIZE_VECTORS * SR_ELEMENTS <= width;
         c += SR_X86_RESIZE_VECTORS * SR_ELEMENTS) {
        resize_sum(lines, at + c, weight, count, SR_X86_RESIZE_VECTORS, SR_ELEMENTS, tree, sum);
        SR_UNROLL
        for (int v = 0; v < SR_X86_RESIZE_VECTORS; v++)
            sr_v_put(y, i + c + v * SR_ELEMENTS, sum[v], SR_ELEMENTS, type);
    }
    for (; c < width; c += SR_ELEMENTS) {
        resize_sum(lines, at + c, weight, count, 1, SR_ELEMENTS, tree, sum);
        sr_v_put(y, i + c, sum[0], (int)sr_x86_min(width - c, SR_ELEMENTS), type);
    }
}

// Spans of rows are in the order of the rows and have at most as many rows as there are lines: row
// r is line r % lines, until no further row of the output needs it.
SR_INLINE void resize_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                            sr_dtype type) {
    const sr_x86_resize *s = args->state;
    const sr_x86_resize_side *high = &s->rows, *wide = &s->columns;
    const int64_t n = block / s->column_parts / s->row_parts;
    const sr_x86_range columns =
        sr_x86_share(wide->positions, block % s->column_parts, s->column_parts);
    const sr_x86_range rows =
        sr_x86_share(high->positions, block / s->column_parts % s->row_parts, s->row_parts);
    const int64_t width = (columns.end - columns.begin) * s->c;
    float *lines = worker->scratch, *tree = lines + high->most * s->pitch;
    const resize_terms terms = {lines, s->pitch, high->most * s->pitch, SR_F32};
    int64_t next = 0; // the row of the next line to compute
    for (int64_t row = rows.begin; row < rows.end; row++) {
        const sr_resize_span span = high->span[row];
        next = next < span.first ? span.first : next;
        for (; next < span.first + span.count; next++)
            resize_line(s, args->p[0], (n * high->source + next) * wide->source * s->c, columns,
                        tree, lines + next % high->most * s->pitch, type);
        resize_row(&terms, span.first % high->most * s->pitch, high->weight + row * high->most,
                   span.count, width, tree, args->p[1],
                   ((n * high->positions + row) * wide->positions + columns.begin) * s->c, type);
    }
}

SR_X86_TYPED(resize, resize_block(args, block, worker, type))

#endif
