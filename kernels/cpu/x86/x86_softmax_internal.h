// SPDX-License-Identifier: Apache-2.0
// Softmax over rows, its logarithm, gradients, and logsumexp, with the reference's bits. The
// interleaved sums of a chunk are one vector, and exp comes from x86_double_internal.h.
#ifndef SR_KERNELS_CPU_X86_SOFTMAX_INTERNAL_H
#define SR_KERNELS_CPU_X86_SOFTMAX_INTERNAL_H

#include <math.h>

#include "kernels/base/math.h"
#include "kernels/cpu/x86/x86_double_internal.h"
#include "kernels/reference_order.h"

_Static_assert(SR_REFERENCE_WAYS == SR_ELEMENTS, "a vector has the interleaved sums of a chunk");

// ---- Sums over a row ----

#define CHUNK_LEVELS 32 // of the tree of the sums of chunks

// The sums of successive chunks: if bit k of their number is set, level k has the sum of 2^k of
// them.
typedef struct chunk_tree {
    float level[CHUNK_LEVELS];
    int64_t number;
} chunk_tree;

SR_INLINE void chunk_push(chunk_tree *t, float sum) {
    int k = 0;
    for (int64_t bits = t->number++; bits & 1; bits >>= 1)
        sum = t->level[k++] + sum;
    t->level[k] = sum;
}

SR_INLINE float chunk_total(const chunk_tree *t) {
    float sum = 0;
    bool any = false;
    int k = 0;
    for (int64_t bits = t->number; bits > 0; bits >>= 1, k++) {
        if (!(bits & 1))
            continue;
        sum = any ? t->level[k] + sum : t->level[k];
        any = true;
    }
    return sum;
}

// The terms of a sum over a row: exp(x - max), x by, or x - max.
typedef enum row_terms { ROW_EXPONENTIALS, ROW_PRODUCTS, ROW_DIFFERENCES } row_terms;

typedef struct softmax_row {
    const void *x, *by;
    int64_t first, count; // elements of both
    float max;
    sr_dtype type;
} softmax_row;

SR_INLINE sr_vf row_terms_at(const softmax_row *r, row_terms terms, int64_t i, int n) {
    const sr_vf x = sr_v_get(r->x, r->first + i, n, r->type);
    if (terms == ROW_PRODUCTS)
        return sr_v_mul(x, sr_v_get(r->by, r->first + i, n, r->type));
    const sr_vf difference = sr_v_sub(x, sr_v_set(r->max));
    return terms == ROW_EXPONENTIALS ? sr_v_expf(difference) : difference;
}

// Number of elements from element i to the end, at most a vector.
SR_INLINE int row_left(int64_t i, int64_t end) {
    return end - i < SR_ELEMENTS ? (int)(end - i) : SR_ELEMENTS;
}

// The sum of the terms, which are stored in keep[count] unless it is NULL. Zeros replace terms
// beyond the end; they change no bit, since no sum is -0.
SR_INLINE float row_sum(const softmax_row *r, row_terms terms, float *keep) {
    chunk_tree chunks = {.number = 0};
    for (int64_t begin = 0; begin < r->count; begin += SR_REFERENCE_CHUNK) {
        const int64_t end = sr_x86_min(r->count, begin + SR_REFERENCE_CHUNK);
        sr_vf ways = sr_v_zero();
        int64_t i = begin;
        for (; i + SR_ELEMENTS <= end; i += SR_ELEMENTS) {
            const sr_vf term = row_terms_at(r, terms, i, SR_ELEMENTS);
            if (keep)
                sr_v_store(keep + i, term);
            ways = sr_v_add(ways, term);
        }
        if (i < end) {
            const int n = (int)(end - i);
            const sr_vf term = row_terms_at(r, terms, i, n);
            if (keep)
                sr_v_store_first(keep + i, term, n);
            ways = sr_v_add(ways, sr_v_pick(sr_v_first(n), term, sr_v_zero()));
        }
        chunk_push(&chunks, sr_v_sum(ways));
    }
    return chunk_total(&chunks);
}

// The maximum; NaN if the first element is NaN.
SR_INLINE float row_max(const softmax_row *r) {
    float element[SR_ELEMENTS], max;
    sr_v_store(element, sr_v_get(r->x, r->first, 1, r->type));
    const sr_vf first = sr_v_set(element[0]);
    sr_vf most = first;
    for (int64_t i = 0; i < r->count; i += SR_ELEMENTS) {
        const int n = row_left(i, r->count);
        const sr_vf read = sr_v_get(r->x, r->first + i, n, r->type);
        const sr_vf x = n == SR_ELEMENTS ? read : sr_v_pick(sr_v_first(n), read, first);
        most = sr_v_pick(sr_v_gt(x, most), x, most);
    }
    sr_v_store(element, most);
    max = element[0];
    for (int k = 1; k < SR_ELEMENTS; k++)
        max = element[k] > max ? element[k] : max;
    return max;
}

// y[first ..] = the terms that row_sum kept, divided by their sum.
SR_INLINE void row_divide(const float *term, float total, int64_t count, void *y, int64_t first,
                          sr_dtype type) {
    const sr_vf sum = sr_v_set(total);
    for (int64_t i = 0; i < count; i += SR_ELEMENTS) {
        const int n = row_left(i, count);
        sr_v_put(y, first + i, sr_v_div(sr_v_get(term, i, n, SR_F32), sum), n, type);
    }
}

// ---- Kernels ----

typedef void (*softmax_fn)(const sr_kernel_args *args, softmax_row *r, int64_t row, float *scratch);

SR_INLINE void softmax_at(const sr_kernel_args *args, softmax_row *r, int64_t row, float *scratch) {
    (void)row;
    float *e = r->type == SR_F32 ? (float *)args->p[1] + r->first : scratch;
    r->max = row_max(r);
    row_divide(e, row_sum(r, ROW_EXPONENTIALS, e), r->count, args->p[1], r->first, r->type);
}

SR_INLINE void log_softmax_at(const sr_kernel_args *args, softmax_row *r, int64_t row,
                              float *scratch) {
    (void)row;
    (void)scratch;
    r->max = row_max(r);
    const sr_vf max = sr_v_set(r->max), lse = sr_v_set(sr_logf(row_sum(r, ROW_EXPONENTIALS, NULL)));
    for (int64_t i = 0; i < r->count; i += SR_ELEMENTS) {
        const int n = row_left(i, r->count);
        const sr_vf x = sr_v_get(r->x, r->first + i, n, r->type);
        sr_v_put(args->p[1], r->first + i, sr_v_sub(sr_v_sub(x, max), lse), n, r->type);
    }
}

SR_INLINE void logsumexp_at(const sr_kernel_args *args, softmax_row *r, int64_t row,
                            float *scratch) {
    (void)scratch;
    const float max = row_max(r);
    r->max = max - max == 0 ? max : 0.0f; // never subtract infinities
    const float lse = r->max + sr_logf(row_sum(r, ROW_EXPONENTIALS, NULL));
    sr_v_put(args->p[1], row, sr_v_set(lse), 1, r->type);
}

SR_INLINE void softmax_grad_at(const sr_kernel_args *args, softmax_row *r, int64_t row,
                               float *scratch) {
    (void)row;
    (void)scratch;
    r->by = args->p[1];
    const sr_vf sum = sr_v_set(row_sum(r, ROW_PRODUCTS, NULL));
    for (int64_t i = 0; i < r->count; i += SR_ELEMENTS) {
        const int n = row_left(i, r->count);
        const sr_vf y = sr_v_get(r->x, r->first + i, n, r->type);
        const sr_vf dy = sr_v_get(r->by, r->first + i, n, r->type);
        sr_v_put(args->p[2], r->first + i, sr_v_mul(y, sr_v_sub(dy, sum)), n, r->type);
    }
}

SR_INLINE void log_softmax_grad_at(const sr_kernel_args *args, softmax_row *r, int64_t row,
                                   float *scratch) {
    (void)row;
    (void)scratch;
    const void *log_y = r->x;
    r->x = args->p[1];
    const sr_vf sum = sr_v_set(row_sum(r, ROW_DIFFERENCES, NULL));
    for (int64_t i = 0; i < r->count; i += SR_ELEMENTS) {
        const int n = row_left(i, r->count);
        const sr_vf y = sr_v_expf(sr_v_get(log_y, r->first + i, n, r->type));
        const sr_vf dy = sr_v_get(r->x, r->first + i, n, r->type);
        sr_v_put(args->p[2], r->first + i, sr_v_sub(dy, sr_v_mul(y, sum)), n, r->type);
    }
}

SR_INLINE void softmax_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                             softmax_fn at, sr_dtype type) {
    const sr_rows_params *p = args->params;
    const sr_x86_range rows = sr_x86_block_range(p->rows, block, sr_x86_softmax_rows(p->channels));
    for (int64_t row = rows.begin; row < rows.end; row++) {
        softmax_row r = {
            .x = args->p[0], .first = row * p->channels, .count = p->channels, .type = type};
        at(args, &r, row, worker->scratch);
    }
}

#define SOFTMAX(name) SR_X86_TYPED(name, softmax_block(args, block, worker, name##_at, type))
SOFTMAX(softmax)
SOFTMAX(softmax_grad)
SOFTMAX(log_softmax)
SOFTMAX(log_softmax_grad)
SOFTMAX(logsumexp)

#endif
