// SPDX-License-Identifier: Apache-2.0
// The functions of rng.h that GPU kernels use, too: sr_philox_inline is sr_philox.
//
// The block function is Random123's (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11). Bounded integers by Lemire, "Fast random integer generation in an interval", ACM TOMACS
// 29(1), 2019; normals by Box and Muller, 1958, with the functions of math.h.
#ifndef SR_KERNELS_BASE_RNG_INLINE_H
#define SR_KERNELS_BASE_RNG_INLINE_H

#include <Random123/philox.h>
#include <math.h>

#include "kernels/base/math_inline.h"
#include "kernels/base/rng.h"

SR_DEVICE_INLINE sr_rng4 sr_philox_inline(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2,
                                          uint32_t c3) {
    philox4x32_ctr_t counter = {{c0, c1, c2, c3}};
    philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    philox4x32_ctr_t words = philox4x32_R(10, counter, key);
    sr_rng4 draw = {{words.v[0], words.v[1], words.v[2], words.v[3]}};
    return draw;
}

SR_DEVICE_INLINE void sr_rng_init_inline(sr_rng *rng, uint64_t seed, uint32_t a, uint32_t b,
                                         uint32_t c) {
    const sr_rng begin = {seed, a, b, c, 0, {{0, 0, 0, 0}}, 4};
    *rng = begin;
}

SR_DEVICE_INLINE uint32_t sr_rng_u32_inline(sr_rng *rng) {
    if (rng->used == 4) {
        rng->block = sr_philox_inline(rng->seed, rng->a, rng->b, rng->c, rng->next++);
        rng->used = 0;
    }
    return rng->block.v[rng->used++];
}

SR_DEVICE_INLINE uint32_t sr_rng_below_inline(sr_rng *rng, uint32_t n) {
    uint64_t product = (uint64_t)sr_rng_u32_inline(rng) * n;
    if ((uint32_t)product < n) {
        uint32_t threshold = -n % n;
        while ((uint32_t)product < threshold)
            product = (uint64_t)sr_rng_u32_inline(rng) * n;
    }
    return (uint32_t)(product >> 32);
}

// Uniform in [0, 1) with 53 bits.
SR_DEVICE_INLINE double sr_rng_unit53(sr_rng *rng) {
    uint64_t high = sr_rng_u32_inline(rng) >> 5;
    uint64_t low = sr_rng_u32_inline(rng) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

SR_DEVICE_INLINE double sr_rng_uniform_inline(sr_rng *rng, double low, double high) {
    return low + (high - low) * sr_rng_unit53(rng);
}

SR_DEVICE_INLINE double sr_rng_normal_inline(sr_rng *rng) {
    const double two_pi = 6.283185307179586;
    double radius = sqrt(-2.0 * sr_log_f64_inline(1.0 - sr_rng_unit53(rng))); // exact by IEEE 754
    return radius * sr_cos_inline(two_pi * sr_rng_unit53(rng));
}

SR_DEVICE_INLINE void sr_rng_shuffle_inline(sr_rng *rng, uint32_t *items, uint32_t n) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = sr_rng_below_inline(rng, i);
        uint32_t held = items[i - 1];
        items[i - 1] = items[j];
        items[j] = held;
    }
}

#endif
