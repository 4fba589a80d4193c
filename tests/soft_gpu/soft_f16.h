// SPDX-License-Identifier: Apache-2.0
// fp16 as float, inline in C and in kernels, which link no libserried: the bits of __half2float of
// cuda_fp16.h, whose host code takes almost twice as long.
#ifndef SR_TESTS_SOFT_GPU_SOFT_F16_H
#define SR_TESTS_SOFT_GPU_SOFT_F16_H

#include <stdint.h>
#include <string.h>

static inline float soft_f32_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float soft_f16_to_f32(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest - 0x0400 < 0x7800) // neither 0 nor subnormal, and finite
        return soft_f32_of(sign | ((rest << 13) + ((127u - 15u) << 23)));
    if (rest < 0x0400)
        return sign ? -0x1p-24f * (float)rest : 0x1p-24f * (float)rest;
    return soft_f32_of(rest == 0x7c00 ? sign | 0x7f800000 : 0x7fffffff);
}

#endif
