// SPDX-License-Identifier: Apache-2.0
// Elementwise functions in numerics class "tensor": rows of kernels/expression_list.def in fp32.
// Those of class "reference" compute exp, erf and tanh in fp64, which is their limit.
//
// gelu: Phi(x) - 1/2 and Phi(x) + x phi(x) - 1/2 are odd functions, x times a function of x^2,
// which is a polynomial in s = 2 (x / L)^2 - 1 for |x| < L, where s is in [-1, 1). Beyond that they
// are -1/2 or 1/2 in fp32. Coefficients are weighted minimax fits made for this file by Lawson's
// algorithm (1961) in 120 bits.
//
// sigmoid, silu, tanh and gelu_tanh: with e = exp(-|w|), sigmoid(w) = 1 / (1 + e), or e times that
// for w < 0, and tanh(|w| / 2) = (1 - e) / (1 + e). e is 2^k (1 + q), where q = exp(r) - 1 is a
// polynomial that interpolates at Chebyshev nodes, so that 1 - e keeps small numbers, too; beyond
// |w| = 87, e counts as 0. gelu_tanh(x) = x sigmoid(w), w = sqrt(8 / pi) (x + 0.044715 x^3). The
// quotient has a denominator in [1, 2]: a polynomial and two of Newton's steps, which, other than a
// division, have no branches.
//
// Errors of all fp32 numbers, with u = 2^-24: sigmoid, silu and tanh are at most 3.7 u, 4.4 u and
// 4.4 u times their value from it where that is not below 2^-119, gelu and gelu_tanh 2.7 u and
// 2.6 u times |x|, and the factors of dy in gelu_grad, silu_grad and gelu_tanh_grad 4.3 u, 3.3 u
// and 4.3 u.
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

// ---- gelu ----

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

static __device__ __forceinline__ float gelu_of(float x) {
    return x * normal_of(x);
}

// Phi(x) + x phi(x)
static __device__ __forceinline__ float gelu_slope(float x) {
    constexpr float c[] = {0x1.e2e8c4p-4f, -0x1.e622e4p-5f, 0x1.794e0ap-5f, -0x1.5b0efap-5f,
                           0x1.6cffb8p-5f, -0x1.a144f8p-5f, 0x1.e0d21ep-5f, -0x1.076c3ap-4f,
                           0x1.11e5b4p-4f, -0x1.0d514ep-4f, 0x1.bdea3ap-5f, -0x1.29b97p-5f,
                           0x1.016c46p-5f, -0x1.0e0416p-5f, 0x1.0655c2p-6f, 0x1.aa4decp-10f,
                           0x1.f1514p-10f, -0x1.c38154p-8f, 0x1.6af1fep-9f};
    return step_of(c, 6.0f, 0x1.c71c72p-5f, x);
}

// ---- Functions of exp ----

// e^-a = scale + scale part, for 0 <= a <= 87.
struct power {
    float scale, part;
    bool vanishes; // a is beyond that
};

static __device__ __forceinline__ power power_of(float a) {
    constexpr float c[] = {1.0f,           0.5f,          0x1.55547cp-3f,
                           0x1.5554eap-5f, 0x1.123d9p-7f, 0x1.6d4324p-10f};
    // The number that is added leaves k, an integer, in the last bits.
    const float shifted = __fmaf_rn(a, -0x1.715476p+0f, 0x1.8p+23f), k = shifted - 0x1.8p+23f;
    const float r = __fmaf_rn(k, -0x1.7f7d1cp-20f, __fmaf_rn(k, -0x1.62e4p-1f, -a));
    const uint32_t bits = (__float_as_uint(shifted) << 23) + 0x3f800000u;
    return {__uint_as_float(bits), r * polynomial(c, r), a > 87.0f};
}

// e^-a
static __device__ __forceinline__ float exp_of(float a) {
    const power p = power_of(a);
    return p.vanishes ? 0.0f : __fmaf_rn(p.scale, p.part, p.scale);
}

// 1 / d for 1 <= d <= 2. The polynomial is at most 1 / 99 of the value from it.
static __device__ __forceinline__ float inverse_of(float d) {
    float y = __fmaf_rn(__fmaf_rn(0x1.4afd6ap-2f, d, -0x1.745d18p+0f), d, 0x1.0f83ep+1f);
    SR_UNROLL
    for (int i = 0; i < 2; i++)
        y = __fmaf_rn(y, __fmaf_rn(-d, y, 1.0f), y);
    return y;
}

static __device__ __forceinline__ float sigmoid_of(float w) {
    const float e = exp_of(fabsf(w));
    return (w >= 0 ? 1.0f : e) * inverse_of(1.0f + e);
}

// sigmoid(w) + factor sigmoid'(w)
static __device__ __forceinline__ float sigmoid_slope(float w, float factor) {
    const float e = exp_of(fabsf(w)), d = inverse_of(1.0f + e);
    return __fmaf_rn(factor, e * d * d, w >= 0 ? d : e * d);
}

static __device__ __forceinline__ float tanh_of(float x) {
    const power p = power_of(2.0f * fabsf(x));
    const float part = p.vanishes ? -1.0f : __fmaf_rn(p.scale, p.part, p.scale - 1.0f);
    return copysignf(part * inverse_of(2.0f + part), x);
}

// x, or a number beyond which a slope is 0 or 1; NaN for NaN.
static __device__ __forceinline__ float bounded(float x, float limit) {
    return fabsf(x) > limit ? copysignf(limit, x) : x;
}

static __device__ __forceinline__ float silu_of(float x) {
    return x * sigmoid_of(x);
}

static __device__ __forceinline__ float silu_slope(float x) {
    const float near = bounded(x, 128.0f);
    return sigmoid_slope(near, near);
}

// w of gelu_tanh at x; 1.59... is sqrt(8 / pi).
static __device__ __forceinline__ float cubic_of(float x) {
    return 0x1.988454p+0f * x * __fmaf_rn(x * x, 0.044715f, 1.0f);
}

static __device__ __forceinline__ float gelu_tanh_of(float x) {
    return x * sigmoid_of(cubic_of(x));
}

static __device__ __forceinline__ float gelu_tanh_slope(float x) {
    const float near = bounded(x, 16.0f);
    const float factor = 0x1.988454p+0f * near * __fmaf_rn(near * near, 0.134145f, 1.0f);
    return sigmoid_slope(cubic_of(near), factor);
}

// ---- Kernels ----

typedef float element_function(float x);

// y = f(x), or with a second input y = x[1] f(x[0]).
template <int INPUTS> struct element_args {
    const void *x[INPUTS];
    void *y, *workspace;
    int64_t count;
};

// Whether elements i .. i + N - 1 can be moved as vectors: of all arguments at once, so that loads
// are under way together.
template <class T, int INPUTS>
static __device__ __forceinline__ bool are_vectors(const element_args<INPUTS> &a, int64_t i) {
    constexpr int N = sr_lanes<T>;
    bool aligned = sr_is_aligned<T, N>(a.y);
    SR_UNROLL
    for (int k = 0; k < INPUTS; k++)
        aligned = aligned && sr_is_aligned<T, N>(a.x[k]);
    return aligned && i + N <= a.count;
}

// Elements i .. i + N - 1.
template <class T, int N, int INPUTS, element_function *F>
static __device__ __forceinline__ void apply(const element_args<INPUTS> &a, int64_t i) {
    float x[INPUTS][N], y[N];
    SR_UNROLL
    for (int k = 0; k < INPUTS; k++)
        sr_load_vector<T>(a.x[k], i, x[k]);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        y[k] = INPUTS > 1 ? x[INPUTS - 1][k] * F(x[0][k]) : F(x[0][k]);
    sr_store_vector<T>(a.y, i, y);
}

template <class T, int INPUTS, element_function *F>
static __device__ __forceinline__ void apply_all(const element_args<INPUTS> &a) {
    constexpr int N = sr_lanes<T>;
    for (int64_t i = sr_thread() * N; i < a.count; i += (int64_t)gridDim.x * THREADS * N) {
        if (are_vectors<T>(a, i)) {
            apply<T, N, INPUTS, F>(a, i);
            continue;
        }
        SR_UNROLL_BY(1)
        for (int64_t at = i; at < i + N && at < a.count; at++)
            apply<T, 1, INPUTS, F>(a, at);
    }
}

template <int INPUTS>
static sr_status prepare(const sr_kernel_request *request, const sr_cuda_kernel *const *kernels,
                         sr_prepared *out) {
    element_args<INPUTS> a = {};
    a.count = sr_cuda_params<sr_expression_params>(request)->count;
    const sr_dtype dtype = request->dtype[0];
    return sr_cuda_elementwise(request, a, kernels[dtype], sr_cuda_vectors(dtype, a.count), out);
}

#define ELEMENT_KERNELS(name, inputs, function, launch_bounds)                                     \
    template <class T> static __device__ void tensor_##name(const element_args<inputs> &a) {       \
        apply_all<T, inputs, function>(a);                                                         \
    }                                                                                              \
    SR_CUDA_TYPED_WITH(tensor_##name, element_args<inputs>, THREADS, 0, launch_bounds)             \
    sr_status sr_tensor_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {       \
        return prepare<inputs>(request, tensor_##name##_kernels, out);                             \
    }
#define VALUES(name, function) ELEMENT_KERNELS(name, 1, function, (THREADS))
// Five blocks: with more, there would not be registers for both loads at once.
#define GRADIENTS(name, function) ELEMENT_KERNELS(name, 2, function, (THREADS, 5))

VALUES(gelu, gelu_of)
GRADIENTS(gelu_grad, gelu_slope)
VALUES(sigmoid, sigmoid_of)
VALUES(silu, silu_of)
GRADIENTS(silu_grad, silu_slope)
VALUES(tanh, tanh_of)
VALUES(gelu_tanh, gelu_tanh_of)
GRADIENTS(gelu_tanh_grad, gelu_tanh_slope)
