// SPDX-License-Identifier: Apache-2.0
// Element types, their sizes, and conversions from and to bf16 and fp16.
#ifndef SR_KERNELS_BASE_DTYPE_H
#define SR_KERNELS_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/base/device_code.h"

#ifdef __cplusplus
extern "C" {
#endif

// Element types.
typedef enum sr_dtype {
    SR_F32 = 0,
    SR_BF16,
    SR_F16,
    SR_F64, // for reference kernels and tests
    SR_U8,
    SR_I8,
    SR_I32,
    SR_I64,
    SR_DTYPE_COUNT
} sr_dtype;

// Bytes of one element.
size_t sr_dtype_size(sr_dtype dtype);
// "f32", "bf16", ...; "?" for an unknown number.
const char *sr_dtype_name(sr_dtype dtype);
// Whether it is f32, bf16, f16 or f64.
bool sr_dtype_is_float(sr_dtype dtype);

// bf16 is the upper half of an fp32; rounding is to nearest even, NaN stays NaN.
static inline float sr_bf16_to_f32(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// The nearest bf16, ties to even; infinity above the largest.
static inline uint16_t sr_f32_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// IEEE 754 binary16, exact; subnormal numbers, infinities and NaN included.
float sr_f16_to_f32(uint16_t h);
// The nearest binary16, ties to even; infinity above the largest.
uint16_t sr_f32_to_f16(float f);

#ifdef __cplusplus
}
#endif
#endif
