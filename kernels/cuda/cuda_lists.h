// SPDX-License-Identifier: Apache-2.0
// Lists of numbers sorted by place: kernels/cpu/reference/reference_lists.h, in parts. A thread
// counts the places of a part, a block adds the counts of a list up, and the threads of the parts
// then write down the numbers j where their place has room for them. Elements of lists lie beside
// those of the neighbouring list.
//
// Each .cu file that has lists defines kernels for its own struct of arguments, which has the
// pointers 'index' and 'start' (the workspace) and the member 'lists'.
#ifndef SR_KERNELS_CUDA_LISTS_H
#define SR_KERNELS_CUDA_LISTS_H

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"

// tall x wide lists of 'count' numbers of n places, and their parts. The workspace has start [tall,
// n + 1,wide]; then before [tall,parts,n,wide], order [tall,count,wide].
struct sr_cuda_lists {
    int64_t n, count;
    int64_t tall, wide;
    int64_t parts, part; // of a list, and elements of one
};

// The arrays of a part of a list: elements of one list are 'wide' apart.
struct sr_list_part {
    const int32_t *index;
    int32_t *start, *before, *order;
    int64_t begin, end;
};

static __device__ sr_list_part sr_list_part_of(const sr_cuda_lists &l, const int32_t *index,
                                               int32_t *start, int64_t row, int64_t part,
                                               int64_t column) {
    int32_t *const before = start + l.tall * (l.n + 1) * l.wide;
    int32_t *const order = before + l.tall * l.parts * l.n * l.wide;
    const int64_t begin = part * l.part, end = begin + l.part;
    return {index + row * l.count * l.wide + column,
            start + row * (l.n + 1) * l.wide + column,
            before + (row * l.parts + part) * l.n * l.wide + column,
            order + row * l.count * l.wide + column,
            begin,
            end < l.count ? end : l.count};
}

// The part of this thread; false: it has none.
template <class A> static __device__ bool sr_own_part(const A &a, sr_list_part *part) {
    const sr_cuda_lists &l = a.lists;
    const int64_t i = sr_thread(), above = sr_divide(i, l.wide), row = sr_divide(above, l.parts);
    if (row >= l.tall)
        return false;
    *part = sr_list_part_of(l, a.index, a.start, row, above - row * l.parts, i - above * l.wide);
    return true;
}

static __device__ bool sr_is_place(const sr_cuda_lists &l, int64_t number) {
    return number >= 0 && number < l.n;
}

template <class A> static __device__ void sr_list_count(const A &a) {
    const sr_cuda_lists &l = a.lists;
    sr_list_part part;
    if (!sr_own_part(a, &part))
        return;
    for (int64_t k = 0; k < l.n; k++)
        part.before[k * l.wide] = 0;
    for (int64_t j = part.begin; j < part.end; j++) {
        const int64_t number = part.index[j * l.wide];
        if (sr_is_place(l, number))
            part.before[number * l.wide]++;
    }
}

// before: what the parts before have of place k; returns what all of them have.
static __device__ int32_t sr_add_parts(const sr_cuda_lists &l, const sr_list_part &first,
                                       int64_t k) {
    int32_t sum = 0;
    for (int64_t part = 0; part < l.parts; part++) {
        int32_t *const at = first.before + (part * l.n + k) * l.wide;
        const int32_t own = *at;
        *at = sum;
        sum += own;
    }
    return sum;
}

// The sum of what this thread and those before it have. Shared: an int32_t of each thread.
static __device__ int32_t sr_sum_before(int32_t own, int32_t *sums) {
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
template <class A> static __device__ void sr_list_start(const A &a) {
    const sr_cuda_lists &l = a.lists;
    int32_t *const sums = (int32_t *)(void *)sr_cuda_shared;
    const int64_t row = blockIdx.x / l.wide, column = blockIdx.x - row * l.wide;
    const sr_list_part list = sr_list_part_of(l, a.index, a.start, row, 0, column);
    int32_t base = 0;
    for (int64_t first = 0; first < l.n; first += blockDim.x) {
        const int64_t k = first + threadIdx.x;
        const int32_t own = k < l.n ? sr_add_parts(l, list, k) : 0, sum = sr_sum_before(own, sums);
        if (k < l.n)
            list.start[k * l.wide] = base + sum - own;
        base += sums[blockDim.x - 1];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        list.start[l.n * l.wide] = base;
}

template <class A> static __device__ void sr_list_sort(const A &a) {
    const sr_cuda_lists &l = a.lists;
    sr_list_part part;
    if (!sr_own_part(a, &part))
        return;
    for (int64_t j = part.begin; j < part.end; j++) {
        const int64_t number = part.index[j * l.wide];
        if (!sr_is_place(l, number))
            continue;
        const int32_t at = part.start[number * l.wide] + part.before[number * l.wide]++;
        part.order[at * l.wide] = (int32_t)j;
    }
}

// Enough parts to keep a GPU busy, but none of fewer elements than it takes to add them up, and
// with at most four counts for each element.
static inline sr_cuda_lists sr_cuda_lists_of(const sr_gather_params *p) {
    sr_cuda_lists l = {};
    l.n = p->n;
    l.count = p->count;
    l.tall = p->per_outer ? p->outer : 1;
    l.wide = p->per_inner ? p->inner : 1;
    const int64_t wanted = sr_blocks_for(4096, l.tall * l.wide);
    const int64_t useful = sr_blocks_for(p->count, 256), room = 4 * p->count / p->n;
    const int64_t least = useful < wanted ? useful : wanted;
    l.part = sr_blocks_for(p->count, room < 1 ? 1 : least < room ? least : room);
    l.parts = sr_blocks_for(p->count, l.part);
    return l;
}

static inline size_t sr_cuda_list_bytes(const sr_cuda_lists *l) {
    return (size_t)(l->tall * l->wide * (l->n + 1 + l->parts * l->n + l->count)) * sizeof(int32_t);
}

// Adds the three kernels that sort.
static inline void sr_cuda_add_lists(sr_cuda_making *making, const sr_cuda_lists *l,
                                     const sr_cuda_kernel *count, const sr_cuda_kernel *start,
                                     const sr_cuda_kernel *sort) {
    const int64_t lists = l->tall * l->wide;
    const int threads =
        l->n < SR_CUDA_ELEMENTS ? (int)sr_blocks_for(l->n, 32) * 32 : SR_CUDA_ELEMENTS;
    making->add_elements(count, lists * l->parts);
    making->add(start, lists, threads, (size_t)threads * sizeof(int32_t));
    making->add_elements(sort, lists * l->parts);
}

#endif
