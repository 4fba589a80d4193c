// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels other than formulas: the arithmetic of the reference kernels on sixteen
// elements at a time, with the same bits.
//
// NAME_at computes n <= 16 elements from element i on; ELEMENTWISE makes block functions from it.
// Every params struct used here begins with 'int64_t count'; the rows of a block are elements. An
// output may be the same array as an input of its dtype: all inputs of a vector are read before it
// is written.
#ifndef SR_KERNELS_CPU_X86_ELEMENTWISE_INTERNAL_H
#define SR_KERNELS_CPU_X86_ELEMENTWISE_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

SR_INLINE sr_x86_range elements_of(const sr_kernel_args *args, int64_t block) {
    const sr_count_params *params = args->params;
    return sr_x86_block_range(params->count, block, args->block_rows);
}

// The body of a block function, see SR_X86_TYPED.
#define ELEMENTS(name)                                                                             \
    const sr_x86_range r = elements_of(args, block);                                               \
    int64_t i = r.begin;                                                                           \
    for (; i + SR_ELEMENTS <= r.end; i += SR_ELEMENTS)                                             \
        name##_at(args, i, SR_ELEMENTS, type);                                                     \
    if (i < r.end)                                                                                 \
    name##_at(args, i, (int)(r.end - i), type)
#define ELEMENTWISE(name) SR_X86_TYPED(name, ELEMENTS(name))

SR_INLINE void fill_by_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const float *s = args->p[0];
    sr_v_put(args->p[1], i, sr_v_set(s[0]), n, type);
}
ELEMENTWISE(fill_by)

// 'type' is the source type: f32 is converted to bf16, other types to f32.
SR_INLINE void cast_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const sr_dtype to = type == SR_F32 ? SR_BF16 : SR_F32;
    sr_v_put(args->p[1], i, sr_v_get(args->p[0], i, n, type), n, to);
}
ELEMENTWISE(cast)

// f32 to f16.
SR_INLINE void cast_f16_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    sr_v_put(args->p[1], i, sr_v_get(args->p[0], i, n, type), n, SR_F16);
}
SR_X86_F32(cast_f16, ELEMENTS(cast_f16))

// u8 [M,C], C <= 4: the pattern of channels repeats every 16 C elements at most.
SR_INLINE void normalize_block(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    enum { PERIOD = SR_ELEMENTS * SR_NORMALIZE_MAX_CHANNELS };
    const sr_normalize_params *params = args->params;
    const int64_t channels = params->channels, period = SR_ELEMENTS * channels;
    const sr_x86_range r = sr_x86_block_range(params->rows * channels, block, SR_X86_BLOCK);
    float mean[PERIOD], inverse[PERIOD];
    for (int64_t j = 0; j < period; j++) {
        const int64_t c = (r.begin + j) % channels;
        mean[j] = (float)params->mean[c];
        inverse[j] = (float)params->inverse_std[c];
    }
    const uint8_t *x = args->p[0];
    int64_t j = 0;
    for (int64_t i = r.begin; i < r.end; i += SR_ELEMENTS) {
        const int n = (int)sr_x86_min(SR_ELEMENTS, r.end - i);
        const sr_vi bytes = n == SR_ELEMENTS ? sr_vi_load_u8(x + i) : sr_vi_load_u8_first(x + i, n);
        const sr_vf d = sr_v_sub(sr_v_from_int(bytes), sr_v_load(mean + j));
        sr_v_put(args->p[1], i, sr_v_mul(d, sr_v_load(inverse + j)), n, type);
        j = j + SR_ELEMENTS == period ? 0 : j + SR_ELEMENTS;
    }
}

SR_X86_TYPED(normalize, normalize_block(args, block, type))

#endif
