// SPDX-License-Identifier: Apache-2.0
// gelu and gelu_grad in numerics class "tensor": kernels/expression_list.def in fp32. Those of
// class "reference" compute erf and exp in fp64, which is their limit.
//
// Phi(x) - 1/2 and Phi(x) + x phi(x) - 1/2 are odd functions, x times a function of x^2, which is a
// polynomial in s = 2 (x / L)^2 - 1 for |x| < L, where s is in [-1, 1). Beyond that they are -1/2
// or 1/2 in fp32. Coefficients are weighted minimax fits made for this file by Lawson's algorithm
// (1961) in 120 bits. Of all fp32 numbers, with u = 2^-24: gelu is at most 2.7 u |x| from its
// value, and the factor of dy in gelu_grad 4.3 u.
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/cuda_vector.h"

enum { THREADS = 256 };

template <int N> static __device__ __forceinline__ float polynomial(const float (&c)[N], float s) {
    float y = c[N - 1];
    SR_UNROLL
    for (int i = N - 2; i >= 0; i--)
        y = __fmaf_rn(y, s, c[i]);
    return y;
}

// 1/2 + x p(s) for |x| < L, beyond that 0 or 1; NaN for NaN. scale: 2 / L^2.
template <int N>
static __device__ __forceinline__ float step_of(const float (&c)[N], float limit, float scale,
                                                float x) {
    const float inside = __fmaf_rn(x, polynomial(c, __fmaf_rn(x * x, scale, -1.0f)), 0.5f);
    return fabsf(x) >= limit ? (x > 0 ? 1.0f : 0.0f) : inside;
}

// Phi(x)
static __device__ __forceinline__ float normal_of(float x) {
    constexpr float c[] = {0x1.108bfep-3f,  -0x1.0fd7acp-4f,  0x1.92ca18p-5f, -0x1.43f0b6p-5f,
                           0x1.06de4p-5f,   -0x1.9f7b1ap-6f,  0x1.379e14p-6f, -0x1.b35c56p-7f,
                           0x1.24ab92p-7f,  -0x1.861e0ep-8f,  0x1.a2fd6ep-9f, -0x1.22d03ep-10f,
                           0x1.89470ep-11f, -0x1.a02e3cp-11f, 0x1.35bbb4p-12f};
    return step_of(c, 5.3125f, 0x1.224364p-4f, x);
}

// Phi(x) + x phi(x)
static __device__ __forceinline__ float slope_of(float x) {
    constexpr float c[] = {0x1.e2e8c4p-4f, -0x1.e622e4p-5f, 0x1.794e0ap-5f, -0x1.5b0efap-5f,
                           0x1.6cffb8p-5f, -0x1.a144f8p-5f, 0x1.e0d21ep-5f, -0x1.076c3ap-4f,
                           0x1.11e5b4p-4f, -0x1.0d514ep-4f, 0x1.bdea3ap-5f, -0x1.29b97p-5f,
                           0x1.016c46p-5f, -0x1.0e0416p-5f, 0x1.0655c2p-6f, 0x1.aa4decp-10f,
                           0x1.f1514p-10f, -0x1.c38154p-8f, 0x1.6af1fep-9f};
    return step_of(c, 6.0f, 0x1.c71c72p-5f, x);
}

// Elements i .. i + N - 1 that can be moved as vectors: of all arguments at once, so that loads are
// under way together.
template <class T>
static __device__ __forceinline__ bool is_vector(int64_t i, int64_t count, const void *a,
                                                 const void *b, const void *c) {
    constexpr int N = sr_lanes<T>;
    return i + N <= count && sr_is_aligned<T, N>(a) && sr_is_aligned<T, N>(b) &&
           sr_is_aligned<T, N>(c);
}

struct tensor_gelu_args {
    const void *x;
    void *y, *workspace;
    int64_t count;
};

template <class T> static __device__ void tensor_gelu(const tensor_gelu_args &a) {
    constexpr int N = sr_lanes<T>;
    for (int64_t i = sr_thread() * N; i < a.count; i += (int64_t)gridDim.x * THREADS * N) {
        if (is_vector<T>(i, a.count, a.x, a.y, a.y)) {
            float x[N];
            sr_load_vector<T>(a.x, i, x);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                x[k] = x[k] * normal_of(x[k]);
            sr_store_vector<T>(a.y, i, x);
            continue;
        }
        SR_UNROLL_BY(1)
        for (int64_t at = i; at < i + N && at < a.count; at++) {
            const float x = sr_load<T>(a.x, at);
            sr_store<T>(a.y, at, x * normal_of(x));
        }
    }
}
SR_CUDA_TYPED(tensor_gelu, tensor_gelu_args, THREADS, 0)

struct tensor_gelu_grad_args {
    const void *x, *dy;
    void *dx, *workspace;
    int64_t count;
};

template <class T> static __device__ void tensor_gelu_grad(const tensor_gelu_grad_args &a) {
    constexpr int N = sr_lanes<T>;
    for (int64_t i = sr_thread() * N; i < a.count; i += (int64_t)gridDim.x * THREADS * N) {
        if (is_vector<T>(i, a.count, a.x, a.dy, a.dx)) {
            float x[N], dy[N];
            sr_load_vector<T>(a.x, i, x);
            sr_load_vector<T>(a.dy, i, dy);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                dy[k] = dy[k] * slope_of(x[k]);
            sr_store_vector<T>(a.dx, i, dy);
            continue;
        }
        SR_UNROLL_BY(1)
        for (int64_t at = i; at < i + N && at < a.count; at++)
            sr_store<T>(a.dx, at, sr_load<T>(a.dy, at) * slope_of(sr_load<T>(a.x, at)));
    }
}
// Five blocks: with more, there would not be registers for both loads at once.
SR_CUDA_TYPED_WITH(tensor_gelu_grad, tensor_gelu_grad_args, THREADS, 0, (THREADS, 5))

template <class A>
static sr_status prepare(const sr_kernel_request *request, const sr_cuda_kernel *const *kernels,
                         sr_prepared *out) {
    A a = {};
    a.count = sr_cuda_params<sr_expression_params>(request)->count;
    const sr_dtype dtype = request->dtype[0];
    return sr_cuda_elementwise(request, a, kernels[dtype], sr_cuda_vectors(dtype, a.count), out);
}

sr_status sr_tensor_prepare_gelu(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<tensor_gelu_args>(request, tensor_gelu_kernels, out);
}

sr_status sr_tensor_prepare_gelu_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<tensor_gelu_grad_args>(request, tensor_gelu_grad_kernels, out);
}
