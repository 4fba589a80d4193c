// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 draws (see rng.h): the functions of rng_inline.h.
#include "kernels/base/rng.h"

#include "kernels/base/rng_inline.h"

sr_rng4 sr_philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    return sr_philox_inline(seed, c0, c1, c2, c3);
}

void sr_rng_init(sr_rng *rng, uint64_t seed, uint32_t a, uint32_t b, uint32_t c) {
    sr_rng_init_inline(rng, seed, a, b, c);
}

uint32_t sr_rng_u32(sr_rng *rng) {
    return sr_rng_u32_inline(rng);
}

uint32_t sr_rng_below(sr_rng *rng, uint32_t n) {
    return sr_rng_below_inline(rng, n);
}

double sr_rng_uniform(sr_rng *rng, double low, double high) {
    return sr_rng_uniform_inline(rng, low, high);
}

double sr_rng_normal(sr_rng *rng) {
    return sr_rng_normal_inline(rng);
}

void sr_rng_shuffle(sr_rng *rng, uint32_t *items, uint32_t n) {
    sr_rng_shuffle_inline(rng, items, n);
}
