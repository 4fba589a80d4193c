// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the stand-in for cuBLASLt: matrix products by plain loops, with sums in float.
#include "tests/soft_gpu/soft_cublaslt_product.h"

#include "kernels/cuda/cuda_kernel.h"
#include "tests/soft_gpu/soft_tf32.h"

// sum + x, rounded to nearest or, as tensor cores do, toward zero.
static __device__ float add(const soft_product_args &a, float sum, float x) {
    const float near = sum + x;
    const double exact = (double)sum + (double)x;
    if (!a.toward_zero || (exact < 0 ? (double)near >= exact : (double)near <= exact))
        return near;
    return __uint_as_float(__float_as_uint(near) - 1);
}

// Result i is [batch][column][row]; this is the sum of its terms slice, slice + slices, ...
template <class T>
static __device__ float sum_of(const soft_product_args &a, int64_t i, int64_t slice) {
    const int64_t row = i % a.m, column = i / a.m % a.n, batch = i / a.m / a.n;
    const int64_t first_a = batch * a.batch_a + row * (a.transpose_a ? a.step_a : 1);
    const int64_t first_b = batch * a.batch_b + column * (a.transpose_b ? 1 : a.step_b);
    const int64_t term_a = a.transpose_a ? 1 : a.step_a, term_b = a.transpose_b ? a.step_b : 1;
    float sum = 0.0f;
    for (int64_t t = slice; t < a.k; t += a.slices) {
        sum = add(a, sum,
                  sr_load<T>(a.a, first_a + t * term_a) * sr_load<T>(a.b, first_b + t * term_b));
        if (t + 1 == a.apart)
            sum = T::rounded(sum);
    }
    return sum;
}

template <class T> static __device__ void store(const soft_product_args &a, int64_t i, float sum) {
    const int64_t row = i % a.m, column = i / a.m % a.n, batch = i / a.m / a.n;
    const int64_t at = batch * a.batch_d + column * a.step_d + row;
    const float value = a.alpha * sum;
    if (a.wide)
        ((float *)a.d)[at] = a.bias ? value + ((const float *)a.bias)[row] : value;
    else
        sr_store<T>(a.d, at, a.bias ? value + sr_load<T>(a.bias, row) : value);
}

static __device__ int64_t results(const soft_product_args &a) {
    return a.batches * a.n * a.m;
}

// What follows the sums in the workspace becomes NaN, so that the whole of it is written.
template <class T> static __device__ void slices(const soft_product_args &a) {
    const int64_t i = sr_thread(), count = results(a);
    if (i < a.workspace_count)
        a.workspace[i] = i < count * a.slices ? sum_of<T>(a, i % count, i / count)
                                              : __uint_as_float(0xffffffffu);
}

// The number of slices is a prime where the order is drawn, so that each step reaches all of them.
template <class T> static __device__ void add_slices(const soft_product_args &a) {
    const int64_t i = sr_thread(), count = results(a);
    if (i >= count)
        return;
    const uint32_t drawn = a.any_order ? soft_product_draw() : 0;
    const int64_t step = a.any_order ? 1 + (drawn >> 8) % (a.slices - 1) : 1;
    int64_t slice = a.any_order ? drawn % a.slices : 0;
    float sum = 0.0f;
    for (int64_t n = 0; n < a.slices; n++) {
        sum = add(a, sum, a.workspace[slice * count + i]);
        slice = (slice + step) % a.slices;
    }
    store<T>(a, i, sum);
}

template <class T> static __device__ void whole(const soft_product_args &a) {
    const int64_t i = sr_thread();
    if (i < results(a))
        store<T>(a, i, sum_of<T>(a, i, 0));
}

#define KERNELS(step)                                                                              \
    SR_CUDA_KERNEL(soft_cublaslt_##step##_tf32, soft_product_args, SOFT_PRODUCT_THREADS, 0) {      \
        step<sr_tf32>(a);                                                                          \
    }                                                                                              \
    SR_CUDA_KERNEL(soft_cublaslt_##step##_bf16, soft_product_args, SOFT_PRODUCT_THREADS, 0) {      \
        step<sr_bf16>(a);                                                                          \
    }                                                                                              \
    SR_CUDA_KERNEL(soft_cublaslt_##step##_f16, soft_product_args, SOFT_PRODUCT_THREADS, 0) {       \
        step<sr_f16>(a);                                                                           \
    }
KERNELS(slices)
KERNELS(add_slices)
KERNELS(whole)

#define TYPES(step)                                                                                \
    {                                                                                              \
        &soft_cublaslt_##step##_tf32_kernel, &soft_cublaslt_##step##_bf16_kernel,                  \
            &soft_cublaslt_##step##_f16_kernel                                                     \
    }
const sr_cuda_kernel *soft_product_kernel(soft_product_step step, sr_dtype dtype) {
    static const sr_cuda_kernel *const kernels[SOFT_PRODUCT_STEPS][3] = {
        TYPES(slices), TYPES(add_slices), TYPES(whole)};
    return kernels[step][dtype]; // in the order of sr_dtype
}
