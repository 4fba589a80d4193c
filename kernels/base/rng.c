// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 draws (see rng.h).
//
// The block function is Random123's (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11). Bounded integers by Lemire, "Fast random integer generation in an interval", ACM TOMACS
// 29(1), 2019; normals by Box and Muller, 1958, with the functions of math.h.
#include "kernels/base/rng.h"

#include <Random123/philox.h>
#include <math.h>

#include "kernels/base/math.h"

sr_rng4 sr_philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    philox4x32_ctr_t counter = {{c0, c1, c2, c3}};
    philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    philox4x32_ctr_t words = philox4x32_R(10, counter, key);
    return (sr_rng4){{words.v[0], words.v[1], words.v[2], words.v[3]}};
}

void sr_rng_init(sr_rng *rng, uint64_t seed, uint32_t a, uint32_t b, uint32_t c) {
    *rng = (sr_rng){.seed = seed, .a = a, .b = b, .c = c, .used = 4};
}

uint32_t sr_rng_u32(sr_rng *rng) {
    if (rng->used == 4) {
        rng->block = sr_philox(rng->seed, rng->a, rng->b, rng->c, rng->next++);
        rng->used = 0;
    }
    return rng->block.v[rng->used++];
}

uint32_t sr_rng_below(sr_rng *rng, uint32_t n) {
    uint64_t product = (uint64_t)sr_rng_u32(rng) * n;
    if ((uint32_t)product < n) {
        uint32_t threshold = -n % n;
        while ((uint32_t)product < threshold)
            product = (uint64_t)sr_rng_u32(rng) * n;
    }
    return (uint32_t)(product >> 32);
}

// [0, 1) with 53 bits.
static double unit53(sr_rng *rng) {
    uint64_t high = sr_rng_u32(rng) >> 5;
    uint64_t low = sr_rng_u32(rng) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

double sr_rng_uniform(sr_rng *rng, double low, double high) {
    return low + (high - low) * unit53(rng);
}

double sr_rng_normal(sr_rng *rng) {
    static const double two_pi = 6.283185307179586;
    double radius = sqrt(-2.0 * sr_log_f64(1.0 - unit53(rng))); // sqrt is exact by IEEE 754
    return radius * sr_cos(two_pi * unit53(rng));
}

void sr_rng_shuffle(sr_rng *rng, uint32_t *items, uint32_t n) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = sr_rng_below(rng, i);
        uint32_t held = items[i - 1];
        items[i - 1] = items[j];
        items[j] = held;
    }
}
