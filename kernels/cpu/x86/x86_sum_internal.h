// SPDX-License-Identifier: Apache-2.0
// sum_to over neighbouring dimensions other than the last ones: x[outer,terms,inner], or x w,
// becomes y[outer,inner]. The order, and so the bits, are those of the reference: leaves of
// SR_REFERENCE_TERMS terms, each summed in registers for a few vectors of columns, and joined by a
// binary counter.
//
// A block computes some whole sums. If there are few sums of many terms, it computes complete
// leaves of one sum, a power of two of them, which stage 1 joins.
#ifndef SR_KERNELS_CPU_X86_SUM_INTERNAL_H
#define SR_KERNELS_CPU_X86_SUM_INTERNAL_H

#include "kernels/cpu/x86/x86_rows_internal.h"
#include "kernels/cpu/x86/x86_tree_internal.h"

#define ST_VECTORS 4 // vectors of columns that are summed at a time

// The terms: x, or x w. The product is rounded before it is added, as in the reference.
typedef struct st_terms {
    const void *x, *w;
    sr_dtype type;
} st_terms;

SR_INLINE sr_vf st_term(const st_terms *t, int64_t i, int n) {
    const sr_vf x = sr_v_get(t->x, i, n, t->type);
    return t->w ? sr_v_mul(x, sr_v_get(t->w, i, n, t->type)) : x;
}

// Sums columns c .. of a leaf: 'rows' rows, the first of which begins at element i; the last vector
// has n elements.
SR_INLINE void st_columns(const st_terms *terms, int64_t i, int64_t rows, int64_t inner,
                          int vectors, int n, float *sum) {
    sr_vf s[ST_VECTORS];
    SR_UNROLL
    for (int v = 0; v < vectors; v++)
        s[v] = sr_v_zero();
    for (int64_t t = 0; t < rows; t++, i += inner) {
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            s[v] = sr_v_add(s[v], st_term(terms, i + v * SR_ELEMENTS, n));
    }
    SR_UNROLL
    for (int v = 0; v < vectors; v++)
        sr_v_store(sum + v * SR_ELEMENTS, s[v]);
}

SR_INLINE void st_leaf(const st_terms *terms, int64_t i, int64_t rows, int64_t inner, float *sum) {
    int64_t c = 0;
    for (; c + ST_VECTORS * SR_ELEMENTS <= inner; c += ST_VECTORS * SR_ELEMENTS)
        st_columns(terms, i + c, rows, inner, ST_VECTORS, SR_ELEMENTS, sum + c);
    for (; c < inner; c += SR_ELEMENTS)
        st_columns(terms, i + c, rows, inner, 1, elements_left(c, inner), sum + c);
}

// Writes the sum of 'rows' rows, the first of which begins at element i, to sum[padded inner]. The
// levels of the tree follow it in memory.
SR_INLINE void st_sum(const st_terms *terms, int64_t i, int64_t rows, int64_t inner, float *sum) {
    sr_row_tree tree = {sum, sr_x86_padded(inner), 0};
    for (int64_t t = 0; t < rows; t += SR_REFERENCE_TERMS) {
        if (t > 0)
            sr_row_tree_push(&tree);
        st_leaf(terms, i + t * inner, sr_x86_min(SR_REFERENCE_TERMS, rows - t), inner, sum);
    }
    sr_row_tree_total(&tree);
}

SR_INLINE void st_put(void *y, int64_t i, const float *sum, sr_x86_range columns, sr_dtype type) {
    for (int64_t c = columns.begin; c < columns.end; c += SR_ELEMENTS)
        sr_v_put(y, i + c, sr_v_load(sum + c), elements_left(c, columns.end), type);
}

// Stage 0.
SR_INLINE void sum_to_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                            sr_dtype type) {
    const sr_x86_sum s = sr_x86_sum_of(args->params);
    const st_terms terms = {args->p[0], args->p[1], type};
    float *sum = worker->scratch;
    if (s.chunks == 1) {
        const sr_x86_range r = sr_x86_block_range(s.outer, block, s.group);
        for (int64_t o = r.begin; o < r.end; o++) {
            st_sum(&terms, o * s.terms * s.inner, s.terms, s.inner, sum);
            st_put(args->p[2], o * s.inner, sum, (sr_x86_range){0, s.inner}, type);
        }
        return;
    }
    const sr_x86_range r = sr_x86_block_range(s.terms, block % s.chunks, s.chunk);
    st_sum(&terms, (block / s.chunks * s.terms + r.begin) * s.inner, r.end - r.begin, s.inner, sum);
    const int64_t padded = sr_x86_padded(s.inner);
    memcpy((float *)args->workspace + block * padded, sum, (size_t)padded * sizeof *sum);
}

// Stage 1: some columns of a sum.
SR_INLINE void sum_to_chunks(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_x86_sum s = sr_x86_sum_of(args->params);
    const int64_t padded = sr_x86_padded(s.inner);
    const int64_t ranges = sr_x86_ceil_div(s.inner, SR_X86_CHANNEL_BLOCK), o = block / ranges;
    const sr_x86_range r = sr_x86_block_range(s.inner, block % ranges, SR_X86_CHANNEL_BLOCK);
    float *partial = (float *)args->workspace + o * s.chunks * padded;
    tree_add(partial, s.chunks, padded, r);
    st_put(args->p[2], o * s.inner, partial, r, type);
}

SR_X86_TYPED(sum_to, sum_to_block(args, block, worker, type))
SR_X86_TYPED(sum_to_join, sum_to_chunks(args, block, type))

#endif
