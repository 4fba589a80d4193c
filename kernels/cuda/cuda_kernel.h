// SPDX-License-Identifier: Apache-2.0
// The language of the .cu files: how kernels are defined, and element types.
//
// A kernel computes what the CPU's kernel of its numerics class computes, to the bit: class
// "reference" follows kernels/cpu/reference. Each output element, or partial sum, is formed by one
// thread in the order written there. So products and sums are rounded separately (--fmad=false),
// division and square root are IEEE's, and nothing depends on the number of blocks that run at
// once; atomics on floating-point numbers are not used.
//
// Used are threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp, __shfl_*_sync,
// __ballot_sync, integer atomics, vector types, and conversions of cuda_fp16.h and cuda_bf16.h;
// shared memory is that of sr_cuda_shared. Kernels are launched by plans alone (cuda_plan.h).
#ifndef SR_KERNELS_CUDA_KERNEL_H
#define SR_KERNELS_CUDA_KERNEL_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cuda/cuda_follow.h"
#include "kernels/cuda/cuda_plan.h"
#include "kernels/kernel_params.h"

// SR_CUDA_KERNEL(name, type, threads, barriers) { ... a.x[i] ... }
// defines the function 'name', whose struct 'a' is of this type, and name_kernel, which describes
// it. 'threads' bounds those of a block; 'barriers' is 1 where they are used. The body begins when
// the kernel in front of it has ended.
#define SR_CUDA_KERNEL(name, type, threads, barriers)                                              \
    SR_CUDA_KERNEL_WITH(name, type, threads, barriers, (threads))
// The same with what __launch_bounds__ takes: (threads, blocks of a multiprocessor at the least).
#define SR_CUDA_KERNEL_WITH(name, type, bound, has_barriers, launch_bounds)                        \
    extern "C" __global__ void __launch_bounds__ launch_bounds name(                               \
        const __grid_constant__ type a);                                                           \
    __attribute__((used, section(SR_CUDA_SECTION))) static const sr_cuda_kernel name##_kernel = {  \
        #name, (const void *)name, sizeof(type), bound, has_barriers};                             \
    static __device__ __forceinline__ void name##_body(const type &a);                             \
    extern "C" __global__ void __launch_bounds__ launch_bounds name(                               \
        const __grid_constant__ type a) {                                                          \
        sr_follow();                                                                               \
        name##_body(a);                                                                            \
    }                                                                                              \
    static __device__ __forceinline__ void name##_body(const type &a)

// SR_CUDA_TYPED(name, type, threads, barriers) defines name_f32, name_bf16 and name_f16 of the
// template 'template <class T> __device__ void name(const type &a)', and name_kernels, which
// are in the order of sr_dtype.
#define SR_CUDA_TYPED(name, type, threads, barriers)                                               \
    SR_CUDA_TYPED_WITH(name, type, threads, barriers, (threads))
#define SR_CUDA_TYPED_WITH(name, type, threads, barriers, launch_bounds)                           \
    SR_CUDA_KERNEL_WITH(name##_f32, type, threads, barriers, launch_bounds) {                      \
        name<sr_f32>(a);                                                                           \
    }                                                                                              \
    SR_CUDA_KERNEL_WITH(name##_bf16, type, threads, barriers, launch_bounds) {                     \
        name<sr_bf16>(a);                                                                          \
    }                                                                                              \
    SR_CUDA_KERNEL_WITH(name##_f16, type, threads, barriers, launch_bounds) {                      \
        name<sr_f16>(a);                                                                           \
    }                                                                                              \
    static const sr_cuda_kernel *const name##_kernels[] = {                                        \
        &name##_f32_kernel, &name##_bf16_kernel, &name##_f16_kernel};

// The element types: 'type' is what memory holds. Arithmetic is in float. 'vanishing' is the
// largest number that is rounded to zero; of_pair: one of the two elements of a word; pair: a word
// of two numbers, rounded, of which the first is in the low half.
struct sr_f32 {
    typedef float type;
    static constexpr float vanishing = 0;
    static __device__ float load(const type *p) { return *p; }
    static __device__ void store(type *p, float v) { *p = v; }
    static __device__ float rounded(float v) { return v; }
};

struct sr_bf16 {
    typedef __nv_bfloat16 type;
    static constexpr float vanishing = 0x1p-134f;
    static __device__ float load(const type *p) { return __bfloat162float(*p); }
    static __device__ void store(type *p, float v) {
        const unsigned short bits = __bfloat16_as_ushort(__float2bfloat16_rn(v));
        memcpy((void *)p, &bits, sizeof bits);
    }
    static __device__ float rounded(float v) { return __bfloat162float(__float2bfloat16_rn(v)); }
    static __device__ float of_pair(uint32_t pair, bool second) {
        return __uint_as_float(second ? pair & 0xffff0000u : pair << 16);
    }
    static __device__ uint32_t pair(float first, float second) {
        const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
        uint32_t bits;
        memcpy(&bits, (const void *)&both, sizeof bits);
        return bits;
    }
};

struct sr_f16 {
    typedef __half type;
    static constexpr float vanishing = 0x1p-25f;
    static __device__ float load(const type *p) { return __half2float(*p); }
    static __device__ void store(type *p, float v) {
        const unsigned short bits = __half_as_ushort(__float2half_rn(v));
        memcpy((void *)p, &bits, sizeof bits);
    }
    static __device__ float rounded(float v) { return __half2float(__float2half_rn(v)); }
    static __device__ float of_pair(uint32_t pair, bool second) {
        __half2 both;
        memcpy((void *)&both, &pair, sizeof both);
        return second ? __high2float(both) : __low2float(both);
    }
    static __device__ uint32_t pair(float first, float second) {
        const __half2 both = __floats2half2_rn(first, second);
        uint32_t bits;
        memcpy(&bits, (const void *)&both, sizeof bits);
        return bits;
    }
};

// Element i of an argument of type T, in float.
template <class T> static __device__ float sr_load(const void *p, int64_t i) {
    return T::load((const typename T::type *)p + i);
}
// Stores element i, rounded.
template <class T> static __device__ void sr_store(void *p, int64_t i, float v) {
    T::store((typename T::type *)p + i, v);
}

// The number of this thread in its grid, of one dimension.
static __device__ __forceinline__ int64_t sr_thread(void) {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

// The dynamic shared memory of the block.
extern __shared__ __align__(16) unsigned char sr_cuda_shared[];

static inline int64_t sr_blocks_for(int64_t count, int64_t threads) {
    return (count + threads - 1) / threads;
}

#endif
