// SPDX-License-Identifier: Apache-2.0
// Dropout: Philox4x32-10 (Salmon et al., SC'11) on sixteen counters at once, with the bits of
// sr_philox; and drop_path, with one draw for each sample (draws.h).
//
// Element e of the tensor uses word e % 4 of counter (e / 4, scope, step, lane). Sixteen counters
// give 64 words. They are distributed over the vectors so that transposing groups of four puts the
// words into the order of the tensor's elements.
#ifndef SR_KERNELS_CPU_X86_RANDOM_INTERNAL_H
#define SR_KERNELS_CPU_X86_RANDOM_INTERNAL_H

#include <math.h>

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"
#include "kernels/draws.h"

SR_INLINE void philox_elements(const uint32_t *seed, sr_vi *c) {
    const sr_vi m0 = sr_vi_set((int32_t)0xD2511F53u), m1 = sr_vi_set((int32_t)0xCD9E8D57u);
    uint32_t k0 = seed[0], k1 = seed[1];
    for (int round = 0; round < 10; round++) {
        sr_vi high0, high1;
        const sr_vi low0 = sr_vi_mul_wide(c[0], m0, &high0);
        const sr_vi low1 = sr_vi_mul_wide(c[2], m1, &high1);
        c[0] = sr_vi_xor(sr_vi_xor(high1, c[1]), sr_vi_set((int32_t)k0));
        c[2] = sr_vi_xor(sr_vi_xor(high0, c[3]), sr_vi_set((int32_t)k1));
        c[1] = low1;
        c[3] = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

typedef struct dropout_draw {
    uint32_t seed[2], scope, step, lane;
    sr_vf threshold, scale;
} dropout_draw;

SR_INLINE dropout_draw dropout_draw_of(const sr_kernel_args *args) {
    const sr_dropout_params *params = args->params;
    const int32_t *key = args->p[1];
    dropout_draw d = {.seed = {(uint32_t)key[0], (uint32_t)key[1]},
                      .scope = params->scope,
                      .step = (uint32_t)key[2],
                      .lane = (uint32_t)key[3]};
    // unit >= p, with 24 bits, is word >> 8 >= ceil(p 2^24): integers that are exact in fp32
    d.threshold = sr_v_set((float)ceil(params->probability * 0x1p24));
    d.scale = sr_v_set((float)(1.0 / (1.0 - params->probability)));
    return d;
}

// Computes the words of elements e .. e + 63 in order; e is a multiple of 4.
SR_INLINE void dropout_words(const dropout_draw *d, int64_t e, sr_vi *words) {
    static const int32_t deal[SR_ELEMENTS] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    words[0] = sr_vi_add(sr_vi_set((int32_t)(uint32_t)(e / 4)), sr_vi_load(deal));
    words[1] = sr_vi_set((int32_t)d->scope);
    words[2] = sr_vi_set((int32_t)d->step);
    words[3] = sr_vi_set((int32_t)d->lane);
    philox_elements(d->seed, words);
    sr_vi_transpose4(words);
}

SR_INLINE void dropout_block(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_dropout_params *params = args->params;
    const sr_x86_range r = sr_x86_block_range(params->count, block, args->block_rows);
    const dropout_draw draw = dropout_draw_of(args);
    for (int64_t e = r.begin; e < r.end; e += 4 * SR_ELEMENTS) {
        sr_vi words[4];
        dropout_words(&draw, e, words);
        for (int j = 0; j < 4 && e + j * SR_ELEMENTS < r.end; j++) {
            const int64_t i = e + j * SR_ELEMENTS;
            const int n = (int)sr_x86_min(SR_ELEMENTS, r.end - i);
            const sr_vf unit = sr_v_from_int(sr_vi_shift_right(words[j], 8));
            const sr_vmask keep = sr_v_ge(unit, draw.threshold);
            const sr_vf y = sr_v_mul(sr_v_get(args->p[0], i, n, type), draw.scale);
            sr_v_put(args->p[2], i, sr_v_pick(keep, y, sr_v_zero()), n, type);
        }
    }
}

SR_X86_TYPED(dropout, dropout_block(args, block, type))

SR_INLINE void drop_path_block(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_drop_path_params *p = args->params;
    const sr_x86_range r = sr_x86_block_range(p->samples * p->size, block, args->block_rows);
    const sr_vf scale = sr_v_set((float)(1.0 / (1.0 - p->probability)));
    for (int64_t begin = r.begin, end; begin < r.end; begin = end) {
        const int64_t sample = begin / p->size;
        const bool keep = sr_draw_keeps(args->p[1], p->scope, sample, p->probability);
        end = sr_x86_min((sample + 1) * p->size, r.end);
        for (int64_t i = begin; i < end; i += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, end - i);
            const sr_vf y = keep ? sr_v_mul(sr_v_get(args->p[0], i, n, type), scale) : sr_v_zero();
            sr_v_put(args->p[2], i, y, n, type);
        }
    }
}

SR_X86_TYPED(drop_path, drop_path_block(args, block, type))

#endif
