// SPDX-License-Identifier: Apache-2.0
// The largest or smallest element along a dimension with its index, and one-hot vectors:
// kernels/cpu/reference/reference_extreme.c. Which element is found does not depend on the order in
// which they are compared. A thread has a result; where elements of one result are neighbours and
// many, a warp has it.
#include <math.h>

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"

enum { WARP = 32, FEW = 8 }; // FEW: neighbouring results that threads read without waste

// ---- extreme: x, y, index ----

struct extreme_args {
    const void *x;
    void *y;
    int32_t *index;
    void *workspace;
    sr_axis_params p;
};

struct found_element {
    float value;
    int32_t index;
};

// Whether a is before b: NaN first, then by value, then by index.
static __device__ bool is_before(const found_element &a, const found_element &b, bool least) {
    const bool number = a.value == a.value, other = b.value == b.value;
    if (number != other)
        return other;
    if (number && a.value != b.value)
        return (a.value < b.value) == least;
    return a.index < b.index;
}

// Result i, of the elements first, first + step, ... along the dimension.
template <class T>
static __device__ found_element find(const extreme_args &a, int64_t i, int64_t first,
                                     int64_t step) {
    const bool least = a.p.least != 0;
    const int64_t row = sr_divide(i, a.p.inner), at = i - row * a.p.inner;
    const int64_t base = row * a.p.n * a.p.inner + at;
    found_element best = {least ? INFINITY : -INFINITY, INT32_MAX};
    for (int64_t j = first; j < a.p.n; j += step) {
        const found_element next = {sr_load<T>(a.x, base + j * a.p.inner), (int32_t)j};
        if (is_before(next, best, least))
            best = next;
    }
    return best;
}

template <class T>
static __device__ void store_found(const extreme_args &a, int64_t i, const found_element &best) {
    sr_store<T>(a.y, i, best.value);
    a.index[i] = best.index;
}

template <class T> static __device__ void cuda_extreme(const extreme_args &a) {
    const int64_t i = sr_thread();
    if (i < a.p.rows * a.p.inner)
        store_found<T>(a, i, find<T>(a, i, 0, 1));
}
SR_CUDA_TYPED(cuda_extreme, extreme_args, 256, 0)

template <class T> static __device__ void cuda_extreme_warp(const extreme_args &a) {
    const int64_t i = sr_thread() / WARP, count = a.p.rows * a.p.inner;
    const int lane = (int)threadIdx.x % WARP;
    found_element best = find<T>(a, i < count ? i : 0, lane, WARP);
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        const found_element other = {__shfl_xor_sync(0xffffffffu, best.value, distance),
                                     __shfl_xor_sync(0xffffffffu, best.index, distance)};
        if (is_before(other, best, a.p.least != 0))
            best = other;
    }
    if (lane == 0 && i < count)
        store_found<T>(a, i, best);
}
SR_CUDA_TYPED(cuda_extreme_warp, extreme_args, 256, 1)

sr_status sr_cuda_prepare_extreme(const sr_kernel_request *request, sr_prepared *out) {
    extreme_args a = {};
    a.p = *sr_cuda_params<sr_axis_params>(request);
    const bool warp = a.p.inner < FEW && a.p.n >= WARP;
    const sr_cuda_kernel *const *kernels = warp ? cuda_extreme_warp_kernels : cuda_extreme_kernels;
    return sr_cuda_elementwise(request, a, kernels[request->dtype[0]],
                               a.p.rows * a.p.inner * (warp ? WARP : 1), out);
}

// ---- one_hot: index, y ----

struct one_hot_args {
    const int32_t *index;
    void *y, *workspace;
    sr_axis_params p;
};

template <class T> static __device__ void cuda_one_hot(const one_hot_args &a) {
    const int64_t first = sr_thread() * sr_lanes<T>, count = a.p.rows * a.p.n * a.p.inner;
    float y[sr_lanes<T>];
    if (first >= count)
        return;
    SR_UNROLL
    for (int k = 0; k < sr_lanes<T>; k++) {
        const int64_t i = first + k < count ? first + k : first;
        const int64_t line = sr_divide(i, a.p.inner), row = sr_divide(line, a.p.n);
        const int32_t index = a.index[row * a.p.inner + i - line * a.p.inner];
        y[k] = index == line - row * a.p.n ? 1.0f : 0.0f;
    }
    sr_store_vector<T>(a.y, first, count, y);
}
SR_CUDA_TYPED(cuda_one_hot, one_hot_args, 256, 0)

sr_status sr_cuda_prepare_one_hot(const sr_kernel_request *request, sr_prepared *out) {
    one_hot_args a = {};
    a.p = *sr_cuda_params<sr_axis_params>(request);
    const sr_dtype dtype = request->dtype[1];
    return sr_cuda_elementwise(request, a, cuda_one_hot_kernels[dtype],
                               sr_cuda_vectors(dtype, a.p.rows * a.p.n * a.p.inner), out);
}
