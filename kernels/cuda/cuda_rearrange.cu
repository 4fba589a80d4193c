// SPDX-License-Identifier: Apache-2.0
// Copies of elements to other places: kernels/cpu/reference/reference_rearrange.c. A thread writes
// 16 bytes of neighbours where these are neighbours in x, too, else one element.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"

// ---- rearrange: x, y ----

struct rearrange_args {
    const void *x;
    void *y, *workspace;
    sr_rearrange_params p;
    int64_t lanes; // elements of a thread: sr_lanes or 1
};

// The element of x for element i of y; negative: none, a zero.
static __device__ int64_t source_of(const sr_rearrange_params &p, int64_t i) {
    int64_t source = p.first;
    bool inside = true;
    for (int d = p.dims - 1; d >= 0; d--) {
        const int64_t next = sr_divide(i, p.dim[d]), at = i - next * p.dim[d] - p.begin[d];
        const int64_t step = at < 0 ? 0 : sr_divide(at, p.every[d]);
        inside = inside && at >= 0 && at < p.end[d] - p.begin[d] && step * p.every[d] == at;
        source += step * p.step[d];
        i = next;
    }
    return inside ? source : -1;
}

template <class T, int N>
static __device__ void move_elements(const rearrange_args &a, int64_t first) {
    typename T::type x[N];
    if (first >= a.p.count)
        return;
    const int64_t source = source_of(a.p, first);
    if (source >= 0) {
        sr_get((const typename T::type *)a.x + source, x);
    } else {
        SR_UNROLL
        for (int k = 0; k < N; k++)
            T::store(&x[k], 0.0f);
    }
    sr_put((typename T::type *)a.y + first, x);
}

template <class T> static __device__ void cuda_rearrange(const rearrange_args &a) {
    if (a.lanes == 1)
        move_elements<T, 1>(a, sr_thread());
    else
        move_elements<T, sr_lanes<T>>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_rearrange, rearrange_args, 256, 0)

// Whether vectors of y are vectors of x, or zeros.
static bool is_of_vectors(const sr_rearrange_params *p, int64_t lanes) {
    const int last = p->dims - 1;
    bool fits = p->step[last] == 1 && p->every[last] == 1 && p->first % lanes == 0 &&
                p->dim[last] % lanes == 0 && p->begin[last] % lanes == 0 &&
                p->end[last] % lanes == 0;
    for (int d = 0; d < last; d++)
        fits = fits && p->step[d] % lanes == 0;
    return fits;
}

sr_status sr_cuda_prepare_rearrange(const sr_kernel_request *request, sr_prepared *out) {
    rearrange_args a = {};
    a.p = *sr_cuda_params<sr_rearrange_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t lanes = sr_cuda_lanes(dtype);
    a.lanes = is_of_vectors(&a.p, lanes) ? lanes : 1;
    return sr_cuda_elementwise(request, a, cuda_rearrange_kernels[dtype], a.p.count / a.lanes, out);
}

// ---- concat: a, b, c, d, y ----

struct concat_args {
    const void *x[SR_CONCAT_INPUTS];
    void *y, *workspace;
    sr_concat_params p;
    int64_t width, lanes; // of y; elements of a thread
};

template <class T, int N>
static __device__ void join_elements(const concat_args &a, int64_t first) {
    if (first >= a.p.rows * a.width)
        return;
    const int64_t row = sr_divide(first, a.width);
    int64_t at = first - row * a.width;
    const typename T::type *from = (const typename T::type *)a.x[0] + row * a.p.width[0];
    SR_UNROLL
    for (int k = 1; k < SR_CONCAT_INPUTS; k++) {
        if (at >= a.p.width[k - 1]) {
            at -= a.p.width[k - 1];
            from = (const typename T::type *)a.x[k] + row * a.p.width[k];
        } else {
            break;
        }
    }
    typename T::type x[N];
    sr_get(from + at, x);
    sr_put((typename T::type *)a.y + first, x);
}

template <class T> static __device__ void cuda_concat(const concat_args &a) {
    if (a.lanes == 1)
        join_elements<T, 1>(a, sr_thread());
    else
        join_elements<T, sr_lanes<T>>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_concat, concat_args, 256, 0)

sr_status sr_cuda_prepare_concat(const sr_kernel_request *request, sr_prepared *out) {
    concat_args a = {};
    a.p = *sr_cuda_params<sr_concat_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t lanes = sr_cuda_lanes(dtype);
    a.width = sr_concat_width(&a.p);
    a.lanes = lanes;
    for (int k = 0; k < SR_CONCAT_INPUTS; k++)
        if (a.p.width[k] % lanes != 0)
            a.lanes = 1;
    return sr_cuda_elementwise(request, a, cuda_concat_kernels[dtype], a.p.rows * a.width / a.lanes,
                               out);
}
