// SPDX-License-Identifier: Apache-2.0
// Sizes and names of element types, and fp16 conversions in integer arithmetic.
//
// fp16 is IEEE 754-2008 binary16; rounding is to nearest even and NaN stays NaN, as VCVTPS2PH does,
// so that reference and F16C kernels store the same bits. bf16 is inline in dtype.h.
#include "kernels/base/dtype.h"

static const struct {
    const char *name;
    size_t size;
} types[SR_DTYPE_COUNT] = {
    [SR_F32] = {"f32", 4}, [SR_BF16] = {"bf16", 2}, [SR_F16] = {"f16", 2}, [SR_F64] = {"f64", 8},
    [SR_U8] = {"u8", 1},   [SR_I8] = {"i8", 1},     [SR_I32] = {"i32", 4}, [SR_I64] = {"i64", 8},
};

size_t sr_dtype_size(sr_dtype dtype) {
    return (unsigned)dtype < SR_DTYPE_COUNT ? types[dtype].size : 0;
}

const char *sr_dtype_name(sr_dtype dtype) {
    return (unsigned)dtype < SR_DTYPE_COUNT ? types[dtype].name : "?";
}

bool sr_dtype_is_float(sr_dtype dtype) {
    return dtype == SR_F32 || dtype == SR_BF16 || dtype == SR_F16 || dtype == SR_F64;
}

float sr_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    float f;
    if (exponent == 0) { // zero and subnormals: mantissa * 2^-24, exact in fp32
        f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    uint32_t u = sign | mantissa << 13;
    if (exponent == 0x1f)
        u |= 0x7f800000u | (mantissa ? 0x400000u : 0); // a signalling NaN becomes quiet
    else
        u |= (exponent + 112) << 23;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t sr_f32_to_f16(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u) // 65536 and more, infinity; 65520..65536 round up below
        return (uint16_t)(sign | 0x7c00u);
    uint32_t exponent = magnitude >> 23;
    if (exponent < 102) // below 2^-25: rounds to zero
        return (uint16_t)sign;
    uint32_t kept, rest, half;
    if (exponent < 113) { // result is subnormal: shift the mantissa with its leading one
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint32_t shift = 126 - exponent;
        kept = mantissa >> shift;
        rest = mantissa & ((1u << shift) - 1);
        half = 1u << (shift - 1);
    } else {
        kept = (magnitude >> 13) - (112u << 10);
        rest = magnitude & 0x1fffu;
        half = 0x1000u;
    }
    if (rest > half || (rest == half && (kept & 1u)))
        kept++; // may carry into the exponent, up to infinity, as it should
    return (uint16_t)(sign | kept);
}
