// SPDX-License-Identifier: Apache-2.0
// gather and scatter_add: kernels/cpu/reference/reference_gather.c. A thread has 16 bytes of
// neighbours that share a number of the index, or one element.
#include <math.h>

#include "kernels/cuda/cuda_lists.h"
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
    int32_t *start; // the workspace
    sr_cuda_lists lists;
    sr_gather_params p;
    int64_t lanes;
};

SR_CUDA_KERNEL(cuda_scatter_count, scatter_args, 256, 0) {
    sr_list_count(a);
}
SR_CUDA_KERNEL(cuda_scatter_start, scatter_args, 256, 1) {
    sr_list_start(a);
}
SR_CUDA_KERNEL(cuda_scatter_sort, scatter_args, 256, 0) {
    sr_list_sort(a);
}

template <class T, int N, int LEVELS>
static __device__ void sum_elements(const scatter_args &a, int64_t first) {
    const sr_gather_params &p = a.p;
    if (first >= p.outer * p.n * p.inner)
        return;
    const int64_t row = sr_divide(first, p.inner), i = first - row * p.inner;
    const int64_t o = sr_divide(row, p.n), k = row - o * p.n;
    const int64_t wide = a.lists.wide;
    const sr_list_part list =
        sr_list_part_of(a.lists, a.index, a.start, p.per_outer ? o : 0, 0, p.per_inner ? i : 0);
    const int32_t end = list.start[(k + 1) * wide];
    sr_term_sums<N, LEVELS> sums;
    for (int32_t at = list.start[k * wide]; at < end; at++) {
        float x[N];
        sr_load_vector<T>(a.x, (o * p.count + list.order[at * wide]) * p.inner + i, x);
        float(&sum)[N] = sums.next();
        SR_UNROLL
        for (int n = 0; n < N; n++)
            sum[n] += x[n];
    }
    sr_store_vector<T>(a.y, first, sums.total().at);
}

template <class T> static __device__ void cuda_scatter_add(const scatter_args &a) {
    if (a.lanes == 1)
        sum_elements<T, 1, SR_LONG_LEVELS>(a, sr_thread());
    else
        sum_elements<T, sr_lanes<T>, SR_SHORT_LEVELS>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_scatter_add, scatter_args, 256, 0)

sr_status sr_cuda_prepare_scatter_add(const sr_kernel_request *request, sr_prepared *out) {
    scatter_args a = {};
    a.p = *sr_cuda_params<sr_gather_params>(request);
    const sr_dtype dtype = request->dtype[0];
    a.lists = sr_cuda_lists_of(&a.p);
    a.lanes = sr_fits_vectors(a.p.count) ? lanes_of(&a.p, dtype) : 1;
    sr_cuda_making making(request, a, out);
    sr_cuda_add_lists(&making, &a.lists, &cuda_scatter_count_kernel, &cuda_scatter_start_kernel,
                      &cuda_scatter_sort_kernel);
    making.add_elements(cuda_scatter_add_kernels[dtype], a.p.outer * a.p.n * a.p.inner / a.lanes);
    out->workspace = sr_cuda_list_bytes(&a.lists);
    return making.done();
}
