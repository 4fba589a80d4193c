// SPDX-License-Identifier: Apache-2.0
// gather_sum, scatter_sum and gather_dot: kernels/cpu/reference/reference_gather_sum.c. A thread
// has 16 bytes of neighbours of a row, or one element; of gather_dot, one weight.
#include "kernels/cuda/cuda_lists.h"
#include "kernels/cuda/cuda_vector.h"

static int64_t lanes_of(const sr_gather_sum_params *p, sr_dtype dtype) {
    const int64_t lanes = sr_cuda_lanes(dtype);
    return p->inner % lanes != 0 ? 1 : lanes;
}

// Element 'first' of rows [rows,groups,inner], and where the row's numbers for its group begin.
struct gather_place {
    int64_t row, group, i, number;
};

static __device__ gather_place place_of(const sr_gather_sum_params &p, int64_t first) {
    gather_place at;
    const int64_t above = sr_divide(first, p.inner);
    at.i = first - above * p.inner;
    at.row = sr_divide(above, p.groups);
    at.group = above - at.row * p.groups;
    at.number = at.row * p.share * p.groups + at.group;
    return at;
}

// ---- gather_sum: x, index, weight -> y ----

struct gather_sum_args {
    const void *x;
    const int32_t *index;
    const float *weight;
    void *y, *workspace;
    sr_gather_sum_params p;
    int64_t lanes; // elements of a thread: sr_lanes or 1
};

template <class T, int N>
static __device__ void gather_elements(const gather_sum_args &a, int64_t first) {
    const sr_gather_sum_params &p = a.p;
    if (first >= p.outer * p.count * p.groups * p.inner)
        return;
    const gather_place at = place_of(p, first);
    const int64_t x = sr_divide(at.row, p.count) * p.n;
    float sum[N] = {};
    for (int64_t t = 0; t < p.share; t++) {
        const int64_t number = a.index[at.number + t * p.groups];
        if (number < 0 || number >= p.n)
            continue;
        float v[N];
        sr_load_vector<T>(a.x, ((x + number) * p.groups + at.group) * p.inner + at.i, v);
        sr_add_weighted(sum, a.weight[at.number + t * p.groups], v);
    }
    sr_store_vector<T>(a.y, first, sum);
}

template <class T> static __device__ void cuda_gather_sum(const gather_sum_args &a) {
    if (a.lanes == 1)
        gather_elements<T, 1>(a, sr_thread());
    else
        gather_elements<T, sr_lanes<T>>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_gather_sum, gather_sum_args, 256, 0)

sr_status sr_cuda_prepare_gather_sum(const sr_kernel_request *request, sr_prepared *out) {
    gather_sum_args a = {};
    a.p = *sr_cuda_params<sr_gather_sum_params>(request);
    const sr_dtype dtype = request->dtype[0];
    a.lanes = lanes_of(&a.p, dtype);
    return sr_cuda_elementwise(request, a, cuda_gather_sum_kernels[dtype],
                               a.p.outer * a.p.count * a.p.groups * a.p.inner / a.lanes, out);
}

// ---- gather_dot: x, y, index -> weight ----

struct gather_dot_args {
    const void *x, *y;
    const int32_t *index;
    float *weight;
    void *workspace;
    sr_gather_sum_params p;
    int64_t lanes;
};

// The terms of N neighbours at a time; leaves are whole numbers of these.
template <class T, int N>
static __device__ float dot(const gather_dot_args &a, int64_t x, int64_t y) {
    sr_tree<SR_LONG_LEVELS> tree;
    float sum = 0;
    for (int64_t i = 0; i < a.p.inner; i += N) {
        float u[N], v[N];
        sr_load_vector<T>(a.x, x + i, u);
        sr_load_vector<T>(a.y, y + i, v);
        if (i > 0 && i % SR_REFERENCE_TERMS == 0) {
            tree.push(sum);
            sum = 0;
        }
        SR_UNROLL
        for (int k = 0; k < N; k++)
            sum += u[k] * v[k];
    }
    return tree.total(sum);
}

template <class T> static __device__ void cuda_gather_dot(const gather_dot_args &a) {
    const sr_gather_sum_params &p = a.p;
    const int64_t i = sr_thread();
    if (i >= p.outer * p.count * p.share * p.groups)
        return;
    const int64_t above = sr_divide(i, p.groups), group = i - above * p.groups;
    const int64_t row = sr_divide(above, p.share), number = a.index[i];
    if (number < 0 || number >= p.n) {
        a.weight[i] = 0;
        return;
    }
    const int64_t x = ((sr_divide(row, p.count) * p.n + number) * p.groups + group) * p.inner;
    const int64_t y = (row * p.groups + group) * p.inner;
    a.weight[i] = a.lanes == 1 ? dot<T, 1>(a, x, y) : dot<T, sr_lanes<T>>(a, x, y);
}
SR_CUDA_TYPED(cuda_gather_dot, gather_dot_args, 256, 0)

sr_status sr_cuda_prepare_gather_dot(const sr_kernel_request *request, sr_prepared *out) {
    gather_dot_args a = {};
    a.p = *sr_cuda_params<sr_gather_sum_params>(request);
    const sr_dtype dtype = request->dtype[0];
    a.lanes = lanes_of(&a.p, dtype);
    return sr_cuda_elementwise(request, a, cuda_gather_dot_kernels[dtype],
                               a.p.outer * a.p.count * a.p.share * a.p.groups, out);
}

// ---- scatter_sum: x, index, weight -> y ----

struct scatter_sum_args {
    const void *x;
    const int32_t *index;
    const float *weight;
    void *y;
    int32_t *start; // the workspace
    sr_cuda_lists lists;
    sr_gather_sum_params p;
    int64_t lanes;
};

SR_CUDA_KERNEL(cuda_scatter_sum_count, scatter_sum_args, 256, 0) {
    sr_list_count(a);
}
SR_CUDA_KERNEL(cuda_scatter_sum_start, scatter_sum_args, 256, 1) {
    sr_list_start(a);
}
SR_CUDA_KERNEL(cuda_scatter_sum_sort, scatter_sum_args, 256, 0) {
    sr_list_sort(a);
}

template <class T, int N, int LEVELS>
static __device__ void scatter_elements(const scatter_sum_args &a, int64_t first) {
    const sr_gather_sum_params &p = a.p;
    if (first >= p.outer * p.n * p.groups * p.inner)
        return;
    const gather_place at = place_of(p, first);
    const int64_t outer = sr_divide(at.row, p.n), place = at.row - outer * p.n;
    const sr_list_part list = sr_list_part_of(a.lists, a.index, a.start, outer, 0, at.group);
    const float *const weight = a.weight + outer * a.lists.count * p.groups + at.group;
    const int32_t end = list.start[(place + 1) * p.groups];
    sr_term_sums<N, LEVELS> sums;
    for (int32_t k = list.start[place * p.groups]; k < end; k++) {
        const int64_t term = list.order[k * p.groups];
        const int64_t row = outer * p.count + sr_divide(term, p.share);
        float v[N];
        sr_load_vector<T>(a.x, (row * p.groups + at.group) * p.inner + at.i, v);
        sr_add_weighted(sums.next(), weight[term * p.groups], v);
    }
    sr_store_vector<T>(a.y, first, sums.total().at);
}

template <class T> static __device__ void cuda_scatter_sum(const scatter_sum_args &a) {
    if (a.lanes == 1)
        scatter_elements<T, 1, SR_LONG_LEVELS>(a, sr_thread());
    else
        scatter_elements<T, sr_lanes<T>, SR_SHORT_LEVELS>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_scatter_sum, scatter_sum_args, 256, 0)

sr_status sr_cuda_prepare_scatter_sum(const sr_kernel_request *request, sr_prepared *out) {
    scatter_sum_args a = {};
    a.p = *sr_cuda_params<sr_gather_sum_params>(request);
    const sr_gather_params lists = sr_gather_sum_lists(&a.p);
    const sr_dtype dtype = request->dtype[0];
    a.lists = sr_cuda_lists_of(&lists);
    a.lanes = sr_fits_vectors(lists.count) ? lanes_of(&a.p, dtype) : 1;
    sr_cuda_making making(request, a, out);
    sr_cuda_add_lists(&making, &a.lists, &cuda_scatter_sum_count_kernel,
                      &cuda_scatter_sum_start_kernel, &cuda_scatter_sum_sort_kernel);
    making.add_elements(cuda_scatter_sum_kernels[dtype],
                        a.p.outer * a.p.n * a.p.groups * a.p.inner / a.lanes);
    out->workspace = sr_cuda_list_bytes(&a.lists);
    return making.done();
}
