// SPDX-License-Identifier: Apache-2.0
// Functions and tables that CPUs and GPUs share: one source, so that they give the same bits.
//
// In a .cu file they are for kernels, and host code there does not call them.
#ifndef SR_KERNELS_BASE_DEVICE_CODE_H
#define SR_KERNELS_BASE_DEVICE_CODE_H

#ifdef __CUDACC__
#define SR_DEVICE_INLINE static __device__ __forceinline__
#define SR_DEVICE_TABLE static __device__ const
#else
#define SR_DEVICE_INLINE static inline
#define SR_DEVICE_TABLE static const
#endif

#endif
