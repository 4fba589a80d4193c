// SPDX-License-Identifier: Apache-2.0
// Products by tensor cores, warp by warp: what a warp loads from shared memory and multiplies, and
// copies to shared memory that go on while it computes (PTX ISA 9.0: mma.sync.m16n8k16, ldmatrix,
// cp.async; sm_80 and later). All 32 lanes of a warp call them together.
//
// Lane l of a warp has, with g = l / 4 and t = l % 4, two 16-bit elements in each register:
//
//   a[16][16]  a[0]: (g, 2t..), a[1]: (g + 8, 2t..), a[2]: (g, 2t + 8..), a[3]: (g + 8, 2t + 8..)
//   b[16][8]   b0: (2t.., g), b1: (2t + 8.., g)
//   c[16][8]   c[0], c[1]: (g, 2t..), c[2], c[3]: (g + 8, 2t..), which are floats
//
// So two c beside each other, rounded, are an a. Products are exact; how their sums are rounded is
// the GPU's, so bits are the same on GPUs of one model.
#ifndef SR_KERNELS_CUDA_MMA_H
#define SR_KERNELS_CUDA_MMA_H

#include "kernels/cuda/cuda_kernel.h"

template <class T>
static __device__ __forceinline__ void sr_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                              uint32_t b1);
// c += a b
template <>
__device__ __forceinline__ void sr_mma<sr_bf16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void sr_mma<sr_f16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ uint32_t sr_shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// Four 8x8 matrices of 16-bit elements. Lane l names row l % 8 of matrix l / 8, 16 aligned bytes of
// shared memory. r[i] are the elements (g, 2t..) of matrix i.
static __device__ __forceinline__ void sr_load_matrix(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(sr_shared_address(row))
                 : "memory");
}
// The same, but r[i] are the elements (2t.., g).
static __device__ __forceinline__ void sr_load_matrix_transposed(uint32_t (&r)[4],
                                                                 const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(sr_shared_address(row))
                 : "memory");
}

// Begins a copy of BYTES (4, 8, 16) aligned bytes to shared memory; zeros unless 'exists', where
// 'from' is not read. The caller sees them after sr_copy_wait, other threads after a barrier, too.
template <int BYTES>
static __device__ __forceinline__ void sr_copy_async(void *to, const void *from, bool exists) {
    const int from_bytes = exists ? BYTES : 0;
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sr_shared_address(to)),
                     "l"(from), "r"(from_bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(sr_shared_address(to)),
                     "l"(from), "n"(BYTES), "r"(from_bytes)
                     : "memory");
}
// What was begun since the last call is a group.
static __device__ __forceinline__ void sr_copy_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits for all groups but the last LEFT.
template <int LEFT> static __device__ __forceinline__ void sr_copy_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// 2^x, with a relative error of 2^-22 at most (ex2.approx.ftz.f32); 0 below -126.
static __device__ __forceinline__ float sr_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
