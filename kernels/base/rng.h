// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11), through Random123.
//
// A draw is a pure function of (seed, four counter words), independent of state, order and thread.
// Data draws use (seed; global sample position lo, hi, transform index, n-th draw). Device draws
// use (seed; step, lane, scope key, element / 4); see lanes in ARCHITECTURE.md.
#ifndef SR_KERNELS_BASE_RNG_H
#define SR_KERNELS_BASE_RNG_H

#include <stdint.h>

#include "kernels/base/device_code.h"

#ifdef __cplusplus
extern "C" {
#endif

// The four words of one draw.
typedef struct sr_rng4 {
    uint32_t v[4];
} sr_rng4;

// The four words for one counter. Zero seed and counter give 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
sr_rng4 sr_philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3);

// Uniform in [0, 1) with 24 bits, exact in fp32.
SR_DEVICE_INLINE float sr_rng_unit(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

// A stream of draws for host code: (seed, a, b, c) fixed, the fourth word counts up.
typedef struct sr_rng {
    uint64_t seed;
    uint32_t a, b, c, next;
    sr_rng4 block;
    unsigned used;
} sr_rng;

// Begins the stream of (seed, a, b, c) at its first draw.
void sr_rng_init(sr_rng *rng, uint64_t seed, uint32_t a, uint32_t b, uint32_t c);
// The next 32 bits.
uint32_t sr_rng_u32(sr_rng *rng);
// Uniform in [0, n), unbiased (Lemire's rejection); n >= 1.
uint32_t sr_rng_below(sr_rng *rng, uint32_t n);
// Uniform in [low, high) with 53 bits.
double sr_rng_uniform(sr_rng *rng, double low, double high);
// Standard normal by Box-Muller with the log and cos of math.h (no libm).
double sr_rng_normal(sr_rng *rng);
// Fisher-Yates on indices.
void sr_rng_shuffle(sr_rng *rng, uint32_t *items, uint32_t n);

#ifdef __cplusplus
}
#endif
#endif
