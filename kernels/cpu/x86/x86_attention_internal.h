// SPDX-License-Identifier: Apache-2.0
// Multi-head attention by tiles of queries: products with all keys, softmax, and products with all
// values, one head after the other. Gradients recompute the softmax from log sum exp (Dao et al.
// 2022).
//
// Keys and values of the head are in scratch as fp32, in panels of 64 columns: transposed if the
// sums run over their channels. A product keeps a tile of results in registers while it runs over
// the terms; gradients of keys and values stay in scratch while it runs over the queries. So each
// sum is one chain of fused multiply-adds in order, whatever the tile. A row of the softmax is
// summed as sixteen interleaved sums, each a tree over chains of at most AT_TERMS terms. The
// gradient of a bias is summed in the same way over the batches that share it, with
// SR_REFERENCE_TERMS.
#ifndef SR_KERNELS_CPU_X86_ATTENTION_INTERNAL_H
#define SR_KERNELS_CPU_X86_ATTENTION_INTERNAL_H

#include <math.h>

#include "kernels/base/math.h"
#include "kernels/cpu/x86/x86_activation_internal.h"
#include "kernels/cpu/x86/x86_tree_internal.h"

#define AT_QUERIES SR_X86_ATTENTION_QUERIES
#define AT_PANEL SR_X86_ATTENTION_PANEL
#define AT_TERMS 64      // 1,024 keys
#if defined(__AVX512F__) // as many results as registers have room for
#define AT_ROWS 6
#define AT_VECTORS 4
#else
#define AT_ROWS 2
#define AT_VECTORS 2
#endif
_Static_assert(AT_PANEL % (AT_VECTORS * SR_ELEMENTS) == 0, "panels are whole tiles");

// ---- Products ----

// c[row][column] = sum over terms of a[row][term] b[term][column], added to c if 'adds'. The
// columns are whole vectors.
typedef struct at_product {
    const float *a; // element (row, term) is a[row a_row + term a_term]
    int64_t a_row, a_term;
    const float *b; // panels; element (term, column of the panel) is at term pitch + column
    int64_t panel_step, pitch;
    float *c; // [rows][c_row]
    int64_t c_row;
    int64_t rows, terms, columns;
    bool adds;
} at_product;

// Computes AT_ROWS rows from 'row' on. Past the end, the last row is computed again.
SR_INLINE void at_tile(const at_product *m, const float *b, int64_t pitch, int64_t row,
                       int64_t column, int vectors) {
    sr_vf sum[AT_ROWS][AT_VECTORS];
    const float *a[AT_ROWS];
    float *c[AT_ROWS];
    SR_UNROLL
    for (int r = 0; r < AT_ROWS; r++) {
        const int64_t own = sr_x86_min(row + r, m->rows - 1);
        a[r] = m->a + own * m->a_row;
        c[r] = m->c + own * m->c_row + column;
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[r][v] = m->adds ? sr_v_load(c[r] + v * SR_ELEMENTS) : sr_v_zero();
    }
    for (int64_t k = 0, at = 0; k < m->terms; k++, at += m->a_term, b += pitch) {
        sr_vf x[AT_VECTORS];
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            x[v] = sr_v_load(b + v * SR_ELEMENTS);
        SR_UNROLL
        for (int r = 0; r < AT_ROWS; r++) {
            const sr_vf factor = sr_v_set(a[r][at]);
            SR_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = sr_v_fma(factor, x[v], sum[r][v]);
        }
    }
    SR_UNROLL
    for (int r = 0; r < AT_ROWS; r++) {
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            sr_v_store(c[r] + v * SR_ELEMENTS, sum[r][v]);
    }
}

SR_INLINE void at_columns(const at_product *m, const float *b, int64_t pitch, int64_t column,
                          int vectors) {
    for (int64_t row = 0; row < m->rows; row += AT_ROWS)
        at_tile(m, b, pitch, row, column, vectors);
}

__attribute__((noinline, unused)) static void at_multiply(const at_product *m) {
    for (int64_t first = 0; first < m->columns; first += AT_PANEL) {
        const int64_t width = sr_x86_min(AT_PANEL, m->columns - first);
        const float *b = m->b + first / AT_PANEL * m->panel_step;
        const int64_t pitch = m->pitch > 0 ? m->pitch : width;
        int64_t at = 0;
        for (; at + AT_VECTORS * SR_ELEMENTS <= width; at += AT_VECTORS * SR_ELEMENTS)
            at_columns(m, b + at, pitch, first + at, AT_VECTORS);
        for (; at < width; at += SR_ELEMENTS)
            at_columns(m, b + at, pitch, first + at, 1);
    }
}

// ---- Rows of a head in scratch ----

// Tokens of a head: rows of 'depth' elements, 'stride' apart.
typedef struct at_rows {
    void *base;
    int64_t first, stride, depth;
} at_rows;

// to[rows][padded depth] = the rows, each padded with zeros.
SR_INLINE void at_copy(const at_rows *from, int64_t rows, float *to, sr_dtype type) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < from->depth; c += SR_ELEMENTS, to += SR_ELEMENTS)
            sr_v_store(to, sr_v_get(from->base, from->first + i * from->stride + c,
                                    (int)sr_x86_min(SR_ELEMENTS, from->depth - c), type));
}

// The same as panels [panel][row][column].
SR_INLINE void at_pack(const at_rows *from, int64_t rows, float *to, sr_dtype type) {
    for (int64_t c = 0; c < from->depth; c += AT_PANEL) {
        at_rows part = *from;
        part.first += c;
        part.depth = sr_x86_min(AT_PANEL, from->depth - c);
        at_copy(&part, rows, to, type);
        to += rows * AT_PANEL;
    }
}

// The transposed rows as panels [panel][channel][row of the panel], with zeros beyond the last row.
SR_INLINE void at_pack_transposed(const at_rows *from, int64_t rows, float *to, sr_dtype type) {
    enum { GROUP = 4 };
    for (int64_t first = 0; first < rows; first += AT_PANEL) {
        const int64_t left = sr_x86_min(AT_PANEL, rows - first), width = sr_x86_padded(left);
        for (int64_t row = 0; row < width; row += GROUP) {
            for (int64_t c = 0; c < from->depth; c += SR_ELEMENTS) {
                const int n = (int)sr_x86_min(SR_ELEMENTS, from->depth - c);
                sr_vf r[GROUP];
                for (int i = 0; i < GROUP; i++) {
                    const int64_t at = from->first + (first + row + i) * from->stride + c;
                    r[i] = row + i < left ? sr_v_get(from->base, at, n, type) : sr_v_zero();
                }
                sr_v_put_transposed(r, n, to + c * width + row, width);
            }
        }
        to += from->depth * AT_PANEL;
    }
}

// y = scale x, rounded
SR_INLINE void at_put(const at_rows *to, int64_t rows, const float *x, float scale, sr_dtype type) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < to->depth; c += SR_ELEMENTS, x += SR_ELEMENTS)
            sr_v_put(to->base, to->first + i * to->stride + c,
                     sr_v_mul(sr_v_load(x), sr_v_set(scale)),
                     (int)sr_x86_min(SR_ELEMENTS, to->depth - c), type);
}

// ---- A head ----

typedef struct at_head {
    const sr_attention_params *p;
    at_rows q, k, v, y, dy;
    const float *bias, *lse; // [queries][keys]; [queries]
    int64_t keys, depth;     // padded to whole vectors
} at_head;

SR_INLINE at_rows at_rows_of(const sr_attention_params *p, void *base, int64_t batch, int64_t head,
                             int64_t tokens) {
    const int64_t stride = p->heads * p->depth;
    return (at_rows){base, batch * tokens * stride + head * p->depth, stride, p->depth};
}

SR_INLINE at_head at_head_of(const sr_attention_params *p, void *const *args, int64_t batch,
                             int64_t head, bool gradient) {
    at_head h = {.p = p, .keys = sr_x86_padded(p->keys), .depth = sr_x86_padded(p->depth)};
    h.q = at_rows_of(p, args[0], batch, head, p->queries);
    h.k = at_rows_of(p, args[1], batch, head, p->keys);
    h.v = at_rows_of(p, args[2], batch, head, p->keys);
    if (p->biases > 0)
        h.bias = (const float *)args[gradient ? 6 : 3] +
                 (batch % p->biases * p->heads + head) * p->queries * p->keys;
    h.y = at_rows_of(p, args[gradient ? 3 : 4], batch, head, p->queries);
    if (gradient) {
        h.lse = (const float *)args[4] + (batch * p->heads + head) * p->queries;
        h.dy = at_rows_of(p, args[5], batch, head, p->queries);
    }
    return h;
}

SR_INLINE at_rows at_from(const at_rows *rows, int64_t token) {
    at_rows from = *rows;
    from.first += token * rows->stride;
    return from;
}

// The scores of 16 keys: scale product + bias; minus infinity beyond the last key.
SR_INLINE sr_vf at_scores(const at_head *h, const float *product, int64_t query, int64_t key) {
    const int n = (int)sr_x86_min(SR_ELEMENTS, h->p->keys - key);
    const sr_vf bias =
        h->bias ? sr_v_get(h->bias, query * h->p->keys + key, n, SR_F32) : sr_v_zero();
    const sr_vf score = sr_v_fma(sr_v_load(product + key), sr_v_set((float)h->p->scale), bias);
    return n == SR_ELEMENTS ? score : sr_v_pick(sr_v_first(n), score, sr_v_set(-INFINITY));
}

// ---- attention: q, k, v, bias, y, lse ----

// Replaces the products of a query by exp(score - max). Returns their sum.
SR_INLINE float at_softmax(const at_head *h, float *row, int64_t query, float *lse) {
    sr_vf most = sr_v_set(-INFINITY), sum = sr_v_zero();
    for (int64_t j = 0; j < h->p->keys; j += SR_ELEMENTS) {
        const sr_vf score = at_scores(h, row, query, j);
        most = sr_v_max(most, score);
        sr_v_store(row + j, score);
    }
    float element[SR_ELEMENTS], max = -INFINITY;
    sr_v_store(element, most);
    for (int i = 0; i < SR_ELEMENTS; i++)
        max = element[i] > max ? element[i] : max;
    sr_v_tree tree;
    sr_v_tree_begin(&tree);
    for (int64_t j = 0; j < h->p->keys; j += SR_ELEMENTS) {
        const sr_vf e = exp_negative(sr_v_sub(sr_v_load(row + j), sr_v_set(max)));
        sum = sr_v_add(sr_v_tree_room(&tree, sum, AT_TERMS), e);
        sr_v_store(row + j, e);
    }
    const float total = sr_v_sum(sr_v_tree_total(&tree, sum));
    *lse = max + sr_logf(total);
    return total;
}

// y = x / sum, rounded
SR_INLINE void at_put_quotients(const at_rows *to, const float *x, float sum, sr_dtype type) {
    for (int64_t c = 0; c < to->depth; c += SR_ELEMENTS)
        sr_v_put(to->base, to->first + c, sr_v_div(sr_v_load(x + c), sr_v_set(sum)),
                 (int)sr_x86_min(SR_ELEMENTS, to->depth - c), type);
}

// Block: some queries of a head.
SR_INLINE void at_attention(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                            sr_dtype type) {
    const sr_attention_params *p = args->params;
    const int64_t blocks = sr_x86_attention_blocks(p), number = block / blocks;
    const at_head h = at_head_of(p, args->p, number / p->heads, number % p->heads, false);
    const sr_x86_range r = sr_x86_block_range(p->queries, block % blocks, SR_X86_ATTENTION_BLOCK);
    float *keys = worker->scratch, *values = keys + p->depth * h.keys;
    float *q = values + p->keys * h.depth, *s = q + AT_QUERIES * h.depth;
    float *y = s + AT_QUERIES * h.keys, *lse = (float *)args->p[5] + number * p->queries;
    at_pack_transposed(&h.k, p->keys, keys, type);
    at_pack(&h.v, p->keys, values, type);
    for (int64_t i = r.begin; i < r.end; i += AT_QUERIES) {
        const int64_t rows = sr_x86_min(AT_QUERIES, r.end - i);
        const at_rows from = at_from(&h.q, i);
        float sum[AT_QUERIES];
        at_copy(&from, rows, q, type);
        at_multiply(&(at_product){q, h.depth, 1, keys, p->depth * AT_PANEL, 0, s, h.keys, rows,
                                  p->depth, h.keys, false});
        for (int64_t k = 0; k < rows; k++)
            sum[k] = at_softmax(&h, s + k * h.keys, i + k, lse + i + k);
        at_multiply(&(at_product){s, h.keys, 1, values, p->keys * AT_PANEL, 0, y, h.depth, rows,
                                  p->keys, h.depth, false});
        for (int64_t k = 0; k < rows; k++) {
            const at_rows to = at_from(&h.y, i + k);
            at_put_quotients(&to, y + k * h.depth, sum[k], type);
        }
    }
}
SR_X86_TYPED(attention, at_attention(args, block, worker, type))

// ---- Gradients: q, k, v, y, lse, dy, bias, ... ----

// The scratch of the gradients of some queries.
typedef struct at_scratch {
    float *keys, *values;         // transposed
    float *q, *dy;                // [queries][depth]
    float *weight, *dscore, *end; // [queries][keys]
} at_scratch;

SR_INLINE at_scratch at_scratch_of(const at_head *h, void *memory) {
    at_scratch s = {.keys = memory};
    s.values = s.keys + h->p->depth * h->keys;
    s.q = s.values + h->p->depth * h->keys;
    s.dy = s.q + AT_QUERIES * h->depth;
    s.weight = s.dy + AT_QUERIES * h->depth;
    s.dscore = s.weight + AT_QUERIES * h->keys;
    s.end = s.dscore + AT_QUERIES * h->keys;
    return s;
}

// The sum of dy y of a query, with dy in fp32.
SR_INLINE float at_mean(const at_head *h, const float *dy, int64_t query, sr_dtype type) {
    sr_vf sum = sr_v_zero();
    for (int64_t c = 0; c < h->p->depth; c += SR_ELEMENTS)
        sum = sr_v_fma(sr_v_load(dy + c),
                       sr_v_get(h->y.base, h->y.first + query * h->y.stride + c,
                                (int)sr_x86_min(SR_ELEMENTS, h->p->depth - c), type),
                       sum);
    return sr_v_sum(sum);
}

// Weights and gradients of scores of queries first .. first + rows - 1.
SR_INLINE void at_weights(const at_head *h, const at_scratch *s, int64_t first, int64_t rows,
                          sr_dtype type) {
    const int64_t depth = h->p->depth;
    const at_rows q = at_from(&h->q, first), dy = at_from(&h->dy, first);
    at_copy(&q, rows, s->q, type);
    at_copy(&dy, rows, s->dy, type);
    at_multiply(&(at_product){s->q, h->depth, 1, s->keys, depth * AT_PANEL, 0, s->weight, h->keys,
                              rows, depth, h->keys, false});
    at_multiply(&(at_product){s->dy, h->depth, 1, s->values, depth * AT_PANEL, 0, s->dscore,
                              h->keys, rows, depth, h->keys, false});
    for (int64_t i = 0; i < rows; i++) {
        float *weight = s->weight + i * h->keys, *dscore = s->dscore + i * h->keys;
        const sr_vf mean = sr_v_set(at_mean(h, s->dy + i * h->depth, first + i, type)),
                    lse = sr_v_set(h->lse[first + i]);
        for (int64_t j = 0; j < h->p->keys; j += SR_ELEMENTS) {
            const sr_vf w = exp_negative(sr_v_sub(at_scores(h, weight, first + i, j), lse));
            sr_v_store(weight + j, w);
            sr_v_store(dscore + j, sr_v_mul(w, sr_v_sub(sr_v_load(dscore + j), mean)));
        }
    }
}

// Block: a head.
SR_INLINE void at_gradient(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                           sr_dtype type) {
    const sr_attention_params *p = args->params;
    const int64_t batch = block / p->heads, head = block % p->heads;
    const at_head h = at_head_of(p, args->p, batch, head, true);
    const at_scratch s = at_scratch_of(&h, worker->scratch);
    const at_rows dk = at_rows_of(p, args->p[8], batch, head, p->keys),
                  dv = at_rows_of(p, args->p[9], batch, head, p->keys);
    const int64_t all = p->keys * h.depth;
    float *rows_of_k = s.end, *sum_k = rows_of_k + all, *sum_v = sum_k + all, *sum_q = sum_v + all;
    at_pack_transposed(&h.k, p->keys, s.keys, type);
    at_pack_transposed(&h.v, p->keys, s.values, type);
    at_pack(&h.k, p->keys, rows_of_k, type);
    memset(sum_k, 0, (size_t)(2 * all) * sizeof *sum_k);
    for (int64_t i = 0; i < p->queries; i += AT_QUERIES) {
        const int64_t rows = sr_x86_min(AT_QUERIES, p->queries - i);
        const at_rows dq = {args->p[7], h.q.first + i * h.q.stride, h.q.stride, p->depth};
        at_weights(&h, &s, i, rows, type);
        at_multiply(&(at_product){s.dscore, h.keys, 1, rows_of_k, p->keys * AT_PANEL, 0, sum_q,
                                  h.depth, rows, p->keys, h.depth, false});
        at_put(&dq, rows, sum_q, (float)p->scale, type);
        at_multiply(&(at_product){s.dscore, 1, h.keys, s.q, AT_PANEL, h.depth, sum_k, h.depth,
                                  p->keys, rows, h.depth, true});
        at_multiply(&(at_product){s.weight, 1, h.keys, s.dy, AT_PANEL, h.depth, sum_v, h.depth,
                                  p->keys, rows, h.depth, true});
    }
    at_put(&dk, p->keys, sum_k, (float)p->scale, type);
    at_put(&dv, p->keys, sum_v, 1.0f, type);
}
SR_X86_TYPED(attention_grad, at_gradient(args, block, worker, type))

// Block: some queries of a head of a bias.
SR_INLINE void at_bias_gradient(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                                sr_dtype type) {
    const sr_attention_params *p = args->params;
    const int64_t blocks = sr_x86_ceil_div(p->queries, AT_QUERIES), number = block / blocks;
    const sr_x86_range r = sr_x86_block_range(p->queries, block % blocks, AT_QUERIES);
    const int64_t rows = r.end - r.begin;
    float *sum = NULL, *out = (float *)args->p[7] + number * p->queries * p->keys;
    sr_row_tree tree = {.width = rows * sr_x86_padded(p->keys)};
    int64_t terms = 0;
    for (int64_t batch = number / p->heads; batch < p->batches; batch += p->biases, terms++) {
        const at_head h = at_head_of(p, args->p, batch, number % p->heads, true);
        const at_scratch s = at_scratch_of(&h, worker->scratch);
        at_pack_transposed(&h.k, p->keys, s.keys, type);
        at_pack_transposed(&h.v, p->keys, s.values, type);
        at_weights(&h, &s, r.begin, rows, type);
        tree.sum = sum = s.end;
        const bool begins = terms % SR_REFERENCE_TERMS == 0;
        if (begins && terms > 0)
            sr_row_tree_push(&tree);
        for (int64_t i = 0; i < tree.width; i += SR_ELEMENTS) {
            const sr_vf term = sr_v_load(s.dscore + i);
            sr_v_store(sum + i, begins ? term : sr_v_add(sr_v_load(sum + i), term));
        }
    }
    sr_row_tree_total(&tree);
    for (int64_t i = 0; i < rows; i++)
        memcpy(out + (r.begin + i) * p->keys, sum + i * sr_x86_padded(p->keys),
               (size_t)p->keys * sizeof *out);
}
SR_X86_TYPED(attention_bias_grad, at_bias_gradient(args, block, worker, type))

#endif
