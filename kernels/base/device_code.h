// SPDX-License-Identifier: Apache-2.0
// Functions and tables that CPUs and GPUs share: a single source gives the same bits on both.
//
// In a .cu file only kernels may call them, not host code.
#ifndef SR_KERNELS_BASE_DEVICE_CODE_H
#define SR_KERNELS_BASE_DEVICE_CODE_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __CUDACC__
#define SR_DEVICE_INLINE static __device__ __forceinline__
#define SR_DEVICE_TABLE static __device__ const
#else
// Begins such a function.
#define SR_DEVICE_INLINE static inline
// Begins such a table.
#define SR_DEVICE_TABLE static const
#endif

// f64 to f32 rounded to odd: an inexact result has its last bit set, so that a second rounding to
// bf16 or f16 gives the same result as a single one (Boldo & Melquiond 2008).
SR_DEVICE_INLINE float sr_f64_to_f32_odd(double value) {
    float f = (float)value;
    if ((double)f == value || value != value)
        return f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const double magnitude = value < 0 ? -value : value;
    if ((double)(f < 0 ? -f : f) > magnitude)
        bits--; // step to the neighbour towards zero
    bits |= 1u;
    memcpy(&f, &bits, sizeof f);
    return f;
}

#ifdef __cplusplus
}
#endif
#endif
