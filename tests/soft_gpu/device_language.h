// SPDX-License-Identifier: Apache-2.0
// The language of kernels for a host compiler: what nvcc knows and g++ does not. Preset softgpu
// forces this header into every .cu file by -include; the files themselves do not differ.
//
// Conversions of cuda_fp16.h and cuda_bf16.h work as they are; those from fp16 are replaced by
// faster ones.
#ifndef SR_TESTS_SOFT_GPU_DEVICE_LANGUAGE_H
#define SR_TESTS_SOFT_GPU_DEVICE_LANGUAGE_H

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#define __launch_bounds__(...)
// Of the declaration of sr_cuda_shared, see below. The compiler refuses it where a variable is
// defined: kernels use sr_cuda_shared alone.
#define __shared__ __attribute__((__pure__))

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "tests/soft_gpu/soft_f16.h"
#include "tests/soft_gpu/soft_gpu.h"

#define threadIdx ((const uint3 &)soft_gpu_now.thread)
#define blockIdx ((const uint3 &)soft_gpu_now.block)
#define blockDim ((const uint3 &)soft_gpu_now.block_dim)
#define gridDim ((const uint3 &)soft_gpu_now.grid_dim)
#define warpSize 32

// The shared memory of the block, which is an array that a function finds. By the macro the
// declaration of the array in cuda_kernel.h is one of this function.
static inline unsigned char (*soft_gpu_shared_of(void))[] {
    return (unsigned char(*)[])soft_gpu_now.shared;
}
#define sr_cuda_shared (*soft_gpu_shared_of())
#ifdef __clang__ // which would have the attributes of a declaration before the definition
#pragma clang diagnostic ignored "-Wignored-attributes"
#endif

// kernels/cuda/cuda_follow.h, whose place this takes: that a thread has waited for the kernel in
// front.
#define SR_KERNELS_CUDA_FOLLOW_H
static inline void sr_follow(void) {
    soft_gpu_follow();
}

// ---- Barriers and warps ----

#define SOFT_GPU_PLACE(operation, mask)                                                            \
    (soft_gpu_place{operation, __FILE__, __LINE__, (uint32_t)(mask)})

#define __syncthreads() soft_gpu_barrier(SOFT_GPU_PLACE("__syncthreads", 0))
#define __syncwarp(...)                                                                            \
    soft_gpu_warp_barrier(SOFT_GPU_PLACE("__syncwarp", soft_gpu_language::mask_of(__VA_ARGS__)))
#define __ballot_sync(mask, predicate)                                                             \
    soft_gpu_ballot(SOFT_GPU_PLACE("__ballot_sync", mask), (predicate) != 0)
#define __shfl_sync(mask, ...)                                                                     \
    soft_gpu_language::shuffle(SOFT_GPU_PLACE("__shfl_sync", mask), __VA_ARGS__)
#define __shfl_up_sync(mask, ...)                                                                  \
    soft_gpu_language::shuffle_up(SOFT_GPU_PLACE("__shfl_up_sync", mask), __VA_ARGS__)
#define __shfl_down_sync(mask, ...)                                                                \
    soft_gpu_language::shuffle_down(SOFT_GPU_PLACE("__shfl_down_sync", mask), __VA_ARGS__)
#define __shfl_xor_sync(mask, ...)                                                                 \
    soft_gpu_language::shuffle_xor(SOFT_GPU_PLACE("__shfl_xor_sync", mask), __VA_ARGS__)

namespace soft_gpu_language {

static inline unsigned mask_of(unsigned mask = 0xffffffffu) {
    return mask;
}

template <class T> static inline T exchange(const soft_gpu_place &place, T value, unsigned source) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "no type of a shuffle");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = soft_gpu_exchange(place, bits, source);
    memcpy((void *)&value, &bits, sizeof value);
    return value;
}

template <class T>
static inline T shuffle(const soft_gpu_place &place, T value, int lane, int width = 32) {
    const unsigned segment = soft_gpu_lane() & ~(unsigned)(width - 1);
    return exchange(place, value, segment | ((unsigned)lane & (unsigned)(width - 1)));
}
template <class T>
static inline T shuffle_up(const soft_gpu_place &place, T value, unsigned delta, int width = 32) {
    const unsigned lane = soft_gpu_lane(), in_segment = lane & (unsigned)(width - 1);
    return exchange(place, value, in_segment < delta ? lane : lane - delta);
}
template <class T>
static inline T shuffle_down(const soft_gpu_place &place, T value, unsigned delta, int width = 32) {
    const unsigned lane = soft_gpu_lane(), in_segment = lane & (unsigned)(width - 1);
    return exchange(place, value, in_segment + delta >= (unsigned)width ? lane : lane + delta);
}
template <class T>
static inline T shuffle_xor(const soft_gpu_place &place, T value, int bits, int width = 32) {
    const unsigned lane = soft_gpu_lane(), source = lane ^ (unsigned)bits;
    const unsigned end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
    return exchange(place, value, source >= end ? lane : source);
}

template <class To, class From> static inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "another size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

} // namespace soft_gpu_language

// ---- Integers ----

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __clz(int x) {
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
static inline int __clzll(long long x) {
    return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)(((unsigned long long)a * b) >> 32);
}
static inline int __mulhi(int a, int b) {
    return (int)(((long long)a * b) >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((__extension__(unsigned __int128) a) * b) >> 64);
}
static inline long long __mul64hi(long long a, long long b) {
    return (long long)(((__extension__(__int128) a) * b) >> 64);
}
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++)
        r |= ((x >> i) & 1u) << (31 - i);
    return r;
}

template <class T> static inline T __ldg(const T *p) {
    return *p;
}

// Loads and stores with a hint for caches.
template <class T> static inline T __ldcs(const T *p) {
    return *p;
}
template <class T> static inline void __stcs(T *p, T v) {
    *p = v;
}

// ---- Integer atomics: each returns the old value ----

template <class T> static inline T atomicAdd(T *p, T v) {
    static_assert(std::is_integral<T>::value, "atomics of floating-point numbers are not used");
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicSub(T *p, T v) {
    static_assert(std::is_integral<T>::value, "atomics of floating-point numbers are not used");
    return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicAnd(T *p, T v) {
    return __atomic_fetch_and(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicOr(T *p, T v) {
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicXor(T *p, T v) {
    return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicExch(T *p, T v) {
    return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicCAS(T *p, T expected, T v) {
    (void)__atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
template <class T> static inline T atomicMax(T *p, T v) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (old < v &&
           !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
template <class T> static inline T atomicMin(T *p, T v) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v < old &&
           !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

// The blocks of a launch run on one thread of the host, so only its compiler could reorder
// accesses.
static inline void __threadfence(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// ---- Floating point ----

static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fsub_rn(float a, float b) {
    return a - b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fsqrt_rn(float a) {
    return sqrtf(a);
}
static inline float __frcp_rn(float a) {
    return 1.0f / a;
}
static inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
static inline double __dadd_rn(double a, double b) {
    return a + b;
}
static inline double __dsub_rn(double a, double b) {
    return a - b;
}
static inline double __dmul_rn(double a, double b) {
    return a * b;
}
static inline double __ddiv_rn(double a, double b) {
    return a / b;
}
static inline double __dsqrt_rn(double a) {
    return sqrt(a);
}
static inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}

static inline unsigned __float_as_uint(float x) {
    return soft_gpu_language::bits_as<unsigned>(x);
}
static inline int __float_as_int(float x) {
    return soft_gpu_language::bits_as<int>(x);
}
static inline float __uint_as_float(unsigned x) {
    return soft_gpu_language::bits_as<float>(x);
}
static inline float __int_as_float(int x) {
    return soft_gpu_language::bits_as<float>(x);
}
static inline long long __double_as_longlong(double x) {
    return soft_gpu_language::bits_as<long long>(x);
}
static inline double __longlong_as_double(long long x) {
    return soft_gpu_language::bits_as<double>(x);
}

// Out of range gives the nearest integer, and NaN gives 0, as on the device.
static inline int __float2int_rn(float x) {
    return x != x                ? 0
           : x >= 2147483648.0f  ? INT_MAX
           : x <= -2147483648.0f ? INT_MIN
                                 : (int)nearbyintf(x);
}
static inline int __float2int_rz(float x) {
    return x != x ? 0 : x >= 2147483648.0f ? INT_MAX : x <= -2147483648.0f ? INT_MIN : (int)x;
}
static inline float __int2float_rn(int x) {
    return (float)x;
}
static inline float __uint2float_rn(unsigned x) {
    return (float)x;
}
static inline float __ll2float_rn(long long x) {
    return (float)x;
}
static inline float __double2float_rn(double x) {
    return (float)x;
}

namespace soft_gpu_language {

static inline float float_of(__half h) {
    return soft_f16_to_f32(bits_as<uint16_t>(h));
}

} // namespace soft_gpu_language

#define __half2float(h) soft_gpu_language::float_of(h)
#define __low2float(pair) soft_gpu_language::float_of((pair).x)
#define __high2float(pair) soft_gpu_language::float_of((pair).y)

#define SOFT_GPU_MIN_MAX(type)                                                                     \
    static inline type min(type a, type b) {                                                       \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    static inline type max(type a, type b) {                                                       \
        return a < b ? b : a;                                                                      \
    }
SOFT_GPU_MIN_MAX(int)
SOFT_GPU_MIN_MAX(unsigned)
SOFT_GPU_MIN_MAX(long)
SOFT_GPU_MIN_MAX(unsigned long)
SOFT_GPU_MIN_MAX(long long)
SOFT_GPU_MIN_MAX(unsigned long long)
#undef SOFT_GPU_MIN_MAX
// Of a number and a NaN, the number.
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}
static inline double min(double a, double b) {
    return fmin(a, b);
}
static inline double max(double a, double b) {
    return fmax(a, b);
}

#include "tests/soft_gpu/device_mma.h"

#endif
