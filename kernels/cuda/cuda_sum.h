// SPDX-License-Identifier: Apache-2.0
// The sums of numerics class "reference" in kernels (kernels/cpu/reference/reference_sum.inc): at
// most SR_REFERENCE_TERMS terms in order, and these sums by the binary tree on their numbers,
// ((0 + 1) + (2 + 3)) + ... . A tree may be cut where numbers are multiples of a power of two, and
// the sums of the parts be added by a tree in turn: the additions are the same.
#ifndef SR_KERNELS_CUDA_SUM_H
#define SR_KERNELS_CUDA_SUM_H

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/reference_order.h"

// Sums of neighbours.
template <int N> struct sr_sums {
    float at[N];

    friend __device__ sr_sums operator+(const sr_sums &a, const sr_sums &b) {
        sr_sums sum;
        SR_UNROLL
        for (int i = 0; i < N; i++)
            sum.at[i] = a.at[i] + b.at[i];
        return sum;
    }
};

// sum += weight x
template <int N>
static __device__ __forceinline__ void sr_add_weighted(float (&sum)[N], float weight,
                                                       const float (&x)[N]) {
    SR_UNROLL
    for (int k = 0; k < N; k++)
        sum[k] += weight * x[k];
}

// Sums that are formed one after the other, a binary counter: where bit k of the number of finished
// sums is set, level k has the sum of 2^k of them. For at most 2^LEVELS sums. All indices of levels
// are constants, so that they are registers.
template <int LEVELS, class S = float> struct sr_tree {
    S level[LEVELS > 0 ? LEVELS : 1];
    uint32_t number;

    __device__ sr_tree() : level(), number(0) {}

    // Finishes a sum.
    __device__ void push(const S &sum) {
        place<0>(sum);
        number++;
    }

    // The total with one more sum, which is not finished.
    __device__ S total(const S &sum) const { return join<0>(sum); }

  private:
    template <int K> __device__ void place(const S &sum) {
        if constexpr (K < LEVELS) {
            if (number >> K & 1)
                place<K + 1>(level[K] + sum);
            else
                level[K] = sum;
        }
    }

    template <int K> __device__ S join(const S &sum) const {
        if constexpr (K < LEVELS)
            return join<K + 1>(number >> K & 1 ? level[K] + sum : sum);
        return sum;
    }
};

// Neighbouring sums of terms that are added one after the other. Without levels they have at most
// SR_REFERENCE_TERMS terms.
template <int N, int LEVELS> struct sr_term_sums {
    sr_sums<N> leaf;
    sr_tree<LEVELS, sr_sums<N>> tree;
    int terms; // of the leaf

    __device__ sr_term_sums() : leaf(), tree(), terms(0) {}

    // Where the next term is added.
    __device__ float (&next())[N] {
        if constexpr (LEVELS > 0) {
            if (terms == SR_REFERENCE_TERMS) {
                tree.push(leaf);
                leaf = {};
                terms = 0;
            }
            terms++;
        }
        return leaf.at;
    }

    __device__ sr_sums<N> total() const { return tree.total(leaf); }
};

// The levels that kernels have: of vectors, so that they fit into registers, and of single
// elements, for 2^31 terms.
enum { SR_SHORT_LEVELS = 4, SR_LONG_LEVELS = 26 };

// Which of the kernels for sums of at most 'terms' terms are meant: without a tree, and otherwise
// whether a thread can have a vector.
static inline bool sr_needs_tree(int64_t terms) {
    return terms > SR_REFERENCE_TERMS;
}
static inline bool sr_fits_vectors(int64_t terms) {
    return terms <= SR_REFERENCE_TERMS << SR_SHORT_LEVELS;
}

enum { SR_CUDA_BATCH = 8 }; // sums of a tree that a thread loads at a time

// The tree of the sums first, first + unit, ..., SR_CUDA_BATCH of them or as many as there are
// below n: load(i) is sum i, and join(a, b, right, count) joins two, of which b has number 'right'
// and those after it, 'count' at most, and a as many before it.
template <class S, class Load, class Join>
static __device__ __forceinline__ S sr_merge_batch(int64_t first, int64_t unit, int64_t n,
                                                   const Load &load, const Join &join) {
    S sum[SR_CUDA_BATCH];
    SR_UNROLL
    for (int i = 0; i < SR_CUDA_BATCH; i++)
        if (first + i * unit < n)
            sum[i] = load(first + i * unit);
    SR_UNROLL
    for (int step = 1; step < SR_CUDA_BATCH; step *= 2) {
        SR_UNROLL
        for (int i = 0; i + step < SR_CUDA_BATCH; i += 2 * step)
            if (first + (i + step) * unit < n)
                sum[i] = join(sum[i], sum[i + step], first + (i + step) * unit, step * unit);
    }
    return sum[0];
}

// How plain sums are joined.
struct sr_plain_sum {
    template <class A> __device__ A operator()(A a, A b, int64_t, int64_t) const { return a + b; }
};

// The tree of n sums in memory, by the threads of a column of a block: the total becomes sum 0, for
// the first thread of the column. store(i, sum) stores sum i. All threads of the block take part;
// those of a column that does not exist do nothing.
template <class S, class Load, class Store, class Join>
static __device__ void sr_merge_column(bool exists, int64_t n, const Load &load, const Store &store,
                                       const Join &join) {
    for (int64_t unit = 1; unit < n; unit *= SR_CUDA_BATCH) {
        const int64_t own = threadIdx.y * unit * SR_CUDA_BATCH;
        for (int64_t first = own; exists && first < n; first += blockDim.y * unit * SR_CUDA_BATCH)
            store(first, sr_merge_batch<S>(first, unit, n, load, join));
        __syncthreads();
    }
}

// The same of plain sums, 'stride' apart in the column: the first thread gets the total, 0 where
// there are no sums.
template <class A>
static __device__ A sr_sum_column(bool exists, int64_t n, A *sums, int64_t stride) {
    sr_merge_column<A>(
        exists, n, [=](int64_t i) { return sums[i * stride]; },
        [=](int64_t i, A sum) { sums[i * stride] = sum; }, sr_plain_sum());
    return exists && n > 0 && threadIdx.y == 0 ? sums[0] : (A)0;
}

// The columns of lanes side by side, whose sums are [lanes][n][columns], a thread's column each:
// *result(lane, column) = the total. Columns without a result, NULL, are not read.
template <class Result>
static __device__ void sr_sum_lanes(int64_t lanes, int64_t n, float *sums, int64_t columns,
                                    const Result &result) {
    const int64_t i = sr_thread(), lane = sr_divide(i, columns), column = i - lane * columns;
    float *const to = lane < lanes ? result(lane, column) : NULL;
    const float sum = sr_sum_column(to != NULL, n, sums + lane * n * columns + column, columns);
    if (to && threadIdx.y == 0)
        *to = sum;
}

// Elements of a chunk: SR_REFERENCE_WAYS neighbouring threads, 'way' of them this one, have the
// terms way, way + SR_REFERENCE_WAYS, ... of n; the first one gets the sum. All threads of a warp
// take part. Sums have a zero where there is no term, which changes no bit: none is -0.
template <class A, class Term>
static __device__ A sr_sum_chunk(int64_t n, int way, const Term &term) {
    A sum = 0;
    SR_UNROLL_BY(8)
    for (int64_t i = way; i < n; i += SR_REFERENCE_WAYS)
        sum += term(i);
    for (int step = 1; step < SR_REFERENCE_WAYS; step *= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step, SR_REFERENCE_WAYS);
    return sum;
}

// ---- Sums over elements: blocks of SR_CUDA_CHUNKS chunks, then the tree of their sums ----

enum { SR_CUDA_CHUNKS = 8, SR_CUDA_SUM_THREADS = 128 };

static inline int64_t sr_cuda_sum_blocks(int64_t count) {
    return sr_blocks_of(count, SR_CUDA_CHUNKS * SR_REFERENCE_CHUNK);
}

// sums[blockIdx.x] = the terms of a block. Shared: SR_CUDA_CHUNKS of A.
template <class A, class Term>
static __device__ void sr_sum_block(int64_t count, A *sums, const Term &term) {
    A *chunk = (A *)(void *)sr_cuda_shared;
    const int way = threadIdx.x % SR_REFERENCE_WAYS, number = threadIdx.x / SR_REFERENCE_WAYS;
    const int64_t first = ((int64_t)blockIdx.x * SR_CUDA_CHUNKS + number) * SR_REFERENCE_CHUNK;
    const int64_t left = count - first;
    const A sum = sr_sum_chunk<A>(left < SR_REFERENCE_CHUNK ? left : SR_REFERENCE_CHUNK, way,
                                  [&](int64_t i) { return term(first + i); });
    if (way == 0)
        chunk[number] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = ((chunk[0] + chunk[1]) + (chunk[2] + chunk[3])) +
                           ((chunk[4] + chunk[5]) + (chunk[6] + chunk[7]));
}

#endif
