// SPDX-License-Identifier: Apache-2.0
// gather and scatter_add: kernels/cpu/reference/reference_gather.c. A thread has 16 bytes of
// neighbours that share a number of the index, or one element.
//
// scatter_add sorts the lists of the index in parts: a thread counts the places of a part, a block
// adds the counts of a list up, and the threads of the parts then write down the numbers j where
// their place has room for them. Elements of lists lie beside those of the neighbouring list.
#include <math.h>

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"

// ---- gather: x, index, y ----

struct gather_args {
    const void *x;
    const int32_t *index;
    void *y, *workspace;
    sr_gather_params p;
    int64_t lanes; // elements of a thread: sr_lanes or 1
};

template <class T, int N>
static __device__ void gather_elements(const gather_args &a, int64_t first) {
    const sr_gather_params &p = a.p;
    if (first >= p.outer * p.count * p.inner)
        return;
    const int64_t row = sr_divide(first, p.inner), i = first - row * p.inner;
    const int64_t o = sr_divide(row, p.count), list = p.per_outer ? row : row - o * p.count;
    const int64_t number = a.index[p.per_inner ? list * p.inner + i : list];
    typename T::type x[N];
    if (number >= 0 && number < p.n) {
        sr_get((const typename T::type *)a.x + (o * p.n + number) * p.inner + i, x);
    } else {
        SR_UNROLL
        for (int k = 0; k < N; k++)
            T::store(&x[k], p.zeros ? 0.0f : (float)NAN);
    }
    sr_put((typename T::type *)a.y + first, x);
}

template <class T> static __device__ void cuda_gather(const gather_args &a) {
    if (a.lanes == 1)
        gather_elements<T, 1>(a, sr_thread());
    else
        gather_elements<T, sr_lanes<T>>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_gather, gather_args, 256, 0)

static int64_t lanes_of(const sr_gather_params *p, sr_dtype dtype) {
    const int64_t lanes = sr_cuda_lanes(dtype);
    return p->per_inner || p->inner % lanes != 0 ? 1 : lanes;
}

sr_status sr_cuda_prepare_gather(const sr_kernel_request *request, sr_prepared *out) {
    gather_args a = {};
    a.p = *sr_cuda_params<sr_gather_params>(request);
    const sr_dtype dtype = request->dtype[0];
    a.lanes = lanes_of(&a.p, dtype);
    return sr_cuda_elementwise(request, a, cuda_gather_kernels[dtype],
                               a.p.outer * a.p.count * a.p.inner / a.lanes, out);
}

// ---- scatter_add: x, index, y ----

struct scatter_args {
    const void *x;
    const int32_t *index;
    void *y;
    int32_t *start; // [tall,n + 1,wide]; then before [tall,parts,n,wide], order [tall,count,wide]
    sr_gather_params p;
    int64_t tall, wide;  // lists of the index: tall x wide
    int64_t parts, part; // of a list, and elements of one
    int64_t lanes;
};

// What belongs to a part of a list: elements of one list are 'wide' apart.
struct scatter_part {
    const int32_t *index;
    int32_t *start, *before, *order;
    int64_t begin, end;
};

static __device__ scatter_part part_of(const scatter_args &a, int64_t row, int64_t part,
                                       int64_t column) {
    int32_t *const before = a.start + a.tall * (a.p.n + 1) * a.wide;
    int32_t *const order = before + a.tall * a.parts * a.p.n * a.wide;
    const int64_t begin = part * a.part, end = begin + a.part;
    return {a.index + row * a.p.count * a.wide + column,
            a.start + row * (a.p.n + 1) * a.wide + column,
            before + (row * a.parts + part) * a.p.n * a.wide + column,
            order + row * a.p.count * a.wide + column,
            begin,
            end < a.p.count ? end : a.p.count};
}

// The part of this thread; false: it has none.
static __device__ bool own_part(const scatter_args &a, scatter_part *part) {
    const int64_t i = sr_thread(), above = sr_divide(i, a.wide), row = sr_divide(above, a.parts);
    if (row >= a.tall)
        return false;
    *part = part_of(a, row, above - row * a.parts, i - above * a.wide);
    return true;
}

static __device__ bool is_place(const scatter_args &a, int64_t number) {
    return number >= 0 && number < a.p.n;
}

SR_CUDA_KERNEL(cuda_scatter_count, scatter_args, 256, 0) {
    scatter_part part;
    if (!own_part(a, &part))
        return;
    for (int64_t k = 0; k < a.p.n; k++)
        part.before[k * a.wide] = 0;
    for (int64_t j = part.begin; j < part.end; j++) {
        const int64_t number = part.index[j * a.wide];
        if (is_place(a, number))
            part.before[number * a.wide]++;
    }
}

// before: what the parts before have of place k; returns what all of them have.
static __device__ int32_t add_parts(const scatter_args &a, const scatter_part &first, int64_t k) {
    int32_t sum = 0;
    for (int64_t part = 0; part < a.parts; part++) {
        int32_t *const at = first.before + (part * a.p.n + k) * a.wide;
        const int32_t own = *at;
        *at = sum;
        sum += own;
    }
    return sum;
}

// The sum of what this thread and those before it have. Shared: an int32_t of each thread.
static __device__ int32_t sum_before(int32_t own, int32_t *sums) {
    const int thread = (int)threadIdx.x;
    sums[thread] = own;
    __syncthreads();
    for (int step = 1; step < (int)blockDim.x; step *= 2) {
        const int32_t left = thread >= step ? sums[thread - step] : 0;
        __syncthreads();
        sums[thread] += left;
        __syncthreads();
    }
    return sums[thread];
}

// A block has a list.
SR_CUDA_KERNEL(cuda_scatter_start, scatter_args, 256, 1) {
    int32_t *const sums = (int32_t *)(void *)sr_cuda_shared;
    const int64_t row = blockIdx.x / a.wide, column = blockIdx.x - row * a.wide;
    const scatter_part list = part_of(a, row, 0, column);
    int32_t base = 0;
    for (int64_t first = 0; first < a.p.n; first += blockDim.x) {
        const int64_t k = first + threadIdx.x;
        const int32_t own = k < a.p.n ? add_parts(a, list, k) : 0, sum = sum_before(own, sums);
        if (k < a.p.n)
            list.start[k * a.wide] = base + sum - own;
        base += sums[blockDim.x - 1];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        list.start[a.p.n * a.wide] = base;
}

SR_CUDA_KERNEL(cuda_scatter_sort, scatter_args, 256, 0) {
    scatter_part part;
    if (!own_part(a, &part))
        return;
    for (int64_t j = part.begin; j < part.end; j++) {
        const int64_t number = part.index[j * a.wide];
        if (!is_place(a, number))
            continue;
        const int32_t at = part.start[number * a.wide] + part.before[number * a.wide]++;
        part.order[at * a.wide] = (int32_t)j;
    }
}

enum {
    SHORT_LEVELS = 4, // of the trees of vectors, so that they fit into registers
    LONG_LEVELS = 26, // of single elements: 2^31 terms
};

template <class T, int N, int LEVELS>
static __device__ void sum_elements(const scatter_args &a, int64_t first) {
    const sr_gather_params &p = a.p;
    if (first >= p.outer * p.n * p.inner)
        return;
    const int64_t row = sr_divide(first, p.inner), i = first - row * p.inner;
    const int64_t o = sr_divide(row, p.n), k = row - o * p.n;
    const scatter_part list = part_of(a, p.per_outer ? o : 0, 0, p.per_inner ? i : 0);
    const int32_t end = list.start[(k + 1) * a.wide];
    sr_tree<LEVELS, sr_sums<N>> tree;
    sr_sums<N> sum = {};
    int terms = 0;
    for (int32_t at = list.start[k * a.wide]; at < end; at++) {
        float x[N];
        sr_load_vector<T>(a.x, (o * p.count + list.order[at * a.wide]) * p.inner + i, x);
        if (terms == SR_REFERENCE_TERMS) {
            tree.push(sum);
            sum = {};
            terms = 0;
        }
        terms++;
        SR_UNROLL
        for (int n = 0; n < N; n++)
            sum.at[n] += x[n];
    }
    sr_store_vector<T>(a.y, first, tree.total(sum).at);
}

template <class T> static __device__ void cuda_scatter_add(const scatter_args &a) {
    if (a.lanes == 1)
        sum_elements<T, 1, LONG_LEVELS>(a, sr_thread());
    else
        sum_elements<T, sr_lanes<T>, SHORT_LEVELS>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_scatter_add, scatter_args, 256, 0)

// Enough parts to keep a GPU busy, but none of fewer elements than it takes to add them up, and
// with at most four counts for each element.
static int64_t parts_of(const sr_gather_params *p, int64_t lists) {
    const int64_t wanted = sr_blocks_for(4096, lists), useful = sr_blocks_for(p->count, 256);
    const int64_t room = 4 * p->count / p->n, least = useful < wanted ? useful : wanted;
    return room < 1 ? 1 : least < room ? least : room;
}

sr_status sr_cuda_prepare_scatter_add(const sr_kernel_request *request, sr_prepared *out) {
    scatter_args a = {};
    a.p = *sr_cuda_params<sr_gather_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t lists = sr_gather_lists(&a.p), n = a.p.n;
    const int threads = n < SR_CUDA_ELEMENTS ? (int)sr_blocks_for(n, 32) * 32 : SR_CUDA_ELEMENTS;
    a.tall = a.p.per_outer ? a.p.outer : 1;
    a.wide = a.p.per_inner ? a.p.inner : 1;
    a.part = sr_blocks_for(a.p.count, parts_of(&a.p, lists));
    a.parts = sr_blocks_for(a.p.count, a.part);
    a.lanes = a.p.count <= (SR_REFERENCE_TERMS << SHORT_LEVELS) ? lanes_of(&a.p, dtype) : 1;
    sr_cuda_making making(request, a, out);
    making.add_elements(&cuda_scatter_count_kernel, lists * a.parts);
    making.add(&cuda_scatter_start_kernel, lists, threads, (size_t)threads * sizeof(int32_t));
    making.add_elements(&cuda_scatter_sort_kernel, lists * a.parts);
    making.add_elements(cuda_scatter_add_kernels[dtype], a.p.outer * n * a.p.inner / a.lanes);
    out->workspace = (size_t)(lists * (n + 1 + a.parts * n + a.p.count)) * sizeof(int32_t);
    return making.done();
}
